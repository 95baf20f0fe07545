// A job that runs is followed by its events; without JavaScript its page has a link to see it anew.
"use strict";
const job = document.querySelector("[data-events]");
if (job && window.EventSource) {
  const events = new EventSource(job.dataset.events);
  const set = (name, text) => { const at = job.querySelector("[data-show=" + name + "]"); if (at) at.textContent = text; };
  events.addEventListener("job", (event) => {
    const seen = JSON.parse(event.data);
    set("state", seen.state);
    if (seen.progress) {
      set("label", seen.progress.label);
      set("records", seen.progress.records.toLocaleString("en"));
      const bar = job.querySelector("progress");
      if (bar && seen.progress.tasks_total) { bar.max = seen.progress.tasks_total; bar.value = seen.progress.tasks_done; }
    }
    if (seen.ended_at_ms >= 0 || seen.state === "lost") { events.close(); location.reload(); }
  });
}
