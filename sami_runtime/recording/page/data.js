"use strict";
// A run: its numbers by column, recorded or received live.
class Run {
  constructor(doc) {
    Object.assign(this, doc);
    this.words ||= [""]; this.events ||= []; this.tasks ||= {}; this.came ||= {};
    this.atlases = [[0, this.atlas], ...(this.atlases || [])];
    this.count ||= 0; this.series = {}; this.episodes = [];
    const bytes = text => Uint8Array.from(atob(text), c => c.charCodeAt(0)).buffer;
    const data = doc.data ? new Float32Array(bytes(doc.data)) : null;
    this.columns.forEach((name, at) => {
      this.series[name] = data ? data.subarray(at * this.count, (at + 1) * this.count) : [];
    });
    if (doc.seconds) this.series.t = new Float64Array(bytes(doc.seconds));
    this.poses = doc.poses ? new Float32Array(bytes(doc.poses)) : [];
    delete this.data; delete this.seconds;
    for (let at = 0; at < this.count; at++) this.place(at);
  }
  col(name) { return this.series[name] || []; }
  t(at) { return this.series.t[at]; }
  get length() { return this.count ? this.t(this.count - 1) + 1 / this.rate : 0; }
  word(name, at) { return this.words[this.series[name][at]] || ""; }
  place(at) {
    const number = this.series.episode[at];
    const last = this.episodes[this.episodes.length - 1];
    if (!last || last.number !== number) this.episodes.push({ number, from: at, to: at + 1 });
    else last.to = at + 1;
  }
  add(message) {
    if (message.words) this.words.push(...message.words);
    if (message.came) { this.came[message.came[0]] = message.came.slice(1); return; }
    if (!message.row) return;
    this.columns.forEach((name, at) => this.series[name].push(message.row[at] === null ? NaN : message.row[at]));
    if (message.scene) this.scene = message.scene;
    if (message.poses) this.poses.push(...message.poses);
    const at = this.count++;
    this.place(at);
    for (const event of message.events || []) this.events.push([at, ...event]);
    if ("atlas" in message) this.atlases.push([at, message.atlas]);
    if (message.task) this.tasks[this.series.episode[at]] = message.task;
  }
  // The index of the last tick that began at or before a time.
  at(time) {
    let low = 0, high = this.count - 1;
    while (low < high) { const middle = (low + high + 1) >> 1; if (this.t(middle) <= time + 1e-9) low = middle; else high = middle - 1; }
    return Math.max(0, low);
  }
  // In-distribution reference of the model that drove at a tick; null or undefined if it has none.
  atlasAt(at) { return this.atlases.filter(([from]) => from <= at).pop()[1]; }
  span(from, to) { return this.count ? [this.at(from), Math.min(this.count - 1, this.at(to) + 1)] : [0, -1]; }
  episodeOf(at) { return this.episodes.find(episode => at >= episode.from && at < episode.to); }
  succeeded(episode) { const outcome = this.came[episode.number]; return outcome ? outcome[1] : null; }
}

// Projects points of C numbers onto the two directions in which they differ most, by power iteration.
function plane(points) {
  const size = points.length ? points[0].length : 0;
  if (size < 2) return null;
  const middle = Array.from({ length: size }, (_, i) => points.reduce((sum, p) => sum + p[i], 0) / points.length);
  const centred = points.map(p => p.map((x, i) => x - middle[i]));
  const axes = [];
  for (let k = 0; k < 2; k++) {
    let axis = Array.from({ length: size }, (_, i) => Math.cos(1 + i + 3 * k));
    for (let turn = 0; turn < 60; turn++) {
      for (const other of axes) { const d = dot(axis, other); axis = axis.map((x, i) => x - d * other[i]); }
      const next = new Array(size).fill(0);
      for (const p of centred) { const d = dot(p, axis); for (let i = 0; i < size; i++) next[i] += d * p[i]; }
      for (const other of axes) { const d = dot(next, other); for (let i = 0; i < size; i++) next[i] -= d * other[i]; }
      const length = Math.hypot(...next);
      if (length < 1e-12) break;
      axis = next.map(x => x / length);
    }
    axes.push(axis);
  }
  return point => axes.map(axis => axis.reduce((sum, x, i) => sum + x * (point[i] - middle[i]), 0));
}
const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);

const digits = x => !Number.isFinite(x) ? "–" : x === 0 ? "0" : Math.abs(x) >= 1000 || Math.abs(x) < 0.001 ? x.toExponential(1) : x.toPrecision(3);
const seconds = x => { const m = Math.floor(Math.abs(x) / 60), s = Math.abs(x) - 60 * m; return (x < 0 ? "−" : "") + (m ? `${m}:${s.toFixed(1).padStart(4, "0")}` : `${s.toFixed(2)} s`); };
