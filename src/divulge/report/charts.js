// Draws every chart of the page from the data beside it: those in sight at once, those behind folds when there is time, or
// when they are unfolded. Expressions are interpreted (`ast`), for the page's policy forbids `eval`; styles are in the page's
// own sheet, for the policy forbids any other.
const config = JSON.parse(document.getElementById("chart-config").textContent);

const values = (column) => column.names ? column.at.map((place) => column.names[place]) : column;

const rows = (columns) => {
  const [names, lists] = [Object.keys(columns), Object.values(columns).map(values)];
  return lists[0].map((_, row) => Object.fromEntries(names.map((name, place) => [name, lists[place][row]])));
};

// What is folded has no width yet: that of the box around it, less its edges, in one column or two as the style sheet has it.
const width = (holder) => {
  if (holder.clientWidth) return holder.clientWidth;
  const box = holder.closest(".finding, main");
  const edges = getComputedStyle(box);
  const room = box.clientWidth - parseFloat(edges.paddingLeft) - parseFloat(edges.paddingRight);
  const charts = [...holder.closest(".charts").children];
  const alone = charts.length % 2 === 1 && charts.at(-1) === holder.closest(".chart");
  return matchMedia("(min-width: 56rem)").matches && !alone ? (room - 32) / 2 : room;
};

const draw = (holder) => {
  if (holder.dataset.begun) return;
  holder.dataset.begun = "yes";
  const { spec, data } = JSON.parse(document.getElementById(holder.dataset.chart).textContent);
  spec.datasets = Object.fromEntries(Object.entries(data).map(([name, columns]) => [name, rows(columns)]));
  spec.width = Math.floor(width(holder));
  spec.autosize = { type: "fit-x", contains: "padding" };
  vegaEmbed(holder, spec, {
    mode: "vega-lite",
    config,
    ast: true,
    renderer: "svg",
    actions: false,
    defaultStyle: false,
    tooltip: { disableDefaultStyle: true },
  }).then(
    () => {
      holder.querySelector("svg").setAttribute("aria-hidden", "true"); // the holder names it: one picture, not a thousand marks
      holder.dataset.drawn = "yes";
    },
    (problem) => { holder.textContent = `This chart could not be drawn: ${problem.message}`; },
  );
};

const waiting = [...document.querySelectorAll("[data-chart]")];
const whenIdle = window.requestIdleCallback ?? ((later) => setTimeout(later, 50));

const next = () => {
  const holder = waiting.shift();
  if (!holder) return;
  draw(holder);
  whenIdle(next);
};

for (const fold of document.querySelectorAll("details")) {
  fold.addEventListener("toggle", () => {
    if (fold.open) for (const holder of fold.querySelectorAll("[data-chart]")) if (holder.clientWidth) draw(holder);
  });
}
for (const holder of waiting) if (holder.clientWidth) draw(holder);
whenIdle(next);
