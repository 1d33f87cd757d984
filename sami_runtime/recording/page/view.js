// The page: runs side by side, with a common window of time and cursor.
const $ = id => document.getElementById(id);
const make = (tag, properties = {}, ...children) => { const element = Object.assign(document.createElement(tag), properties); element.append(...children); return element; };
const page = JSON.parse($("data").textContent);
const views = [];
const look = { from: 0, to: 1, at: 0, episode: null };
let playing = false, following = false, dirty = true;

class View {
  constructor(run) {
    this.run = run; this.lanes = []; this.keys = []; this.drawnTicks = -1; this.listedEvents = -1;
    this.chips = make("div", { className: "chips" });
    this.now = make("div", { className: "card" });
    this.list = make("div", { className: "events" });
    this.map = make("canvas");
    this.mapCaption = make("p", { className: "hint" });
    const facts = [run.env, `${run.rate} Hz`, ...run.facts].filter(Boolean);
    this.sub = make("p", { className: "sub" });
    this.facts = facts;
    const context = run.groups.find(group => group.kind === "context");
    const side = make("div", { className: "side" }, this.now);
    if (context && context.columns.length > 1) side.append(make("div", { className: "card" }, make("h2", { textContent: "Context" }, make("small", { textContent: "among the dynamics it knows" })), this.map, this.mapCaption));
    side.append(make("div", { className: "card" }, make("h2", { textContent: "Events" }), this.list));
    this.stage = make("div", { className: "card stage", hidden: true });
    this.body = make("div", { className: "lanes" });
    this.root = make("section", { className: "run" }, make("h1", { textContent: run.name }), this.sub, this.chips, this.stage, make("div", { className: "cols" }, this.body, side));
    this.build(context);
  }
  // The window in this run's time; `look` counts from the start of the chosen episode, for all runs.
  span() {
    const origin = this.origin();
    return { from: look.from + origin, to: look.to + origin, at: look.at + origin, origin };
  }
  origin() {
    if (look.episode === null) return 0;
    const episode = this.run.episodes.find(episode => episode.number === look.episode);
    return episode ? this.run.t(episode.from) : 0;
  }
  card(title, small) {
    const card = make("div", { className: "card" }, make("h2", { textContent: title }, make("small", { textContent: small || "" })));
    this.body.append(card);
    return card;
  }
  lane(card, name, unit, keys, draw, title = "") {
    const canvas = make("canvas"), top = make("div", { className: "top", title });
    if (name) top.append(make("b", { textContent: name }));
    if (unit) top.append(make("span", { className: "unit", textContent: unit }));
    const legend = keys.map(key => {
      const value = make("span"), label = make("span", { className: key.thin ? "key thin" : "key" });
      label.style.setProperty("--of", `var(--c${key.colour})`);
      label.append(key.name + " ", value);
      top.append(label);
      return { ...key, value };
    });
    card.append(make("div", { className: "lane" }, ...(name || keys.length ? [top] : []), canvas));
    this.keys.push(...legend);
    this.lanes.push({ canvas, draw: span => draw(canvas, span) });
    canvas.addEventListener("pointerdown", event => scrubbing(event, canvas, this));
    canvas.addEventListener("wheel", event => { if (event.ctrlKey || event.metaKey) { event.preventDefault(); zoom(event.deltaY > 0 ? 1.2 : 1 / 1.2); } }, { passive: false });
  }
  build(context) {
    const run = this.run, group = kind => run.groups.filter(part => part.kind === kind), col = name => run.col(name);
    const timeline = this.card("What happened"), hasAtlas = run.atlases.some(([, atlas]) => atlas);
    const strips = [
      { label: "tick", word: i => run.word("outcome", i), colour: outcomeColour },
      { label: "limited", word: i => run.word("limited_by", i), colour: word => word.includes("stop") ? colours.bad : colours.of[1], text: true, pale: true },
      ...(hasAtlas ? [{ label: "phase", word: i => run.word("phase", i), colour: phaseColour, text: true, pale: true }, { label: "like", word: i => run.word("nearest", i), colour: word => colours.of[[...word].reduce((s, c) => (31 * s + c.charCodeAt(0)) >>> 0, 7) % 8], text: true, pale: true }] : []),
    ];
    this.lane(timeline, "", "", [], (canvas, span) => drawStrips(canvas, run, span, strips, { axis: true }));
    const [proposed] = group("proposed"), [executed] = group("executed"), actions = this.card("Actions", "proposed by the policy, executed after every limit");
    executed.elements.forEach((name, i) => {
      const parts = () => [{ data: col(proposed.columns[i]), colour: colours.of[1], thin: true, step: true }, { data: col(executed.columns[i]), colour: colours.of[0], step: true }];
      const keys = [{ name: "executed", data: col(executed.columns[i]), colour: 0 }, { name: "proposed", data: col(proposed.columns[i]), colour: 1, thin: true }];
      this.lane(actions, name, executed.unit, keys, (canvas, span) => drawLines(canvas, run, span, parts(), { height: executed.elements.length > 4 ? 46 : 62, least: .01 }), executed.meaning);
    });
    if (hasAtlas) this.lane(this.card("Out of what it knows?", "score: above the line is an alarm"), "", "", [{ name: "score", data: col("score"), colour: 3 }], (canvas, span) => drawLines(canvas, run, span, [{ data: col("score"), colour: colours.of[3] }], { threshold: 1, floor: 0, zero: true, height: 100 }));
    if (context) this.lane(this.card("Context", "what the encoder inferred"), "", "", context.columns.map((name, i) => ({ name: context.elements[i], data: col(name), colour: i % 8 })), (canvas, span) => drawLines(canvas, run, span, context.columns.map((name, i) => ({ data: col(name), colour: colours.of[i % 8] })), { height: 120 }));
    const observations = this.card("Observations");
    for (const signal of [...group("observation"), ...group("answer")]) {
      const parts = () => signal.columns.map((name, i) => ({ data: col(name), colour: colours.of[i % 8] }));
      this.lane(observations, signal.name.replaceAll("_", " "), signal.unit, signal.columns.map((name, i) => ({ name: signal.elements[i], data: col(name), colour: i % 8 })), (canvas, span) => drawLines(canvas, run, span, parts(), { height: 66, least: 1e-4 }), signal.meaning);
    }
    const sections = ["observe", "infer", "gate", "write"];
    this.lane(this.card("Time of a tick", "ms, upon each other"), "", "", sections.map((name, i) => ({ name, data: col(name), colour: [5, 0, 4, 2][i], times: 1000 })), (canvas, span) => drawTimes(canvas, run, span, sections));
  }
  draw() {
    const run = this.run;
    if (this.drawnTicks !== run.count || this.drawnEpisode !== look.episode) { this.heads(); this.drawnTicks = run.count; this.drawnEpisode = look.episode; }
    if (!run.count) return;
    const span = this.span();
    for (const lane of this.lanes) { const box = lane.canvas.getBoundingClientRect(); if (box.bottom > -400 && box.top < innerHeight + 400) lane.draw(span); }
    const at = run.at(span.at);
    for (const key of this.keys) key.value.textContent = digits((key.times || 1) * key.data[at]);
    this.sentences(at);
    if (run.scene && !this.robot) { this.robot = new Robot(run.scene, this.stage); this.robot.onmove = () => { dirty = true; }; }
    if (this.robot) this.robot.draw(run.poses, at);
    if (this.map.isConnected) drawMap(this.map, run, span);
  }
  heads() {
    const run = this.run, outcomes = run.episodes.map(episode => run.succeeded(episode)).filter(success => success !== null);
    this.sub.textContent = [`${run.model} (${run.weights})`, ...this.facts, `${run.episodes.length} episodes, ${run.count} ticks`, outcomes.length ? `${outcomes.filter(Boolean).length} of ${outcomes.length} succeeded` : "", run.closed === false ? "cut off: its whole chunks are shown" : ""].filter(Boolean).join(" · ");
    this.chips.replaceChildren(...(run.episodes.length > 400 ? [] : run.episodes).map(episode => {
      const success = run.succeeded(episode), button = make("button", { className: "chip", title: "Look at this episode alone" }, `${episode.number}`);
      if (run.tasks[episode.number]) button.append(make("span", { textContent: run.tasks[episode.number] }));
      if (success !== null) button.append(make("i", { className: success ? "yes" : "no", textContent: success ? "✓" : "✗", title: success ? "success" : "no success" }));
      button.setAttribute("aria-pressed", String(look.episode === episode.number));
      button.addEventListener("click", () => look.episode === episode.number ? fit() : choose(episode.number));
      return button;
    }));
    const pressed = this.chips.querySelector("[aria-pressed=true]");
    if (pressed) this.chips.scrollTo({ top: pressed.offsetTop - this.chips.offsetTop - 40, left: pressed.offsetLeft - 100 });
    if (this.listedEvents !== run.events.length) {
      this.listedEvents = run.events.length;
      this.buttons = run.events.slice(-2000).map(([at, level, text]) => {
        const button = make("button", { className: level }, make("time", { textContent: seconds(run.t(at)) }), make("span", { textContent: text }));
        button.addEventListener("click", () => { look.at = run.t(at) - this.origin(); following = false; reveal(); });
        return { at, button };
      });
      this.list.replaceChildren(...this.buttons.map(entry => entry.button));
      if (following) this.list.scrollTop = this.list.scrollHeight;
    }
  }
  sentences(at) {
    const run = this.run, episode = run.episodeOf(at), line = (...parts) => make("p", {}, ...parts), b = (text, className = "") => make("b", { textContent: text, className });
    const lines = [make("h2", { textContent: `Episode ${episode.number}, step ${run.series.step[at]}` }, make("small", { textContent: seconds(run.t(at)) }))];
    const outcome = run.word("outcome", at), reason = run.word("reason", at), limited = run.word("limited_by", at);
    if (run.tasks[episode.number]) lines.push(line("Hidden task: ", b(run.tasks[episode.number])));
    lines.push(line("The tick ", b(OUTCOMES[outcome] || outcome, outcome === "acted" || outcome === "standing" ? "" : "alarm"), reason ? `. ${reason}` : "."));
    lines.push(line(limited ? b(limited.includes("stop") ? "The gate stopped the robot." : `Limited by ${limited}.`, "alarm") : "Nothing was limited."));
    const score = run.col("score")[at], phase = run.word("phase", at), atlas = run.atlasAt(at);
    if (atlas && Number.isFinite(score)) {
      lines.push(line(b(`Score ${score.toFixed(2)}`, score > 1 ? "alarm" : "ok"), score > 1 ? ": out of distribution. " : ": in distribution. ",
        `The mean of its last ${atlas.window} contexts is ${digits(run.col("distance")[at])} standard deviations from that of the nearest training task, `, b(run.word("nearest", at)), `; ${digits(atlas.threshold)} are allowed (score 1).`));
      lines.push(make("p", { className: "hint", textContent: `Calibrated for false alarms in ${Math.round(1000 * atlas.false_alarm_rate) / 10} % of episodes; sami atlas --check measures the rate. A nearest task is no estimate of the dynamics. Phase: ${phase || "–"}.` }));
    } else if (atlas) lines.push(make("p", { className: "hint", textContent: `No score yet: the in-distribution reference counts from step ${atlas.step} of an episode on, when the encoder has seen enough.` }));
    else lines.push(make("p", { className: "hint", textContent: "The recording has no in-distribution reference, so the dynamics that the model knows are not shown." }));
    this.now.replaceChildren(...lines);
    this.mapCaption.textContent = atlas ? "Grey: means of the dynamics that it was trained in, in the plane in which they differ most. Orange: the way in this episode up to now." : "The way in this episode up to now, in the plane in which contexts differ most.";
    let last = null;
    for (const entry of this.buttons || []) { entry.button.classList.remove("now"); if (entry.at <= at) last = entry.button; }
    if (last) { last.classList.add("now"); if (last !== this.highlighted) this.list.scrollTop = last.offsetTop - this.list.offsetTop - 90; this.highlighted = last; }
  }
}

const longest = () => Math.max(0.04, ...views.map(view => look.episode === null ? view.run.length : (e => e ? view.run.t(e.to - 1) + 1 / view.run.rate - view.run.t(e.from) : 0)(view.run.episodes.find(episode => episode.number === look.episode))));
function fit() { look.episode = null; look.from = 0; look.to = longest(); look.at = Math.min(look.at, look.to); dirty = true; }
function choose(number) { look.episode = number; look.from = 0; look.to = longest(); look.at = 0; following = false; dirty = true; }
function zoom(by) {
  const whole = longest(), wide = Math.min(whole, Math.max(4 / views[0].run.rate, (look.to - look.from) * by));
  const part = (look.at - look.from) / (look.to - look.from), middle = part >= 0 && part <= 1 ? part : .5, at = look.from + middle * (look.to - look.from);
  look.from = Math.max(0, Math.min(whole - wide, at - middle * wide)); look.to = look.from + wide; dirty = true;
}
function reveal() {
  const wide = look.to - look.from, whole = longest();
  look.at = Math.max(0, Math.min(whole, look.at));
  if (look.at < look.from || look.at > look.to) { look.from = Math.max(0, Math.min(whole - wide, look.at - wide / 2)); look.to = look.from + wide; }
  dirty = true;
}
function scrubbing(event, canvas, view) {
  if (event.button) return;
  following = false;
  const to = pointer => { const box = canvas.getBoundingClientRect(); look.at = look.from + Math.max(0, Math.min(1, (pointer.clientX - box.left - GUTTER) / (box.width - GUTTER - 2))) * (look.to - look.from); dirty = true; };
  to(event);
  canvas.setPointerCapture(event.pointerId);
  canvas.onpointermove = to;
  canvas.onpointerup = canvas.onpointercancel = () => { canvas.onpointermove = null; };
}
function stepBy(ticks) { const run = views[0].run, origin = views[0].origin(); look.at = run.t(Math.max(0, Math.min(run.count - 1, run.at(look.at + origin) + ticks))) - origin; following = false; reveal(); }
function neighbour(by) {
  const run = views[0].run, current = run.episodeOf(run.at(look.at + views[0].origin()));
  const next = run.episodes[run.episodes.indexOf(current) + by];
  if (look.episode === null ? current : next) choose((look.episode === null ? current : next).number);
}

function drawOverview() {
  const height = 14 + 28 * views.length, area = prepared($("overview"), height);
  if (!area || !views.length) return;
  const { pen, width } = area, whole = longest(), row = (height - 4) / views.length;
  pen.fillStyle = colours.card; pen.fillRect(0, 0, width, height);
  views.forEach((view, k) => {
    const run = view.run, origin = view.origin(), top = 2 + k * row;
    if (!run.count) return;
    const [a, b] = run.span(origin, origin + whole), score = run.col("score"), cells = new Map();
    for (let i = a; i <= b; i++) {
      const px = Math.floor((run.t(i) - origin) / whole * width), outcome = run.word("outcome", i), interrupted = !["acted", "standing"].includes(outcome);
      const cell = cells.get(px) || { score: NaN, interruption: "", limited: false };
      if (!(score[i] <= cell.score)) cell.score = Number.isNaN(score[i]) ? cell.score : score[i];
      if (interrupted) cell.interruption = outcome;
      cell.limited ||= run.series.limited_by[i] > 0;
      cells.set(px, cell);
    }
    const wide = Math.max(1, width / whole / run.rate);
    for (const [px, cell] of cells) {
      pen.fillStyle = cell.interruption ? outcomeColour(cell.interruption) : colours.faint; pen.globalAlpha = cell.interruption ? 1 : .5; pen.fillRect(px, top + row - 8, wide, 6);
      pen.globalAlpha = 1;
      if (cell.limited) { pen.fillStyle = colours.of[1]; pen.fillRect(px, top + row - 11, wide, 2); }
      if (cell.score > 0) { pen.fillStyle = cell.score > 1 ? colours.warn : colours.of[3]; pen.globalAlpha = cell.score > 1 ? 1 : .45; const tall = Math.min(1.6, cell.score) / 1.6 * (row - 13); pen.fillRect(px, top + row - 12 - tall, wide, tall); pen.globalAlpha = 1; }
    }
    if (run.episodes.length < width / 6) { pen.fillStyle = colours.ink; pen.globalAlpha = .35; for (const e of run.episodes) pen.fillRect(Math.round((run.t(e.from) - origin) / whole * width), top, 1, row - 2); pen.globalAlpha = 1; }
  });
  const x = t => t / whole * width;
  pen.fillStyle = colours.paper; pen.globalAlpha = .72; pen.fillRect(0, 0, x(look.from), height); pen.fillRect(x(look.to), 0, width, height); pen.globalAlpha = 1;
  pen.strokeStyle = colours.accent; pen.lineWidth = 1.5; pen.strokeRect(x(look.from) + .75, .75, Math.max(3, x(look.to) - x(look.from) - 1.5), height - 1.5);
  pen.fillStyle = colours.ink; pen.fillRect(x(look.at) - .5, 0, 1.5, height);
}
$("overview").addEventListener("pointerdown", event => {
  const box = $("overview").getBoundingClientRect(), time = pointer => Math.max(0, Math.min(1, (pointer.clientX - box.left) / box.width)) * longest(), start = time(event);
  $("overview").setPointerCapture(event.pointerId);
  $("overview").onpointermove = pointer => { const end = time(pointer); if (Math.abs(end - start) > longest() * .004) { look.from = Math.min(start, end); look.to = Math.max(start, end, look.from + 2 / views[0].run.rate); following = false; dirty = true; } };
  $("overview").onpointerup = $("overview").onpointercancel = pointer => { $("overview").onpointermove = null; look.at = Math.abs(time(pointer) - start) > longest() * .004 ? look.from : start; reveal(); };
});
$("overview").addEventListener("dblclick", fit);

function play(on) { playing = on; $("play").textContent = on ? "❚❚" : "▶"; $("play").setAttribute("aria-label", on ? "Pause" : "Play"); if (on && look.at >= longest() - .02) look.at = 0; }
$("play").onclick = () => play(!playing);
$("in").onclick = () => zoom(1 / 1.6); $("out").onclick = () => zoom(1.6); $("fit").onclick = fit;
$("scrub").oninput = () => { look.at = $("scrub").value / 1000 * longest(); following = false; reveal(); };
$("follow").onclick = () => { following = !following; dirty = true; };
addEventListener("keydown", event => {
  if (["SELECT", "INPUT"].includes(event.target.tagName) || event.ctrlKey || event.metaKey || event.altKey) return;
  const act = { " ": () => play(!playing), ArrowLeft: () => stepBy(event.shiftKey ? -10 : -1), ArrowRight: () => stepBy(event.shiftKey ? 10 : 1), "+": () => zoom(1 / 1.6), "=": () => zoom(1 / 1.6), "-": () => zoom(1.6), 0: fit, "[": () => neighbour(-1), "]": () => neighbour(1) }[event.key];
  if (act && views.length) { event.preventDefault(); act(); }
});
const darker = matchMedia("(prefers-color-scheme: dark)");
let choice = null;
function theme() { document.documentElement.dataset.theme = choice || (darker.matches ? "dark" : "light"); readColours(); dirty = true; }
$("theme").onclick = () => { choice = document.documentElement.dataset.theme === "dark" ? "light" : "dark"; theme(); };
darker.addEventListener("change", theme);
addEventListener("resize", () => { dirty = true; }); addEventListener("scroll", () => { dirty = true; }, { passive: true });

let before = 0;
function frame(time) {
  const passed = Math.min(.25, (time - before) / 1000); before = time;
  if (playing && views.length) { look.at += passed * $("speed").value; if (look.at >= longest()) { look.at = longest(); play(false); } reveal(); }
  if (following && views.length) { const wide = Math.min(20, Math.max(4, longest())); look.to = Math.max(wide, longest()); look.from = look.to - wide; look.at = longest(); }
  if (dirty && views.length) {
    dirty = false;
    for (const view of views) view.draw();
    drawOverview();
    $("clock").textContent = `${seconds(look.at)} of ${seconds(longest())}`;
    $("scrub").value = 1000 * look.at / longest();
    $("follow").setAttribute("aria-pressed", String(following));
  }
  requestAnimationFrame(frame);
}
function show(docs) {
  for (const doc of docs) { const view = new View(new Run(doc)); views.push(view); $("runs").append(view.root); }
  $("runs").className = docs.length > 1 ? "two" : "one";
  document.title = docs.map(doc => doc.name).join(" and ") + " – sami view";
  fit();
}
// Moves the cursor to the first alarm, else to the end of the first episode.
function start() {
  const run = views[0].run, score = run.col("score"), first = run.episodes[0];
  const alarm = Array.from({ length: run.count }, (_, i) => i).find(i => score[i] > 1);
  if (first) { look.at = run.t(alarm ?? first.to - 1); dirty = true; }
}
theme();
show(page.runs);
if (views.length) start();
if (page.live) {  // the page only receives events and sends nothing
  $("live").hidden = $("follow").hidden = false; following = true;
  const stream = new EventSource("events");
  stream.onmessage = event => {
    const message = JSON.parse(event.data);
    if (message.run) { views.length = 0; $("runs").replaceChildren(); show([message.run]); }
    else if (message.over) { $("live").textContent = "over"; $("live").className = "over"; following = false; stream.close(); fit(); }
    else if (views.length) { views[0].run.add(message); dirty = true; }
  };
  stream.onerror = () => { if ($("live").textContent === "live") { $("live").textContent = "lost"; $("live").className = "over"; } };
  stream.onopen = () => { $("live").textContent = "live"; $("live").className = ""; };
}
requestAnimationFrame(frame);
