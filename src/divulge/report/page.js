// Draws every chart of the page from the data beside it. Expressions are interpreted (`ast`), for the page's
// policy forbids `eval`; styles are in the page's own sheet, for the policy forbids any other.
const config = JSON.parse(document.getElementById("chart-config").textContent);

const values = (column) => column.names ? column.at.map((place) => column.names[place]) : column;

const rows = (columns) => {
  const [names, lists] = [Object.keys(columns), Object.values(columns).map(values)];
  return lists[0].map((_, row) => Object.fromEntries(names.map((name, place) => [name, lists[place][row]])));
};

for (const holder of document.querySelectorAll("[data-chart]")) {
  const { spec, data } = JSON.parse(document.getElementById(holder.dataset.chart).textContent);
  spec.datasets = Object.fromEntries(Object.entries(data).map(([name, columns]) => [name, rows(columns)]));
  vegaEmbed(holder, spec, {
    mode: "vega-lite",
    config,
    ast: true,
    renderer: "svg",
    actions: false,
    defaultStyle: false,
    tooltip: { disableDefaultStyle: true },
  }).then(
    () => { holder.dataset.drawn = "yes"; },
    (problem) => { holder.textContent = `This chart could not be drawn: ${problem.message}`; },
  );
}
