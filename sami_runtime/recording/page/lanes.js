// Draws lanes of one run over the visible window of time.
const ink = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
let colours = {};
const readColours = () => {
  for (const name of ["paper", "card", "ink", "soft", "faint", "line", "accent", "warn", "bad", "good", "shade", "hover"]) colours[name] = ink("--" + name);
  colours.of = Array.from({ length: 8 }, (_, i) => ink("--c" + i));
};
const OUTCOMES = { acted: "acted", standing: "its last action stood", held: "held: the policy was not asked", late: "too late: the answer was dropped", refused: "refused", fallback: "the fallback acted", piloted: "a person drove", paused: "paused" };
const outcomeColour = word => ({ acted: colours.faint, standing: colours.line, held: colours.of[4], late: colours.of[3], refused: colours.bad, fallback: colours.of[7], piloted: colours.of[5], paused: colours.of[6] })[word] || colours.bad;
const phaseColour = word => ({ identifying: colours.of[4], settled: colours.of[2], "re-adapting": colours.of[1] })[word] || colours.line;
const GUTTER = 52;

function prepared(canvas, height) {
  const width = canvas.clientWidth, scale = window.devicePixelRatio || 1;
  if (!width) return null;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale); canvas.height = Math.round(height * scale); canvas.style.height = height + "px";
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = "11px system-ui, sans-serif"; pen.lineJoin = "round";
  return { pen, width, height, left: GUTTER, right: width - 2 };
}
function nice(low, high, count) {
  const rough = (high - low) / count || 1, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(x => x * power).find(x => x >= rough) || rough, marks = [];
  for (let x = Math.ceil(low / step - 1e-9) * step; x <= high + 1e-9 * step; x += step) marks.push(Math.abs(x) < 1e-9 * step ? 0 : x);
  return marks;
}
const short = x => x === 0 ? "0" : Math.abs(x) >= 1e4 || Math.abs(x) < 1e-3 ? x.toExponential(0) : String(+x.toPrecision(3));

// Draws lines over time: `parts` are {data, colour, thin, step}; NaN interrupts a line.
function drawLines(canvas, run, look, parts, { height = 92, zero = false, top = null, floor = null, threshold = null, least = 0 } = {}) {
  const area = prepared(canvas, height);
  if (!area) return;
  const { pen, width, left, right } = area, [a, b] = run.span(look.from, look.to);
  let low = Infinity, high = -Infinity;
  for (const { data } of parts) for (let i = a; i <= b; i++) { const y = data[i]; if (y < low) low = y; if (y > high) high = y; }
  if (!(low <= high)) { low = 0; high = 1; }
  if (zero || floor !== null) low = Math.min(low, floor ?? 0);
  if (threshold !== null) high = Math.max(high, 1.12 * threshold);
  if (top !== null) high = Math.min(high, top);
  if (high - low < least) { const middle = (high + low) / 2; low = middle - least / 2; high = middle + least / 2; }
  if (high - low < 1e-12) { const wide = Math.max(1e-3, Math.abs(high) * 0.05); low -= wide; high += wide; }
  const pad = zero ? 0 : 0.06 * (high - low); low -= pad; high += 0.06 * (high - low);
  const x = t => left + (t - look.from) / (look.to - look.from) * (right - left), y = v => height - 3 - (v - low) / (high - low) * (height - 8);
  pen.fillStyle = colours.soft; pen.strokeStyle = colours.line; pen.lineWidth = 1; pen.textAlign = "right"; pen.textBaseline = "middle";
  for (const mark of nice(low, high, Math.max(2.4, height / 26))) {
    pen.beginPath(); pen.moveTo(left, Math.round(y(mark)) + .5); pen.lineTo(right, Math.round(y(mark)) + .5); pen.stroke();
    pen.fillText(short(mark), left - 6, Math.min(height - 6, Math.max(6, y(mark))));
  }
  pen.save(); pen.beginPath(); pen.rect(left, 0, right - left, height); pen.clip();
  edges(pen, run, look, x, height);
  if (threshold !== null) {
    pen.fillStyle = colours.shade; pen.fillRect(left, 0, right - left, y(threshold));
    pen.strokeStyle = colours.warn; pen.setLineDash([5, 4]); pen.beginPath(); pen.moveTo(left, y(threshold)); pen.lineTo(right, y(threshold)); pen.stroke(); pen.setLineDash([]);
  }
  for (const part of parts) {
    pen.strokeStyle = part.colour; pen.lineWidth = part.thin ? 1 : 1.5; pen.setLineDash(part.thin ? [2, 3] : []);
    line(pen, run, part.data, a, b, x, y, right - left, part.step);
  }
  pen.setLineDash([]);
  pen.restore();
  cursor(pen, look, x, height, left, right, width);
  return { pen, x, y, a, b, low, high, ...area };
}
function line(pen, run, data, a, b, x, y, pixels, step) {
  pen.beginPath();
  let open = false, before = 0;
  const broken = i => i > a && run.series.episode[i] !== run.series.episode[i - 1];
  if (b - a > 3 * pixels) {  // more ticks than pixels: draw each pixel's range, from lowest to highest
    let column = -1, low = 0, high = 0;
    for (let i = a; i <= b; i++) {
      const v = data[i], at = Math.floor(x(run.t(i)));
      if (Number.isNaN(v)) continue;
      if (at !== column) { if (column >= 0) { pen.moveTo(column, y(low)); pen.lineTo(column, y(high) - 1); } column = at; low = high = v; }
      else if (v < low) low = v; else if (v > high) high = v;
    }
    pen.stroke();
    return;
  }
  for (let i = a; i <= b; i++) {
    const v = data[i];
    if (Number.isNaN(v)) { open = false; continue; }
    const px = x(run.t(i)), py = y(v);
    if (!open || broken(i)) pen.moveTo(px, py); else { if (step) pen.lineTo(px, before); pen.lineTo(px, py); }
    open = true; before = py;
  }
  pen.stroke();
}
function edges(pen, run, look, x, height) {
  if ((look.to - look.from) / (run.length / Math.max(1, run.episodes.length)) > 60) return;
  pen.strokeStyle = colours.faint; pen.lineWidth = 1;
  for (const episode of run.episodes.slice(1)) { const px = Math.round(x(run.t(episode.from))) + .5; pen.beginPath(); pen.moveTo(px, 0); pen.lineTo(px, height); pen.stroke(); }
}
function cursor(pen, look, x, height, left, right) {
  const px = x(look.at);
  if (px < left - 1 || px > right + 1) return;
  pen.strokeStyle = colours.ink; pen.lineWidth = 1; pen.globalAlpha = .75;
  pen.beginPath(); pen.moveTo(px, 0); pen.lineTo(px, height); pen.stroke(); pen.globalAlpha = 1;
}

// Draws strips of intervals in which a word stays equal: {label, word(i), colour(word), text, pale}.
function drawStrips(canvas, run, look, strips, { axis = false } = {}) {
  const row = 21, height = strips.length * row + (axis ? 18 : 0), area = prepared(canvas, height);
  if (!area) return;
  const { pen, left, right } = area, [a, b] = run.span(look.from, look.to);
  const x = t => left + (t - look.from) / (look.to - look.from) * (right - left);
  strips.forEach((strip, number) => {
    const top = number * row;
    pen.fillStyle = colours.soft; pen.textAlign = "right"; pen.textBaseline = "middle"; pen.fillText(strip.label, left - 6, top + 8);
    pen.save(); pen.beginPath(); pen.rect(left, top, right - left, row); pen.clip();
    for (let i = a; i <= b;) {
      const word = strip.word(i), episode = run.series.episode[i]; let j = i + 1;
      while (j <= b && strip.word(j) === word && run.series.episode[j] === episode) j++;
      const from = x(run.t(i)), to = x(j < run.count ? Math.min(run.t(j), run.t(j - 1) + 3 / run.rate) : run.t(j - 1) + 1 / run.rate);
      if (word) {
        const colour = strip.colour(word);
        pen.fillStyle = colour; pen.globalAlpha = strip.pale ? .28 : 1; pen.fillRect(from, top, Math.max(1, to - from - (to - from > 6 ? 1 : 0)), 16); pen.globalAlpha = 1;
        const start = Math.max(from, left) + 4;
        if (strip.text && Math.min(to, right) - start > pen.measureText(word).width + 3) { pen.fillStyle = colours.ink; pen.textAlign = "left"; pen.fillText(word, start, top + 8.5); }
      }
      i = j;
    }
    pen.restore();
  });
  if (axis) {
    pen.fillStyle = colours.soft; pen.textAlign = "center"; pen.textBaseline = "top";
    for (const mark of nice(look.from - look.origin, look.to - look.origin, (right - left) / 90)) {
      const px = x(mark + look.origin); if (px < left + 8 || px > right - 14) continue;
      pen.fillRect(px, strips.length * row, 1, 4); pen.fillText(seconds(mark).replace(/\.?0+ s$/, " s"), px, strips.length * row + 5);
    }
  }
  cursor(pen, look, x, strips.length * row, left, right);
  return area;
}

// Draws the stacked times of a tick's sections [ms], and the period as their limit.
function drawTimes(canvas, run, look, names) {
  const sums = names.map(() => new Float32Array(0)), [a, b] = run.span(look.from, look.to);
  const total = new Float32Array(run.count);
  names.forEach((name, k) => {
    const data = run.col(name);
    for (let i = a; i <= b; i++) total[i] += 1000 * (data[i] || 0);
    sums[k] = total.slice();
  });
  const area = drawLines(canvas, run, look, [{ data: total, colour: "transparent" }], { zero: true, height: 110 });
  if (!area) return;
  const { pen, x, y, left, right } = area;
  pen.save(); pen.beginPath(); pen.rect(left, 0, right - left, 110); pen.clip();
  const wide = Math.max(1, .8 * (x(1 / run.rate) - x(0))), every = Math.max(1, Math.floor((b - a) / (2 * (right - left))));
  for (let k = names.length - 1; k >= 0; k--) {
    pen.fillStyle = colours.of[[5, 0, 4, 2][k]];
    for (let i = a; i <= b; i++) {
      if (every > 1 && i % every && sums[k][i] < area.high / 3) continue;
      const from = k ? sums[k - 1][i] : 0;
      pen.fillRect(x(run.t(i)), y(sums[k][i]), wide, Math.max(0.5, y(from) - y(sums[k][i])));
    }
  }
  const period = 1000 / run.rate;
  if (period < area.high) { pen.strokeStyle = colours.bad; pen.setLineDash([5, 4]); pen.beginPath(); pen.moveTo(left, y(period)); pen.lineTo(right, y(period)); pen.stroke(); pen.setLineDash([]); }
  pen.restore();
  cursor(pen, look, x, 110, left, right);
}

// Draws a map of contexts: the means of the training tasks, and the path of the window's mean.
function drawMap(canvas, run, look) {
  const size = Math.min(innerWidth > 760 ? 280 : 220, canvas.clientWidth), area = prepared(canvas, size);
  if (!area) return;
  const { pen, width } = area, columns = run.groups.find(group => group.kind === "context").columns.map(name => run.col(name));
  const now = run.at(look.at), atlas = run.atlasAt(now), means = atlas ? atlas.mean : [], window_ = atlas ? atlas.window : 1;
  const episode = run.episodeOf(now) || { from: 0, to: 0 }, way = [];
  for (let i = episode.from; i <= now; i++) {
    const mean = columns.map(data => { let sum = 0, n = 0; for (let j = Math.max(episode.from, i - window_ + 1); j <= i; j++) { if (!Number.isNaN(data[j])) { sum += data[j]; n++; } } return n ? sum / n : NaN; });
    if (mean.every(Number.isFinite)) way.push(mean);
  }
  run.flat ||= new Map();
  if (!run.flat.get(atlas)) run.flat.set(atlas, plane(means.length > 2 ? means : sample(run, columns)));
  const show = run.flat.get(atlas);
  if (!show) return;
  const places = means.map(show), path = way.slice(-400).map(show), all = [...places, ...path];
  if (!all.length) return;
  const xs = all.map(p => p[0]), ys = all.map(p => p[1]), wide = Math.max(...xs) - Math.min(...xs), tall = Math.max(...ys) - Math.min(...ys);
  const scale = Math.min((width - 44) / (wide || 1), (size - 44) / (tall || 1));
  const x = p => width / 2 + (p[0] - (Math.max(...xs) + Math.min(...xs)) / 2) * scale, y = p => size / 2 - (p[1] - (Math.max(...ys) + Math.min(...ys)) / 2) * scale;
  const nearest = run.word("nearest", now), task = run.tasks[episode.number];
  const labels = means.map((_, i) => Object.entries(atlas.tasks[i]).map(([k, v]) => `${k} ${v}`).join(", "));
  places.forEach((p, i) => {
    const closest = labels[i] === nearest;
    pen.fillStyle = closest ? colours.accent : colours.faint; pen.beginPath(); pen.arc(x(p), y(p), closest ? 5.5 : 4, 0, 7); pen.fill();
  });
  pen.lineWidth = 1.6;
  for (let i = 1; i < path.length; i++) {
    pen.strokeStyle = colours.of[1]; pen.globalAlpha = .15 + .85 * i / path.length;
    pen.beginPath(); pen.moveTo(x(path[i - 1]), y(path[i - 1])); pen.lineTo(x(path[i]), y(path[i])); pen.stroke();
  }
  pen.globalAlpha = 1;
  if (path.length) { const p = path[path.length - 1]; pen.strokeStyle = colours.ink; pen.fillStyle = colours.of[1]; pen.lineWidth = 1.5; pen.beginPath(); pen.arc(x(p), y(p), 5, 0, 7); pen.fill(); pen.stroke(); }
  const at = labels.indexOf(nearest);
  if (at >= 0) {
    pen.fillStyle = colours.accent; pen.textBaseline = "bottom";
    const px = x(places[at]); pen.textAlign = px > width * .6 ? "right" : "left"; pen.fillText(nearest, px + (px > width * .6 ? -8 : 8), y(places[at]) - 5);
  }
  return task;
}
const sample = (run, columns) => { const points = [], every = Math.max(1, Math.floor(run.count / 500)); for (let i = 0; i < run.count; i += every) { const p = columns.map(d => d[i]); if (p.every(Number.isFinite)) points.push(p); } return points; };
