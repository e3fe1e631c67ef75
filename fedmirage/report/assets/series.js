// The buttons that switch a row off in all plots of its group.

const hidden = new Map(); // by group: the names of the rows that are switched off

function hiddenIn(group) {
  if (!hidden.has(group)) hidden.set(group, new Set());
  return hidden.get(group);
}

function swatch(series) {
  const drawing = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
  const dashes = { dash: "6 3", dot: "2 3", longdashdot: "8 3 2 3", solid: "none" };
  const parts = { x1: 0, y1: 5, x2: 26, y2: 5, "stroke-width": 3, "stroke-dasharray": dashes[series.dash] };
  for (const [key, value] of Object.entries(parts)) line.setAttribute(key, value);
  line.style.stroke = `var(--${toneOf(series)})`;
  drawing.setAttribute("viewBox", "0 0 26 10");
  drawing.setAttribute("aria-hidden", "true");
  drawing.append(line);
  return drawing;
}

function showState(legend, group) {
  for (const button of legend.querySelectorAll("button[data-name]"))
    button.setAttribute("aria-pressed", String(!hiddenIn(group).has(button.dataset.name)));
}

function seriesButton(series, group, legend) {
  const button = document.createElement("button");
  button.type = "button";
  button.dataset.name = series.name;
  button.title = series.name;
  button.append(swatch(series), series.placebo ? "placebo" : series.short);
  if (series.placebo) button.setAttribute("aria-label", series.short);
  button.addEventListener("click", () => {
    const off = hiddenIn(group);
    if (!off.delete(series.name)) off.add(series.name);
    showState(legend, group);
    drawGroup(group);
  });
  return button;
}

function placeboButton(rows, group, legend) {
  const button = document.createElement("button"), off = hiddenIn(group);
  button.type = "button";
  button.className = "all-placebos";
  button.textContent = "all placebos";
  button.addEventListener("click", () => {
    const placebos = rows.filter((series) => series.placebo).map((series) => series.name);
    const anyShown = placebos.some((name) => !off.has(name));
    for (const name of placebos) { if (anyShown) off.add(name); else off.delete(name); }
    showState(legend, group);
    drawGroup(group);
  });
  return button;
}

// The buttons stand before the first plot of a group, and stay in sight below it.
function addLegend(article) {
  const group = article.id, rows = report.series[group] ?? [];
  let legend = article.querySelector(":scope > .switches");
  const names = JSON.stringify(rows.map((series) => series.name));
  if (rows.length < 2 || legend?.dataset.names === names) return;
  const first = article.querySelector(`#${group}-curves`);
  if (!first) return;
  legend?.remove();
  legend = document.createElement("div");
  legend.className = "switches";
  legend.dataset.names = names;
  legend.setAttribute("role", "group");
  legend.setAttribute("aria-label", "Methods lines in the plots");
  legend.append(...rows.map((series) => seriesButton(series, group, legend)));
  if (rows.filter((series) => series.placebo).length > 1) legend.append(placeboButton(rows, group, legend));
  first.before(legend);
  showState(legend, group);
}
