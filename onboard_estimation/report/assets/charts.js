// Charts over time: all show one range of times, in all a drag selects another.
const SVG = "http://www.w3.org/2000/svg";
const CHART_HEIGHT = 150;
const CHART_MARGIN = { left: 52, right: 8, top: 6, bottom: 20 };
const DRAG_PIXELS = 5;
const charts = [];

function element(tag, attributes, parent, text) {
  const node = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  parent.append(node);
  return node;
}

function html(tag, parent, text, kind) {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (kind) node.className = kind;
  parent.append(node);
  return node;
}

// `spec`: title, note, label; times; lines [{name, values}]; upper and lower of a band; low, high: limits of the whole.
function addChart(parent, spec) {
  const figure = html("figure", parent);
  const caption = html("figcaption", figure);
  html("strong", caption, spec.title);
  if (spec.lines.length > 1) {
    const legend = html("ul", caption, undefined, "legend");
    spec.lines.forEach((line, i) => html("li", legend, line.name, `series-${i % 8}`));
  }
  if (spec.note) html("small", caption, spec.note);
  const svg = element("svg", { role: "img", "aria-label": spec.label }, figure);
  const chart = { svg, spec, timeAt: () => first, place: () => {} };
  selectable(svg, (event) => chart.timeAt(event));
  charts.push(chart);
}

// A click chooses a time, a drag a range of times, a double click the whole run.
function selectable(node, timeAt) {
  let from = null;
  node.classList.add("selectable");
  node.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    pause();
    from = { t: timeAt(event), x: event.clientX };
    setTime(from.t);
  });
  node.addEventListener("pointermove", (event) => {
    if (!from || !event.buttons) return;
    if (event.isTrusted) node.setPointerCapture(event.pointerId);
    const far = Math.abs(event.clientX - from.x) > DRAG_PIXELS;
    setSelection(far ? [from.t, timeAt(event)].sort((a, b) => a - b) : null);
  });
  const end = (event) => {
    const chosen = event.type === "pointerup" ? view.selection : null;
    from = null;
    setSelection(null);
    if (chosen) chooseRange(...chosen);
  };
  node.addEventListener("pointerup", end);
  node.addEventListener("pointercancel", end);
  node.addEventListener("dblclick", () => chooseRange(wholeStart, wholeEnd));
}

// The limits of the whole run, or, of a range, what is drawn in it.
function verticalLimits(spec, from, to) {
  if (isWhole()) return [spec.low, spec.high];
  const arrays = [...spec.lines.map((line) => line.values), ...(spec.upper ? [spec.upper, spec.lower] : [])];
  const found = extent(arrays, from, to);
  if (!found) return [spec.low, spec.high];
  if (spec.log) return [Math.max(found[0], 0.05 * spec.lower[from]) * 0.7, found[1] * 1.4];
  const margin = 0.05 * (found[1] - found[0]) || 0.05 * Math.abs(found[1]) || 1;
  return [found[0] - margin, found[1] + margin];
}

function drawChart(chart, width) {
  const { svg, spec } = chart;
  const { begin, end } = view;
  const [left, right] = [CHART_MARGIN.left, width - CHART_MARGIN.right];
  const [above, below] = [CHART_MARGIN.top, CHART_HEIGHT - CHART_MARGIN.bottom];
  svg.replaceChildren();
  if (right - left < 20) return;
  const from = before(spec.time, begin);
  const to = Math.min(before(spec.time, end) + 1, spec.time.length - 1);
  const x = (t) => left + ((t - begin) / (end - begin)) * (right - left);
  const scale = spec.log ? (v) => Math.log10(Math.max(v, 1e-12)) : (v) => v;
  const [low, high] = verticalLimits(spec, from, to).map(scale);
  const y = (v) => clamp(below - ((scale(v) - low) / (high - low)) * (below - above), -1e4, 1e4);
  const point = (values) => (i) => `${x(spec.time[i]).toFixed(1)} ${y(values[i]).toFixed(1)}`;
  chart.timeAt = (event) => {
    const box = svg.getBoundingClientRect();
    const pixel = ((event.clientX - box.left) / box.width) * width;
    return clamp(begin + ((pixel - left) / (right - left)) * (end - begin), begin, end);
  };

  svg.setAttribute("viewBox", `0 0 ${width} ${CHART_HEIGHT}`);
  const clip = `clip-${charts.indexOf(chart)}`;
  const frame = { x: left, y: above, width: right - left, height: below - above };
  element("rect", frame, element("clipPath", { id: clip }, svg));
  const inside = element("g", { "clip-path": `url(#${clip})` }, svg);
  const area = (kind, start, stop, y, height) =>
    element("rect", { class: kind, x: x(start), y, width: Math.max(x(stop) - x(start), 0.5), height }, inside);

  if (data.worst && spec.worst) area("worst-area", data.worst.start, data.worst.end, above, below - above);
  const rows = spec.log ? decades(low, high) : ticks(low, high, 4);
  for (const value of rows.values) {
    const level = y(value).toFixed(1);
    element("line", { class: "grid-line", x1: left, x2: right, y1: level, y2: level }, svg);
    const text = spec.log ? String(Number(value.toPrecision(3))) : value.toFixed(rows.digits);
    element("text", { x: left - 5, y: level, "text-anchor": "end", "dominant-baseline": "middle" }, svg, text);
  }
  const columns = ticks(begin, end, Math.max(3, Math.floor(width / 90)));
  columns.values.forEach((value, i) => {
    const text = value.toFixed(columns.digits) + (i === columns.values.length - 1 ? " s" : "");
    const anchor = x(value) > right - 14 ? "end" : "middle";
    element("text", { x: x(value).toFixed(1), y: below + 14, "text-anchor": anchor }, svg, text);
  });

  const most = 2 * (right - left);
  for (const run of runs(shown(spec.upper ?? [], from, spec.upper ? to : -1, most), spec.upper, spec.lower)) {
    const outline = [...run.map(point(spec.upper)), ...run.reverse().map(point(spec.lower))];
    element("path", { class: "area", d: `M${outline.join("L")}Z` }, inside);
  }
  spec.lines.forEach(({ values }, i) => {
    // `h0` makes a run of one instant visible as a dot.
    const pieces = runs(shown(values, from, to, most), values).map((run) => `M${run.map(point(values)).join("L")}h0`);
    if (pieces.length) element("path", { class: `line series-${i % 8}`, d: pieces.join("") }, inside);
  });
  data.events.forEach((event, row) => {
    for (const span of event.spans) {
      area("event-area", ...span, below - 4 - 5 * row, 4);
      if (event.name === "fault") area("event-area", span[0], span[0], above, below - above);
    }
  });
  (data.phases?.spans ?? []).forEach((spans, i) => {
    for (const span of spans) if (span[1] >= begin && span[0] <= end) area(`phase-${i % 6}`, ...span, below - 5, 5);
  });
  const selection = element("rect", { class: "selection", x: 0, y: above, width: 0, height: below - above }, inside);
  const cursor = element("line", { class: "cursor", x1: 0, x2: 0, y1: above, y2: below }, inside);
  chart.place = () => {
    cursor.setAttribute("transform", `translate(${x(view.now).toFixed(1)} 0)`);
    const [start, stop] = view.selection ?? [begin, begin];
    selection.setAttribute("x", x(start));
    selection.setAttribute("width", x(stop) - x(start));
  };
  chart.place();
}

// Runs of indices at which all arrays are known.
function runs(indices, ...arrays) {
  const found = [];
  let current = null;
  for (const i of indices) {
    if (arrays.every((values) => known(values[i]))) {
      if (!current) found.push((current = []));
      current.push(i);
    } else current = null;
  }
  return found;
}

// Each group below its heading: errors and consistency in their place, what a robot adds in its section.
function buildCharts() {
  for (const group of data.groups) buildGroup(byId("charts"), group);
  for (const place of document.querySelectorAll("[data-section]")) {
    for (const group of data.sections[Number(place.dataset.section)]) buildGroup(place, group);
  }
}

function buildGroup(place, group) {
  html("small", html("h3", place, `${group.title} `), group.remark);
  for (const chart of group.charts) {
    const filled = (value) => new Float32Array(group.time.length).fill(value);
    const [low, high] = chart.interval ?? [];
    addChart(place, {
      title: chart.title,
      note: chart.note,
      label: `${group.title}: ${chart.title} over time${chart.band ? " with the 3-sigma band" : chart.interval ? " with the 95 % band" : ""}`,
      time: group.time,
      lines: chart.lines,
      upper: chart.interval ? filled(high) : chart.band,
      lower: chart.interval ? filled(low) : chart.band?.map((value) => -value),
      low: chart.low,
      high: chart.high,
      log: chart.interval !== null,
      worst: chart.worst,
    });
  }
}

function buildLegend() {
  const legend = byId("chart-legend");
  for (const event of data.events) html("li", legend, event.name, "event");
  for (const place of [byId("scene-legend"), legend]) {
    if (place) (data.phases?.names ?? []).forEach((phase, i) => html("li", place, phase, `phase-${i % 6}`));
  }
  if (data.worst) html("li", legend, data.worst.label, "worst");
}
