// Turns the numbers of a plot into what plotly draws; one function per kind of plot.

const MARKS = ["circle", "square", "triangle-up", "x", "star", "pentagon", "cross"];
const SAFE = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c6bb1",
  "#999999", "#b3b300", "#b07a4a", "#17becf"];
const wide = () => window.innerWidth > 640;
const toneOf = (series) => (series.tone === null ? "ink" : `tone-${series.tone}`);
const signed = (number) => `${number < 0 ? "\u2212" : "+"}${Math.abs(number).toFixed(2)}`;
const plain = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;");
const short = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}\u2026` : text);
const rowName = (text) => plain(short(text, wide() ? 30 : 16));
// Rows have numbers as their places: shortened names may be equal.
function rowAxis(names, every = 1) {
  const places = names.map((_, place) => place).filter((place) => place % every === 0);
  return {
    autorange: "reversed", showgrid: false, zeroline: false, ticksuffix: "  ",
    tickvals: places, ticktext: places.map((place) => rowName(names[place])),
  };
}

function lines(spec, chosen, series, hidden) {
  const option = spec.options[chosen.option], axis = spec.axes[chosen.axis];
  const times = option.percent ? 100 : 1, per = axis.key === "bytes" ? 1e6 : 1;
  const bands = [], curves = [];
  for (const line of option.lines) {
    const one = series[line.series];
    if (hidden.has(one.name)) continue;
    const kept = line.mean.map((_, place) => place).filter((place) => line[axis.key][place] !== null);
    const take = (values, scale) => kept.map((place) => values[place] * scale);
    const x = take(line[axis.key], 1 / per);
    if (kept.some((place) => line.low[place] !== null)) {
      const low = kept.map((place) => times * (line.low[place] ?? line.mean[place]));
      const high = kept.map((place) => times * (line.high[place] ?? line.mean[place]));
      bands.push({
        x: [...x, ...[...x].reverse()], y: [...high, ...low.reverse()], fill: "toself",
        fillcolor: faint(toneOf(one), one.placebo ? 0.06 : 0.12), line: { width: 0 }, mode: "lines",
        hoverinfo: "skip", showlegend: false, name: `${plain(one.short)}, band`,
      });
    }
    curves.push({
      x, y: take(line.mean, times), name: plain(one.short), mode: kept.length < 40 ? "lines+markers" : "lines",
      line: { color: colour(toneOf(one)), dash: one.dash, width: one.tone === null ? 2.6 : 2 },
      marker: { size: 4.5, symbol: MARKS[(one.tone ?? 0) % MARKS.length] },
      customdata: kept.map((place) => [line.rounds[place], line.seeds[place],
        line.high[place] === null ? "" : ` \u00b1${(times * (line.high[place] - line.mean[place])).toPrecision(3)}`]),
      hovertemplate: `${plain(one.short)}<br>%{y:.4~g}%{customdata[2]}${option.percent ? " %" : ""}`
        + "<br>round %{customdata[0]}, seeds: %{customdata[1]}<extra></extra>",
    });
  }
  const layout = {
    height: wide() ? 430 : 330,
    xaxis: { title: { text: axis.label }, rangemode: "tozero" },
    yaxis: { title: { text: plain(option.label) + (option.percent ? ", %" : "") } },
  };
  return { traces: [...bands, ...curves], layout };
}

// Arrows stand at the edges of the axis for what lies outside, with its number.
function arrow(row, place, tone, range, text) {
  const left = row.mean < 0;
  return {
    x: [100 * range[left ? 0 : 1]], y: [place], mode: text ? "markers+text" : "markers", hoverinfo: "skip", text: [text],
    textposition: `middle ${left ? "right" : "left"}`, textfont: { color: tone, size: 12 }, cliponaxis: false,
    marker: { size: 12, color: tone, symbol: `triangle-${left ? "left" : "right"}` },
  };
}

function interval(row, place, one, [low, high]) {
  const tone = colour(toneOf(one)), margin = row.margin ?? 0;
  const said = `${signed(100 * row.mean)}${row.margin === null ? "" : ` \u00b1${(100 * margin).toFixed(2)}`}`;
  if (row.mean < low || row.mean > high) return [arrow(row, place, tone, [low, high], said)];
  const ends = [Math.max(low, row.mean - margin), Math.min(high, row.mean + margin)];
  const cut = [row.mean - margin < low - 1e-9 && -1, row.mean + margin > high + 1e-9 && 1].filter(Boolean);
  return [{
    x: [100 * row.mean], y: [place], name: plain(one.short), mode: "markers",
    marker: { size: 10, color: row.verdict !== "undecided" ? tone : colour("ground"), line: { color: tone, width: 2 } },
    error_x: {
      type: "data", symmetric: false, array: [100 * (ends[1] - row.mean)], arrayminus: [100 * (row.mean - ends[0])],
      visible: row.margin !== null, color: tone, thickness: 1.6, width: 5,
    },
    hovertemplate: `${plain(one.short)}<br>${said} points<br>${row.verdict}<extra></extra>`,
  }, ...cut.map((mean) => arrow({ mean }, place, tone, [low, high], ""))];
}

function intervals(spec, chosen, series, hidden) {
  const option = spec.options[chosen.option];
  const rows = option.rows.filter((row) => !hidden.has(series[row.series].name));
  const edge = 0.04 * (option.range[1] - option.range[0]) || 0.01;
  const layout = {
    height: 110 + 30 * rows.length, showlegend: false,
    xaxis: { title: { text: "Percentage points" }, zeroline: true, zerolinewidth: 1.5, zerolinecolor: colour("soft"),
      range: [100 * (option.range[0] - edge), 100 * (option.range[1] + edge)] },
    yaxis: { ...rowAxis(rows.map((row) => series[row.series].short)), autorange: false, range: [rows.length - 0.5, -0.5] },
  };
  return { traces: rows.flatMap((row, place) => interval(row, place, series[row.series], option.range)), layout };
}

function heatmap(spec, chosen, series, hidden) {
  const option = spec.options[chosen.option];
  const kept = option.y.map((_, row) => row)
    .filter((row) => !option.series || !hidden.has(series[option.series[row]].name));
  const times = spec.percent ? 100 : 1;
  const z = kept.map((row) => option.z[row].map((cell) => (cell === null || (!spec.percent && cell === 0) ? null : times * cell)));
  const cells = option.x.length * kept.length;
  const places = option.x.map((_, place) => place), rows = kept.map((_, place) => place);
  const trace = {
    type: "heatmap", x: places, y: rows, z, zmin: 0, zmax: spec.percent ? 100 : Math.max(1, ...z.flat()), xgap: 2, ygap: 2,
    colorscale: [[0, colour("low")], [1, colour("high")]], showscale: cells > 400 || !wide(),
    colorbar: { thickness: 10, outlinewidth: 0, len: 0.9 },
    texttemplate: cells <= 400 && wide() ? "%{z:.0f}" : "", textfont: { color: colour("ink") }, hoverongaps: false,
    customdata: kept.map((row) => option.x.map((name) => [plain(name), plain(option.y[row])])),
    hovertemplate: `${spec.x} %{customdata[0]}<br>${spec.y} %{customdata[1]}<br>%{z:.4~g}${spec.percent ? " %" : ""}<extra></extra>`,
  };
  const every = Math.ceil(option.x.length / (wide() ? 40 : 12)), down = Math.ceil(kept.length / 60);
  const layout = {
    height: Math.min(1400, 110 + Math.max(14, Math.min(30, 900 / kept.length)) * kept.length),
    xaxis: { title: { text: spec.x }, showgrid: false, zeroline: false, tickvals: places.filter((place) => place % every === 0),
      ticktext: option.x.filter((_, place) => place % every === 0).map((name) => plain(short(name, 14))) },
    yaxis: rowAxis(kept.map((row) => option.y[row]), down),
  };
  return { traces: [trace], layout };
}

function bars(spec, chosen, series, hidden) {
  const option = spec.options[chosen.option];
  const kept = option.series.map((_, place) => place).filter((place) => !hidden.has(series[option.series[place]].name));
  const names = kept.map((place) => series[option.series[place]].short);
  const fills = ["tone-0", "tone-1", "tone-2", "tone-4", "tone-3"];
  const traces = option.parts.map((part, number) => ({
    type: "bar", orientation: "h", name: plain(part.name), y: names.map((_, place) => place), x: kept.map((place) => part.values[place]),
    marker: { color: faint(fills[number % fills.length], 0.85) },
    customdata: names.map(plain), hovertemplate: `%{customdata}<br>${plain(part.name)}: %{x:.4~g}<extra></extra>`,
  }));
  const layout = {
    height: 150 + 28 * kept.length, barmode: "stack", bargap: 0.35, showlegend: true,
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", traceorder: "normal" },
    xaxis: { title: { text: plain(option.label) } },
    yaxis: rowAxis(names),
  };
  return { traces, layout };
}

function scatter(spec, chosen) {
  const option = spec.options[chosen.option];
  const traces = [];
  [...new Set(option.classes)].sort().forEach((name, number) => {
    for (const virtual of [false, true]) {
      const kept = option.classes.map((_, place) => place)
        .filter((place) => option.classes[place] === name && option.virtual[place] === virtual);
      if (!kept.length) continue;
      traces.push({
        x: kept.map((place) => option.x[place]), y: kept.map((place) => option.y[place]), mode: "markers",
        name: plain(virtual ? `${name}, virtual` : name), showlegend: !virtual,
        marker: { size: 7, color: SAFE[number % SAFE.length], symbol: virtual ? "diamond-open" : MARKS[number % MARKS.length] },
        hovertemplate: `${plain(name)}${virtual ? ", virtual" : ""}<extra></extra>`,
      });
    }
  });
  const bare = { showgrid: false, zeroline: false, showticklabels: false };
  return { traces, layout: { height: wide() ? 560 : 420, showlegend: true, xaxis: bare, yaxis: { ...bare, scaleanchor: "x" } } };
}

const KINDS = { lines, intervals, heatmap, bars, scatter };
