// Numbers of the page: packed arrays, looking up times, round values for axes, and the shared view on time.
const byId = (id) => document.getElementById(id);
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
const known = Number.isFinite;
const decimals = (scale) => clamp(2 - Math.floor(Math.log10(scale || 1)), 0, 6);

// Little-endian numbers in base64, as `report_data.packed` writes them.
function unpack(packed) {
  const text = atob(packed.f8 ?? packed.f4);
  const bytes = Uint8Array.from(text, (letter) => letter.charCodeAt(0));
  return packed.f8 === undefined ? new Float32Array(bytes.buffer) : new Float64Array(bytes.buffer);
}

const data = JSON.parse(byId("data").textContent);
const time = unpack(data.time);
const first = time[0];
const last = time[time.length - 1];
const wholeStart = last > first ? first : first - 0.5;
const wholeEnd = last > first ? last : first + 0.5;

// What all drawings share: the chosen time, the range of times that is shown, and the one being selected.
const view = { now: first, begin: wholeStart, end: wholeEnd, selection: null };
const isWhole = () => view.begin === wholeStart && view.end === wholeEnd;

// Index of the last time that is not after t; 0 where all are.
function before(times, t) {
  let low = 0;
  let high = times.length - 1;
  while (high > low) {
    const middle = (low + high + 1) >> 1;
    if (times[middle] <= t) low = middle;
    else high = middle - 1;
  }
  return low;
}

function nearest(times, t) {
  const low = before(times, t);
  const high = Math.min(low + 1, times.length - 1);
  return t - times[low] <= times[high] - t ? low : high;
}

// Indices to draw from `from` to `to`: of many instants to a pixel the lowest and the highest of each stretch.
function shown(values, from, to, most) {
  const stride = Math.max(1, Math.ceil((2 * (to - from)) / most));
  const indices = [];
  for (let start = from; start <= to; start += stride) {
    let [low, high] = [-1, -1];
    for (let i = start; i < Math.min(start + stride, to + 1); i++) {
      if (!known(values[i])) continue;
      if (low < 0 || values[i] < values[low]) low = i;
      if (high < 0 || values[i] > values[high]) high = i;
    }
    if (low < 0) indices.push(start);
    else if (low === high) indices.push(low);
    else indices.push(Math.min(low, high), Math.max(low, high));
  }
  return indices;
}

// Smallest and largest of the values that are drawn, or of each `step`-th; null where none is known.
function extent(arrays, from, to, step = 1) {
  let [low, high] = [Infinity, -Infinity];
  for (const values of arrays) {
    for (let i = from; i <= to; i += step) {
      if (!known(values[i])) continue;
      if (values[i] < low) low = values[i];
      if (values[i] > high) high = values[i];
    }
  }
  return low <= high ? [low, high] : null;
}

function ticks(low, high, wanted) {
  const rough = (high - low) / Math.max(wanted, 1);
  if (!(rough > 0) || !known(rough)) return { values: [], digits: 0 };
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999);
  const values = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) values.push(i * step);
  return { values, digits: clamp(-Math.floor(Math.log10(step) + 1e-9), 0, 8) };
}

function decades(low, high) {
  const values = [];
  for (let exponent = Math.ceil(low - 1e-9); exponent <= high; exponent++) values.push(10 ** exponent);
  return { values, digits: 0 };
}
