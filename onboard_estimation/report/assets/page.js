// The page: one chosen time drives picture, read-out and cursors; one range of times is shown by all charts.
const slider = byId("time");
const readoutRows = [];

// Without the sign of a zero.
const fixed = (value, digits) => value.toFixed(digits).replace(/^-(?=[0.]*$)/, "");

function buildReadout() {
  const body = byId("readout");
  for (const group of data.groups) {
    const errors = group.charts.filter(({ interval }) => !interval);
    if (errors.length) html("th", body.insertRow(), group.title).colSpan = 4;
    for (const chart of errors) {
      const row = body.insertRow();
      html("th", row, chart.label).scope = "row";
      const cells = [0, 1, 2].map(() => row.insertCell());
      for (const cell of cells) cell.className = "number";
      readoutRows.push({ chart, cells, digits: decimals(chart.high) });
    }
  }
}

function updateReadout(index) {
  byId("now").textContent = `Error at ${time[index].toFixed(2)} s`;
  for (const { chart, cells, digits } of readoutRows) {
    const [error, sigma] = [chart.lines[0].values[index], chart.band ? chart.band[index] / 3 : NaN];
    const ratio = known(error) && sigma > 0 ? error / sigma : null;
    cells[0].textContent = known(error) ? `${fixed(error, digits)} ${chart.unit}` : "no truth";
    cells[1].textContent = known(sigma) ? `${sigma.toFixed(digits)} ${chart.unit}` : "-";
    cells[2].textContent = ratio === null ? "-" : fixed(ratio, 1);
    cells[2].classList.toggle("raised", Math.abs(ratio) > 3);
  }
}

// ---- time ----
let playing = false;
let previous = 0;

function setTime(t) {
  view.now = clamp(t, first, last);
  const index = nearest(time, view.now);
  slider.value = view.now;
  slider.setAttribute("aria-valuetext", `${view.now.toFixed(1)} seconds`);
  byId("clock").textContent = `${view.now.toFixed(2)} s`;
  updateReadout(index);
  drawScene(index);
  for (const chart of charts) chart.place();
}

function setSelection(selection) {
  if (selection === view.selection) return;
  view.selection = selection;
  setTime(view.now);
}

// Shows the times from `begin` to `end` everywhere, with the chosen time among them.
function setRange(begin, end) {
  const shortest = Math.max((wholeEnd - wholeStart) / 1e5, 1e-3);
  const middle = (begin + end) / 2;
  const half = clamp((end - begin) / 2, shortest / 2, (wholeEnd - wholeStart) / 2);
  view.begin = clamp(middle - half, wholeStart, wholeEnd - 2 * half);
  view.end = view.begin + 2 * half;
  if (view.end > wholeEnd - 1e-9 && view.begin < wholeStart + 1e-9) [view.begin, view.end] = [wholeStart, wholeEnd];
  slider.min = view.begin;
  slider.max = view.end;
  slider.step = (view.end - view.begin) / 600;
  byId("zoom-whole").disabled = byId("zoom-out").disabled = isWhole();
  placeWorst();
  drawCharts();
  setTime(clamp(view.now, Math.max(view.begin, first), Math.min(view.end, last)));
}

function chooseRange(begin, end) {
  setRange(begin, end);
  remember();
}

const columnWidth = (chart) => Math.round(chart.svg.getBoundingClientRect().width);
let drawnWidths = "";

function drawCharts() {
  drawnWidths = charts.map(columnWidth).join();
  for (const chart of charts) drawChart(chart, columnWidth(chart));
}

function layout() {
  if (charts.map(columnWidth).join() !== drawnWidths) drawCharts();
  setTime(view.now);
}

// Goes to a time that may lie outside of the range.
function goTo(t) {
  pause();
  if (t < view.begin || t > view.end) setRange(wholeStart, wholeEnd);
  setTime(t);
  remember();
}

function zoom(factor) {
  const half = (0.5 * (view.end - view.begin)) / factor;
  chooseRange(view.now - half, view.now + half);
}

// The cycle that the chosen time lies in, else the next, else the last.
function zoomToCycle() {
  const { cycles } = data.phases;
  const found = cycles.find(([, end]) => end > view.now) ?? cycles[cycles.length - 1];
  pause();
  chooseRange(...found);
}

function step(stamp) {
  if (!playing) return;
  const stop = Math.min(view.end, last);
  setTime(Math.min(view.now + ((stamp - previous) / 1000) * Number(byId("speed").value), stop));
  previous = stamp;
  if (view.now >= stop) pause();
  else requestAnimationFrame(step);
}

function play() {
  if (view.now >= Math.min(view.end, last)) setTime(view.begin);
  playing = true;
  previous = performance.now();
  byId("play").textContent = "Pause";
  byId("play").setAttribute("aria-label", "Pause");
  requestAnimationFrame(step);
}

function pause() {
  playing = false;
  byId("play").textContent = "Play";
  byId("play").setAttribute("aria-label", "Play");
}

// The address may name a time and a range: report.html#t=12.5&from=10&to=20
function remember() {
  const range = isWhole() ? "" : `&from=${view.begin.toFixed(3)}&to=${view.end.toFixed(3)}`;
  history.replaceState(null, "", `#t=${view.now.toFixed(2)}${range}`);
}

function fromAddress(key, otherwise) {
  const found = new RegExp(`[#&]${key}=(-?[\\d.]+)`).exec(location.hash);
  return found && known(Number(found[1])) ? Number(found[1]) : otherwise;
}

function readAddress() {
  const [begin, end] = [fromAddress("from", wholeStart), fromAddress("to", wholeEnd)];
  view.now = clamp(fromAddress("t", first), first, last);
  setRange(begin < end ? begin : wholeStart, begin < end ? end : wholeEnd);
}

function placeWorst() {
  const mark = byId("worst-mark");
  mark.hidden = !data.worst;
  if (!data.worst) return;
  const place = (t) => clamp((t - view.begin) / (view.end - view.begin), 0, 1);
  const width = place(data.worst.end) - place(data.worst.start);
  // The thumb (16 px) keeps inside the slider: so must the mark.
  mark.style.left = `calc(8px + (100% - 16px) * ${place(data.worst.start)})`;
  mark.style.width = width > 0 ? `max(3px, (100% - 16px) * ${width})` : "0";
  mark.title = data.worst.label;
}

// ---- start ----
for (const group of [...data.groups, ...data.sections.flat()]) {
  group.time = group.time ? unpack(group.time) : time;
  for (const chart of group.charts) {
    if (chart.band) chart.band = unpack(chart.band);
    for (const line of chart.lines) line.values = unpack(line.values);
  }
}
slider.addEventListener("input", () => {
  pause();
  setTime(Number(slider.value));
});
slider.addEventListener("change", remember);
byId("play").addEventListener("click", () => (playing ? pause() : play()));
byId("view").addEventListener("change", () => setTime(view.now));
byId("worst-go")?.addEventListener("click", () => goTo(data.worst.start));
byId("zoom-cycle")?.addEventListener("click", zoomToCycle);
byId("zoom-in").addEventListener("click", () => zoom(2));
byId("zoom-out").addEventListener("click", () => zoom(0.5));
byId("zoom-whole").addEventListener("click", () => chooseRange(wholeStart, wholeEnd));

const KEYS = {
  " ": () => (playing ? pause() : play()),
  "+": () => zoom(2),
  "-": () => zoom(0.5),
  0: () => chooseRange(wholeStart, wholeEnd),
  ArrowLeft: () => goTo(clamp(view.now - (view.end - view.begin) / 100, view.begin, view.end)),
  ArrowRight: () => goTo(clamp(view.now + (view.end - view.begin) / 100, view.begin, view.end)),
};
document.addEventListener("keydown", (event) => {
  const action = KEYS[event.key];
  if (!action || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("button, select, summary, input")) return;
  event.preventDefault();
  action();
});
window.addEventListener("hashchange", () => {
  if (!location.hash.includes("=")) return; // a place on the page
  pause();
  readAddress();
});

if (data.drawing) {
  unpackDrawing(data.drawing);
  if (data.drawing.overTime) {
    byId("view").closest("label").remove();
    selectable(canvas, sceneTime);
  }
} else {
  const place = document.querySelector(".scene");
  place.replaceChildren();
  html("p", place, "This estimator has no drawing.");
}
buildReadout();
buildLegend();
buildCharts();

readAddress();
new ResizeObserver(layout).observe(byId("timeline"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", layout);
for (const [event, printing] of [["beforeprint", true], ["afterprint", false]]) {
  window.addEventListener(event, () => {
    document.documentElement.classList.toggle("printing", printing);
    for (const block of document.querySelectorAll("details")) if (printing) block.open = true;
    layout();
  });
}
