"use strict";
// Replay of a run: one chosen time drives the scene, the read-out and the cursors of all charts.
(() => {
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const time = data.time;
  const first = time[0];
  const last = time[time.length - 1];
  const slider = byId("time");
  let now = first;

  // ---- numbers ----
  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
  const known = (value) => value !== null && value !== undefined;
  const decimals = (scale) => clamp(2 - Math.floor(Math.log10(scale || 1)), 0, 6);

  function nearest(t) {
    let low = 0;
    let high = time.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (time[middle] <= t) low = middle;
      else high = middle;
    }
    return t - time[low] <= time[high] - t ? low : high;
  }

  function ticks(low, high, wanted) {
    const rough = (high - low) / wanted;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999);
    const values = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) values.push(i * step);
    return { values, digits: clamp(-Math.floor(Math.log10(step) + 1e-9), 0, 8) };
  }

  // ---- charts ----
  const charts = [];

  function element(name, attributes, parent, text) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    parent.append(node);
    return node;
  }

  // Runs of neighbouring indices at which all arrays are known.
  function runs(...arrays) {
    const found = [];
    let current = null;
    for (let i = 0; i < time.length; i++) {
      if (arrays.every((values) => known(values[i]))) {
        if (!current) found.push((current = []));
        current.push(i);
      } else current = null;
    }
    return found;
  }

  function addChart(parent, spec) {
    const svg = element("svg", { role: "img", "aria-label": spec.label }, parent);
    const chart = { svg, spec, cursor: null, x: null };
    const pick = (event) => {
      if (event.type === "pointermove" && !event.buttons) return;
      const box = svg.getBoundingClientRect();
      pause();
      setTime(chart.x.invert(((event.clientX - box.left) / box.width) * chart.width));
    };
    svg.addEventListener("pointerdown", pick);
    svg.addEventListener("pointermove", pick);
    charts.push(chart);
  }

  function drawChart(chart, width) {
    const { svg, spec } = chart;
    const height = 150;
    const [left, right, top, bottom] = [48, width - 8, 22, height - 20];
    const span = last - first || 1;
    const start = last > first ? first : first - 0.5;
    const x = (t) => left + ((t - start) / span) * (right - left);
    const scale = spec.log ? (v) => Math.log10(Math.max(v, 1e-12)) : (v) => v;
    const [low, high] = [scale(spec.low), scale(spec.high)];
    const y = (v) => bottom - ((scale(v) - low) / (high - low)) * (bottom - top);
    const point = (values) => (i) => `${x(time[i]).toFixed(1)} ${y(values[i]).toFixed(1)}`;
    chart.width = width;
    chart.x = { invert: (pixel) => start + ((pixel - left) / (right - left)) * span };

    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const clip = `clip-${charts.indexOf(chart)}`;
    element("rect", { x: left, y: top, width: right - left, height: bottom - top }, element("clipPath", { id: clip }, svg));
    const inside = element("g", { "clip-path": `url(#${clip})` }, svg);

    if (data.worst && spec.worst) {
      const begin = x(data.worst.start);
      element("rect", { class: "worst-area", x: begin, y: top, width: x(data.worst.end) - begin, height: bottom - top }, inside);
    }
    const rows = spec.log ? decades(low, high) : ticks(low, high, 4);
    for (const value of rows.values) {
      const level = y(value).toFixed(1);
      element("line", { class: "grid-line", x1: left, x2: right, y1: level, y2: level }, svg);
      const text = spec.log ? String(Number(value.toPrecision(3))) : value.toFixed(rows.digits);
      element("text", { x: left - 5, y: level, "text-anchor": "end", "dominant-baseline": "middle" }, svg, text);
    }
    const columns = ticks(start, start + span, Math.max(3, Math.floor(width / 90)));
    columns.values.forEach((value, i) => {
      const text = value.toFixed(columns.digits) + (i === columns.values.length - 1 ? " s" : "");
      const anchor = x(value) > right - 10 ? "end" : "middle";
      element("text", { x: x(value).toFixed(1), y: bottom + 14, "text-anchor": anchor }, svg, text);
    });
    for (const run of runs(spec.upper, spec.lower)) {
      const outline = [...run.map(point(spec.upper)), ...run.reverse().map(point(spec.lower))];
      element("path", { class: "area", d: `M${outline.join("L")}Z` }, inside);
    }
    // `h0` makes a run of one instant visible as a dot.
    for (const run of runs(spec.line)) element("path", { class: "line", d: `M${run.map(point(spec.line)).join("L")}h0` }, inside);
    data.events.forEach((event, row) => {
      for (const [begin, end] of event.spans) {
        element("rect", { class: "event-area", x: x(begin), y: bottom - 4 - 5 * row, width: Math.max(x(end) - x(begin), 0.5), height: 4 }, inside);
      }
    });
    element("text", { class: "title", x: left, y: 14 }, svg, spec.title);
    element("text", { x: right, y: 14, "text-anchor": "end" }, svg, spec.note);
    chart.cursor = element("line", { class: "cursor", x1: 0, x2: 0, y1: top, y2: bottom }, svg);
    chart.place = () => chart.cursor.setAttribute("transform", `translate(${x(now).toFixed(1)} 0)`);
    chart.place();
  }

  function decades(low, high) {
    const values = [];
    for (let exponent = Math.ceil(low - 1e-9); exponent <= high; exponent++) values.push(10 ** exponent);
    return { values };
  }

  function buildCharts() {
    const parent = byId("charts");
    for (const part of data.parts) {
      const heading = document.createElement("h3");
      const remark = document.createElement("small");
      heading.textContent = `${part.label} `;
      remark.textContent = part.remark;
      heading.append(remark);
      parent.append(heading);
      for (const trace of part.traces) {
        const band = trace.sigma.map((sigma) => (known(sigma) ? 3 * sigma : null));
        addChart(parent, {
          title: `${trace.name} (${trace.unit})`,
          note: part.hasTruth ? trace.offScale : "no truth",
          label: `Error of ${trace.name} in ${trace.unit} over time with the 3-sigma band`,
          line: trace.error,
          upper: band,
          lower: band.map((value) => (known(value) ? -value : null)),
          low: -trace.limit,
          high: trace.limit,
          worst: part.worst,
        });
      }
      if (!part.hasTruth) continue;
      const positive = part.nees.filter((value) => value > 0);
      const [low, high] = part.band;
      addChart(parent, {
        title: "NEES",
        note: `band: 95 % chi-square, ${part.dimension} degrees of freedom`,
        label: `NEES of ${part.label} over time with its 95 % chi-square band`,
        line: part.nees.map((value) => (value > 0 ? value : null)),
        upper: time.map(() => high),
        lower: time.map(() => low),
        low: Math.max(Math.min(low, ...positive), 0.05 * low) * 0.7,
        high: Math.max(high, ...positive) * 1.4,
        log: true,
        worst: part.worst,
      });
    }
    const legend = byId("chart-legend");
    const entries = data.events.map((event) => ["event", event.name]);
    if (data.worst) entries.push(["worst", data.worst.label]);
    for (const [kind, text] of entries) {
      const item = document.createElement("li");
      item.className = kind;
      item.textContent = text;
      legend.append(item);
    }
  }

  // ---- read-out ----
  const readoutRows = [];

  function buildReadout() {
    const body = byId("readout");
    for (const part of data.parts) {
      const heading = document.createElement("th");
      heading.colSpan = 4;
      heading.textContent = part.hasTruth ? part.label : `${part.label}: no truth`;
      body.insertRow().append(heading);
      for (const trace of part.traces) {
        const row = body.insertRow();
        const name = document.createElement("th");
        name.scope = "row";
        name.textContent = trace.name;
        row.append(name);
        const cells = [0, 1, 2].map(() => row.insertCell());
        for (const cell of cells) cell.className = "number";
        readoutRows.push({ trace, cells, digits: decimals(trace.limit) });
      }
    }
  }

  function updateReadout(index) {
    byId("now").textContent = `Error at ${time[index].toFixed(2)} s`;
    for (const { trace, cells, digits } of readoutRows) {
      const [error, sigma] = [trace.error[index], trace.sigma[index]];
      const ratio = known(error) && sigma > 0 ? error / sigma : null;
      cells[0].textContent = known(error) ? `${error.toFixed(digits)} ${trace.unit}` : "no truth";
      cells[1].textContent = known(sigma) ? `${sigma.toFixed(digits)} ${trace.unit}` : "-";
      cells[2].textContent = ratio === null ? "-" : ratio.toFixed(1);
      cells[2].classList.toggle("raised", Math.abs(ratio) > 3);
    }
  }

  // ---- scene ----
  const canvas = byId("scene");
  const margin = { left: 50, right: 10, top: 10, bottom: 36 };

  function bounds(polylines) {
    const box = { low: [Infinity, Infinity], high: [-Infinity, -Infinity] };
    for (const line of polylines) {
      if (!line) continue;
      line.forEach((value, i) => {
        if (!known(value)) return;
        box.low[i % 2] = Math.min(box.low[i % 2], value);
        box.high[i % 2] = Math.max(box.high[i % 2], value);
      });
    }
    return box.low[0] <= box.high[0] ? box : { low: [-1, -1], high: [1, 1] };
  }

  function sceneView(index) {
    const drawing = data.drawing;
    if (byId("view").value === "close" && known(drawing.centre[index][0])) {
      return { centre: drawing.centre[index], size: [drawing.closeUp, drawing.closeUp] };
    }
    const { low, high } = drawing.bounds;
    return { centre: [(low[0] + high[0]) / 2, (low[1] + high[1]) / 2], size: [high[0] - low[0], high[1] - low[1]] };
  }

  function drawScene(index) {
    const drawing = data.drawing;
    if (!drawing) return;
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(`--${name}`).trim();
    const width = canvas.clientWidth;
    const whole = drawing.bounds;
    const inner = width - margin.left - margin.right;
    const ratio = (whole.high[1] - whole.low[1]) / (whole.high[0] - whole.low[0] || 1);
    const height = clamp(inner * ratio + margin.top + margin.bottom, 260, Math.max(300, Math.min(width, 520)));
    const density = window.devicePixelRatio || 1;
    canvas.style.height = `${height}px`;
    canvas.width = Math.round(width * density);
    canvas.height = Math.round(height * density);
    const pen = canvas.getContext("2d");
    pen.scale(density, density);

    const box = [inner, height - margin.top - margin.bottom];
    const view = sceneView(index);
    const scale = Math.min(box[0] / view.size[0], box[1] / view.size[1]);
    const x = (value) => margin.left + box[0] / 2 + (value - view.centre[0]) * scale;
    const y = (value) => margin.top + box[1] / 2 - (value - view.centre[1]) * scale;

    pen.font = "11px system-ui, sans-serif";
    pen.strokeStyle = color("rule");
    pen.fillStyle = color("faint");
    pen.lineWidth = 1;
    const factor = drawing.factor;
    for (const axis of [0, 1]) {
      const half = box[axis] / 2 / scale;
      const marks = ticks((view.centre[axis] - half) * factor, (view.centre[axis] + half) * factor, Math.max(2, box[axis] / (axis === 0 ? 80 : 45)));
      for (const mark of marks.values) {
        const text = mark.toFixed(marks.digits);
        pen.beginPath();
        if (axis === 0) {
          pen.moveTo(x(mark / factor), margin.top);
          pen.lineTo(x(mark / factor), margin.top + box[1]);
          pen.textAlign = "center";
          pen.fillText(text, x(mark / factor), margin.top + box[1] + 13);
        } else {
          pen.moveTo(margin.left, y(mark / factor));
          pen.lineTo(margin.left + box[0], y(mark / factor));
          pen.textAlign = "right";
          pen.fillText(text, margin.left - 5, y(mark / factor) + 4);
        }
        pen.stroke();
      }
    }
    pen.textAlign = "center";
    pen.fillText(drawing.axes[0], margin.left + box[0] / 2, height - 6);
    pen.save();
    pen.translate(12, margin.top + box[1] / 2);
    pen.rotate(-Math.PI / 2);
    pen.fillText(drawing.axes[1], 0, 0);
    pen.restore();

    pen.save();
    pen.beginPath();
    pen.rect(margin.left, margin.top, box[0], box[1]);
    pen.clip();
    pen.lineJoin = "round";
    const trail = (points, begin, end) => {
      let down = false;
      pen.beginPath();
      for (let i = begin; i <= end; i++) {
        const at = points[i];
        if (!at || !known(at[0])) down = false;
        else if (down) pen.lineTo(x(at[0]), y(at[1]));
        else {
          pen.moveTo(x(at[0]), y(at[1]));
          down = true;
        }
      }
      pen.stroke();
    };
    const robot = (line, name, dashed) => {
      if (!line || line.some((value) => !known(value))) return;
      pen.strokeStyle = pen.fillStyle = color(name);
      pen.lineWidth = 3;
      pen.setLineDash(dashed ? [6, 4] : []);
      pen.beginPath();
      for (let i = 0; i < line.length; i += 2) pen.lineTo(x(line[i]), y(line[i + 1]));
      pen.stroke();
      pen.setLineDash([]);
      for (let i = 0; i < line.length; i += 2) {
        pen.beginPath();
        pen.arc(x(line[i]), y(line[i + 1]), line.length > 2 ? 4 : 6, 0, 2 * Math.PI);
        if (dashed) {
          pen.lineWidth = 2;
          pen.stroke();
        } else pen.fill();
      }
    };
    for (const [points, name, dash] of [[drawing.truthCentre, "truth", [5, 4]], [drawing.centre, "estimate", []]]) {
      pen.strokeStyle = color(name);
      pen.lineWidth = 1.5;
      pen.setLineDash(dash);
      pen.globalAlpha = 0.35;
      trail(points, index, time.length - 1);
      pen.globalAlpha = 1;
      trail(points, 0, index);
    }
    robot(drawing.truth[index], "truth", true);
    robot(drawing.estimate[index], "estimate", false);
    const [xx, xy, yy] = drawing.ellipse[index] || [];
    const centre = drawing.centre[index];
    if (known(xx) && known(centre[0])) {
      const mean = (xx + yy) / 2;
      const spread = Math.hypot((xx - yy) / 2, xy);
      const radius = (variance) => Math.sqrt(Math.max(variance, 0) * drawing.ellipseScale) * scale;
      pen.setLineDash([]);
      pen.strokeStyle = color("ink");
      pen.lineWidth = 1.5;
      pen.beginPath();
      pen.ellipse(x(centre[0]), y(centre[1]), radius(mean + spread), radius(mean - spread), -0.5 * Math.atan2(2 * xy, xx - yy), 0, 2 * Math.PI);
      pen.stroke();
    }
    pen.restore();
  }

  // ---- time ----
  let playing = false;
  let previous = 0;

  function setTime(t) {
    now = clamp(t, first, last);
    const index = nearest(now);
    slider.value = now;
    slider.setAttribute("aria-valuetext", `${now.toFixed(1)} seconds`);
    byId("clock").textContent = `${now.toFixed(2)} s`;
    updateReadout(index);
    drawScene(index);
    for (const chart of charts) if (chart.place) chart.place();
  }

  function step(stamp) {
    if (!playing) return;
    setTime(now + ((stamp - previous) / 1000) * Number(byId("speed").value));
    previous = stamp;
    if (now >= last) pause();
    else requestAnimationFrame(step);
  }

  function play() {
    if (now >= last) setTime(first);
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

  const remember = () => history.replaceState(null, "", `#t=${now.toFixed(2)}`);

  // The address may name a time: report.html#t=12.5
  function timeFromAddress() {
    const found = /[#&]t=(-?[\d.]+)/.exec(location.hash);
    return found ? Number(found[1]) || first : first;
  }

  // ---- start ----
  slider.min = first;
  slider.max = last > first ? last : first + 1;
  slider.step = (slider.max - slider.min) / 600;
  slider.addEventListener("input", () => {
    pause();
    setTime(Number(slider.value));
  });
  slider.addEventListener("change", remember);
  byId("play").addEventListener("click", () => (playing ? pause() : play()));
  byId("view").addEventListener("change", () => setTime(now));
  document.addEventListener("keydown", (event) => {
    if (event.key !== " " || event.target.closest("button, select, summary")) return;
    event.preventDefault();
    if (playing) pause();
    else play();
  });
  window.addEventListener("hashchange", () => {
    pause();
    setTime(timeFromAddress());
  });

  const mark = byId("worst-mark");
  if (data.worst) {
    const place = (t) => (last > first ? (t - first) / (last - first) : 0);
    const width = place(data.worst.end) - place(data.worst.start);
    // The thumb (16 px) keeps inside the slider: so must the mark.
    mark.style.left = `calc(8px + (100% - 16px) * ${place(data.worst.start)})`;
    mark.style.width = `max(3px, (100% - 16px) * ${width})`;
    mark.title = data.worst.label;
    byId("worst-go").addEventListener("click", () => {
      pause();
      setTime(data.worst.start);
      remember();
    });
  } else mark.remove();

  if (data.drawing) {
    const drawing = data.drawing;
    const box = bounds([...drawing.estimate, ...drawing.truth, ...drawing.centre, ...drawing.truthCentre]);
    const pad = 0.05 * Math.max(box.high[0] - box.low[0], box.high[1] - box.low[1], 1e-3);
    drawing.bounds = { low: box.low.map((v) => v - pad), high: box.high.map((v) => v + pad) };
  } else {
    const remark = document.createElement("p");
    remark.textContent = "This estimator has no drawing.";
    document.querySelector(".scene").replaceChildren(remark);
  }
  buildReadout();
  buildCharts();

  let columnWidth = 0;
  function layout() {
    const width = charts.length ? Math.round(charts[0].svg.getBoundingClientRect().width) : 0;
    if (width && width !== columnWidth) {
      columnWidth = width;
      for (const chart of charts) drawChart(chart, width);
    }
    setTime(now);
  }
  now = clamp(timeFromAddress(), first, last);
  new ResizeObserver(layout).observe(byId("replay"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", layout);
  for (const [event, printing] of [["beforeprint", true], ["afterprint", false]]) {
    window.addEventListener(event, () => {
      document.documentElement.classList.toggle("printing", printing);
      for (const block of document.querySelectorAll("details")) if (printing) block.open = true;
      layout();
    });
  }
  layout();
})();
