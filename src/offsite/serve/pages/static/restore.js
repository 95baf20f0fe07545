// The form of a restore: the line of time chooses and zooms, a tick means "only the ticked ones".
"use strict";
const form = document.getElementById("restore");
const line = document.querySelector("[data-timeline]");
const radioOf = (commit) => document.getElementById("p" + commit);
function markChosen() {
  const chosen = form.querySelector("input[name=point]:checked");
  for (const bar of line ? line.querySelectorAll("[data-commit]") : []) {
    bar.classList.toggle("chosen", chosen !== null && chosen.value === "commit-" + bar.dataset.commit);
  }
}
function showCount() {
  const isAll = document.getElementById("all").checked;
  const ticked = form.querySelectorAll("input[name^='pick.']:checked").length + Number(form.dataset.kept);
  const count = isAll ? Number(form.dataset.all) : ticked;
  form.querySelector("[data-count]").textContent = count.toLocaleString("en") + (count === 1 ? " topic" : " topics");
}
function showChoice(changed) {
  const show = (name, text) => { form.querySelector("[data-" + name + "]").textContent = text; };
  const { name, value } = changed;
  if (name.startsWith("pick.") || name.startsWith("as.") || name === "which") show("names", "");
  if (name === "point") show("point", value ? value.replace("-", " ") : "the newest restore point");
  if (name === "at") show("at", value ? ", records up to " + value : "");
  if (name === "target") show("target", value);
}
if (line) {
  line.classList.add("direct");
  line.addEventListener("click", (event) => {
    const commit = event.target.dataset.commit;
    if (!commit) return;
    const zoom = form.querySelector("[data-zoom='" + commit + "']");
    if (zoom) { zoom.click(); return; }
    radioOf(commit).click();
    radioOf(commit).scrollIntoView({ block: "nearest" });
  });
}
form.addEventListener("change", (event) => {
  if (event.target.name.startsWith("pick.")) document.getElementById("some").checked = true;
  if (event.target.id === "all") form.elements.which_before.value = "some"; // by hand: ticks from before do not count
  if (event.target.name === "point") markChosen();
  showCount();
  showChoice(event.target);
});
markChosen();
