// The picture: robot, truth and ways at the chosen time, seen from above, or its height over time with the phases.
const canvas = byId("scene");
const SCENE_MARGIN = { left: 52, right: 18, top: 8, bottom: 34 };
const LOWEST_SCENE = 220;

function unpackDrawing(drawing) {
  for (const name of ["estimate", "truth", "centre", "truthCentre", "ellipse"]) drawing[name] = unpack(drawing[name]);
  const box = { low: [Infinity, Infinity], high: [-Infinity, -Infinity] };
  for (const values of [drawing.estimate, drawing.truth, drawing.centre, drawing.truthCentre]) {
    for (let i = 0; i < values.length; i++) {
      if (!known(values[i])) continue;
      box.low[i % 2] = Math.min(box.low[i % 2], values[i]);
      box.high[i % 2] = Math.max(box.high[i % 2], values[i]);
    }
  }
  if (!(box.low[0] <= box.high[0] && box.low[1] <= box.high[1])) Object.assign(box, { low: [-1, -1], high: [1, 1] });
  const sizes = [box.high[0] - box.low[0], box.high[1] - box.low[1]];
  const pads = drawing.overTime ? [0, 0.06 * sizes[1] || 1] : Array(2).fill(0.05 * Math.max(...sizes, 1e-3));
  drawing.bounds = { low: box.low.map((v, i) => v - pads[i]), high: box.high.map((v, i) => v + pads[i]) };
}

// Limits of the heights in the range that is shown, of robot and truth.
function heightsShown({ bounds, estimate, truth, points }) {
  if (isWhole()) return [bounds.low[1], bounds.high[1]];
  const [from, to] = [before(time, view.begin), before(time, view.end)];
  const found = extent([estimate, truth], 2 * points * from + 1, 2 * points * (to + 1) - 1, 2);
  const margin = found ? 0.08 * (found[1] - found[0]) || 0.1 : 0;
  return found ? [found[0] - margin, found[1] + margin] : [bounds.low[1], bounds.high[1]];
}

// What the picture shows: the centre and the size of the area, metres, or seconds and metres.
function sceneArea(drawing, index) {
  const { low, high } = drawing.bounds;
  if (drawing.overTime) {
    const [below, above] = heightsShown(drawing);
    return { centre: [(view.begin + view.end) / 2, (below + above) / 2], size: [view.end - view.begin, above - below] };
  }
  const centre = [drawing.centre[2 * index], drawing.centre[2 * index + 1]];
  if (byId("view").value === "close" && centre.every(known)) return { centre, size: [drawing.closeUp, drawing.closeUp] };
  return { centre: [(low[0] + high[0]) / 2, (low[1] + high[1]) / 2], size: [high[0] - low[0], high[1] - low[1]] };
}

// As high as the first screen has room for, since the picture belongs there.
function sceneHeight(drawing, inner) {
  const { low, high } = drawing.bounds;
  const edges = SCENE_MARGIN.top + SCENE_MARGIN.bottom;
  const wanted = drawing.overTime ? 440 : (inner * (high[1] - low[1])) / (high[0] - low[0] || 1) + edges;
  const room = window.innerHeight - (canvas.getBoundingClientRect().top + window.scrollY) - byId("transport").offsetHeight - 16;
  return clamp(wanted, LOWEST_SCENE, Math.max(LOWEST_SCENE, Math.min(room, 520)));
}

function drawScene(index) {
  const drawing = data.drawing;
  if (!drawing) return;
  const width = canvas.clientWidth;
  const inner = width - SCENE_MARGIN.left - SCENE_MARGIN.right;
  if (inner < 20) return; // in a hidden or very narrow frame there is no room for a picture
  const height = Math.round(sceneHeight(drawing, inner));
  const density = window.devicePixelRatio || 1;
  canvas.style.height = `${height}px`;
  byId("readout-frame").style.maxHeight = `${height + 30}px`;
  canvas.width = Math.round(width * density);
  canvas.height = Math.round(height * density);
  const pen = canvas.getContext("2d");
  pen.scale(density, density);

  const box = [inner, height - SCENE_MARGIN.top - SCENE_MARGIN.bottom];
  const area = sceneArea(drawing, index);
  let scales = [box[0] / area.size[0], box[1] / area.size[1]];
  if (!drawing.overTime) scales = [Math.min(...scales), Math.min(...scales)];
  const scene = {
    drawing,
    pen,
    box,
    area,
    scales,
    x: (value) => SCENE_MARGIN.left + box[0] / 2 + (value - area.centre[0]) * scales[0],
    y: (value) => SCENE_MARGIN.top + box[1] / 2 - (value - area.centre[1]) * scales[1],
    color: sceneColors(),
  };
  drawAxes(scene, height);
  pen.save();
  pen.beginPath();
  pen.rect(SCENE_MARGIN.left, SCENE_MARGIN.top, ...box);
  pen.clip();
  pen.lineJoin = "round";
  if (drawing.overTime) drawPhases(scene);
  drawWays(scene, index);
  drawSpread(scene, index);
  drawRobot(scene, drawing.truth, index, "truth", true);
  drawRobot(scene, drawing.estimate, index, "estimate", false);
  if (drawing.overTime && view.selection) {
    const [start, stop] = view.selection.map(scene.x);
    pen.fillStyle = scene.color("selection");
    pen.fillRect(start, SCENE_MARGIN.top, stop - start, box[1]);
  }
  pen.restore();
}

function sceneColors() {
  const style = getComputedStyle(document.documentElement);
  return (variable) => style.getPropertyValue(`--${variable}`).trim();
}

function drawAxes({ drawing, pen, box, area, scales, x, y, color }, height) {
  pen.font = "12px system-ui, sans-serif";
  pen.strokeStyle = color("rule");
  pen.fillStyle = color("faint");
  pen.lineWidth = 1;
  for (const axis of [0, 1]) {
    const factor = drawing.factors[axis];
    const half = box[axis] / 2 / scales[axis];
    const wanted = Math.max(2, box[axis] / (axis === 0 ? 80 : 45));
    const marks = ticks((area.centre[axis] - half) * factor, (area.centre[axis] + half) * factor, wanted);
    for (const mark of marks.values) {
      const text = mark.toFixed(marks.digits);
      pen.beginPath();
      if (axis === 0) {
        pen.moveTo(x(mark / factor), SCENE_MARGIN.top);
        pen.lineTo(x(mark / factor), SCENE_MARGIN.top + box[1]);
        pen.textAlign = "center";
        pen.fillText(text, x(mark / factor), SCENE_MARGIN.top + box[1] + 14);
      } else {
        pen.moveTo(SCENE_MARGIN.left, y(mark / factor));
        pen.lineTo(SCENE_MARGIN.left + box[0], y(mark / factor));
        pen.textAlign = "right";
        pen.fillText(text, SCENE_MARGIN.left - 5, y(mark / factor) + 4);
      }
      pen.stroke();
    }
  }
  pen.textAlign = "center";
  pen.fillText(drawing.axes[0], SCENE_MARGIN.left + box[0] / 2, height - 5);
  pen.save();
  pen.translate(12, SCENE_MARGIN.top + box[1] / 2);
  pen.rotate(-Math.PI / 2);
  pen.fillText(drawing.axes[1], 0, 0);
  pen.restore();
}

// Phases as columns, by name where there is room for it.
function drawPhases({ pen, box, x, color }) {
  if (!data.phases) return;
  pen.textAlign = "center";
  data.phases.spans.forEach((spans, i) => {
    for (const [start, stop] of spans) {
      if (stop < view.begin || start > view.end) continue;
      const [left, right] = [x(Math.max(start, view.begin)), x(Math.min(stop, view.end))];
      pen.globalAlpha = 0.3;
      pen.fillStyle = color(`phase-${i % 6}`);
      pen.fillRect(left, SCENE_MARGIN.top, right - left, box[1]);
      pen.globalAlpha = 1;
      pen.fillStyle = color("ink");
      const name = data.phases.names[i];
      if (pen.measureText(name).width < right - left - 4) pen.fillText(name, (left + right) / 2, SCENE_MARGIN.top + 14);
      else if (right - left > 13) {
        pen.save();
        pen.translate((left + right) / 2 + 4, SCENE_MARGIN.top + 8);
        pen.rotate(-Math.PI / 2);
        pen.textAlign = "right";
        pen.fillText(name, 0, 0);
        pen.restore();
      }
    }
  });
}

function drawWays({ drawing, pen, x, y, color }, index) {
  const from = drawing.overTime ? before(time, view.begin) : 0;
  const to = drawing.overTime ? Math.min(before(time, view.end) + 1, time.length - 1) : time.length - 1;
  const step = Math.max(1, Math.floor((to - from) / 6000));
  const trail = (points, begin, end) => {
    let down = false;
    pen.beginPath();
    for (let i = begin; i <= end; i += step) {
      const [across, up] = [points[2 * i], points[2 * i + 1]];
      if (!known(across) || !known(up)) down = false;
      else if (down) pen.lineTo(x(across), y(up));
      else {
        pen.moveTo(x(across), y(up));
        down = true;
      }
    }
    pen.stroke();
  };
  for (const [points, name, dash] of [[drawing.truthCentre, "truth", [5, 4]], [drawing.centre, "estimate", []]]) {
    pen.strokeStyle = color(name);
    pen.lineWidth = 1.7;
    pen.setLineDash(dash);
    pen.globalAlpha = 0.4;
    trail(points, Math.max(index, from), to);
    pen.globalAlpha = 1;
    trail(points, from, Math.min(index, to));
  }
  pen.setLineDash([]);
}

function drawRobot({ drawing, pen, x, y, color }, points, index, name, dashed) {
  const size = 2 * drawing.points;
  const line = points.subarray(index * size, (index + 1) * size);
  if (!line.every(known)) return;
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
}

// What holds the position with 95 %: an ellipse, or over time a bar.
function drawSpread({ drawing, pen, scales, x, y, color }, index) {
  const [xx, xy, yy] = drawing.ellipse.subarray(3 * index, 3 * index + 3);
  const [across, up] = drawing.centre.subarray(2 * index, 2 * index + 2);
  if (![xx, xy, yy, across, up].every(known)) return;
  pen.strokeStyle = color("ink");
  pen.lineWidth = 1.5;
  pen.beginPath();
  if (drawing.overTime) {
    const half = Math.sqrt(Math.max(yy, 0) * drawing.ellipseScale);
    for (const end of [up - half, up + half]) {
      pen.moveTo(x(across) - 6, y(end));
      pen.lineTo(x(across) + 6, y(end));
    }
    pen.moveTo(x(across), y(up - half));
    pen.lineTo(x(across), y(up + half));
  } else {
    const mean = (xx + yy) / 2;
    const spread = Math.hypot((xx - yy) / 2, xy);
    const radius = (variance) => Math.sqrt(Math.max(variance, 0) * drawing.ellipseScale) * scales[0];
    pen.ellipse(x(across), y(up), radius(mean + spread), radius(mean - spread), -0.5 * Math.atan2(2 * xy, xx - yy), 0, 2 * Math.PI);
  }
  pen.stroke();
}

function sceneTime(event) {
  const box = canvas.getBoundingClientRect();
  const share = (event.clientX - box.left - SCENE_MARGIN.left) / (box.width - SCENE_MARGIN.left - SCENE_MARGIN.right);
  return clamp(view.begin + share * (view.end - view.begin), view.begin, view.end);
}
