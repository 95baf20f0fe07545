// A job that runs is followed by its events; without JavaScript its page has a link to see it anew.
"use strict";
const job = document.querySelector("[data-events]");
if (job && window.EventSource) {
  const events = new EventSource(job.dataset.events);
  const set = (name, text) => { const at = job.querySelector("[data-show=" + name + "]"); if (at) at.textContent = text; };
  // The server writes rates and rows: these parts of the page are taken from it, unless somebody is in them.
  const renew = async () => {
    const there = new DOMParser().parseFromString(await (await fetch(location.href)).text(), "text/html");
    for (const part of ["[data-topics]", "[data-show=rate]"]) {
      const [from, to] = [there.querySelector(part), job.querySelector(part)];
      if (from && to && !to.contains(document.activeElement)) to.replaceChildren(...from.childNodes);
    }
  };
  let last = 0;
  events.addEventListener("job", (event) => {
    const seen = JSON.parse(event.data);
    set("state", seen.state);
    if (seen.progress) {
      set("label", seen.progress.label);
      set("records", seen.progress.records.toLocaleString("en"));
      const bar = job.querySelector("progress");
      if (bar && seen.progress.tasks_total) { bar.max = seen.progress.tasks_total; bar.value = seen.progress.tasks_done; }
      if (Date.now() - last > 3000) { last = Date.now(); renew().catch(() => {}); }
    }
    if (seen.ended_at_ms >= 0 || seen.state === "lost") { events.close(); location.reload(); }
  });
}

// A command can be copied with a button, where the browser lets a page do so.
for (const command of navigator.clipboard ? document.querySelectorAll("pre.copied") : []) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "plain";
  button.textContent = "Copy";
  button.addEventListener("click", () => navigator.clipboard.writeText(command.textContent).then(() => { button.textContent = "Copied"; }));
  command.after(button);
}
