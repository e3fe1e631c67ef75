// Draws the plots into their places, each with its choices above it.

const drawn = new Map(); // by name: the place, its spec, and what the reader has chosen
let report = JSON.parse(document.getElementById("data").textContent);
let printing = false;

async function loadPlotly() {
  const packed = document.getElementById("plotly").textContent;
  const bytes = Uint8Array.from(atob(packed), (sign) => sign.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const script = document.createElement("script");
  script.textContent = await new Response(stream).text();
  document.head.append(script);
}

function layoutOf(own) {
  const base = {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: printing,
    font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: colour("ink") },
    margin: { l: 8, r: 8, t: 16, b: 8 }, hovermode: "closest", dragmode: false, uirevision: "kept",
    modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("soft"), activecolor: colour("ink") },
    hoverlabel: { bgcolor: colour("raised"), bordercolor: colour("rule"), font: { color: colour("ink") }, align: "left" },
  };
  const axis = {
    gridcolor: colour("rule"), linecolor: colour("rule"), zerolinecolor: colour("rule"), automargin: true,
    tickfont: { size: 12 },
  };
  const finish = (one) => ({ ...axis, ...one, title: one.title && { standoff: 12, ...one.title } });
  return { ...base, ...own, xaxis: finish(own.xaxis), yaxis: finish(own.yaxis) };
}

function draw(name) {
  const plot = drawn.get(name), spec = report.plots[name];
  if (!plot || !spec || !window.Plotly) return;
  const group = plot.place.closest("article").id;
  const made = KINDS[spec.kind](spec, plot.chosen, report.series[group], hiddenIn(group));
  const config = {
    responsive: true, displaylogo: false, doubleClick: "reset",
    modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]], displayModeBar: true,
    toImageButtonOptions: { format: "svg", filename: name },
  };
  window.Plotly.react(plot.canvas, made.traces, layoutOf(made.layout), config);
}

function drawAll() {
  for (const name of drawn.keys()) draw(name);
}

function drawGroup(group) {
  for (const [name, plot] of drawn) if (plot.place.closest("article").id === group) draw(name);
}

// An axis of which no line has a value cannot be chosen.
function choices(spec) {
  const found = [];
  if (spec.options.length > 1) {
    const label = { lines: "Show", bars: "Show", intervals: "Difference" }[spec.kind] ?? "Of";
    found.push({ key: "option", label, names: spec.options.map((option) => option.label), off: [] });
  }
  if (spec.axes) {
    const known = spec.axes.map((axis) => spec.options.some((option) => option.lines.some((line) => line[axis.key].some((value) => value !== null))));
    found.push({ key: "axis", label: "Against", names: spec.axes.map((axis) => axis.label), off: known.map((is) => !is) });
  }
  return found;
}

function fillSelect(select, choice, chosen) {
  select.replaceChildren(...choice.names.map((name, number) => {
    const option = new Option(name, number, false, number === chosen);
    option.disabled = choice.off[number] ?? false;
    return option;
  }));
}

function makeControls(name, spec, plot) {
  const controls = document.createElement("div");
  controls.className = "controls";
  for (const choice of choices(spec)) {
    const label = document.createElement("label"), select = document.createElement("select");
    label.append(choice.label, select);
    select.dataset.choice = choice.key;
    fillSelect(select, choice, plot.chosen[choice.key]);
    select.addEventListener("change", () => { plot.chosen[choice.key] = Number(select.value); draw(name); });
    controls.append(label);
  }
  return controls;
}

// New numbers may bring new choices; what the reader has chosen stays chosen.
function updateControls(spec, plot) {
  for (const choice of choices(spec)) {
    const select = plot.place.querySelector(`select[data-choice="${choice.key}"]`);
    if (select && select.options.length !== choice.names.length) fillSelect(select, choice, plot.chosen[choice.key]);
  }
}

function addPlot(place) {
  const name = `${place.closest("article").id}-${place.dataset.plot}`, spec = report.plots[name];
  if (!spec) return;
  const plot = { place, chosen: { option: 0, axis: 0 }, canvas: document.createElement("div") };
  plot.canvas.setAttribute("role", "img");
  plot.canvas.setAttribute("aria-label", `${place.dataset.label}. The numbers are in the table below.`);
  plot.canvas.className = "canvas";
  place.append(makeControls(name, spec, plot), plot.canvas);
  drawn.set(name, plot);
}

function addPlots(root) {
  root.querySelectorAll("[data-plot]").forEach((place) => { if (!place.childElementCount) addPlot(place); });
}
