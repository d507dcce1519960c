// The animations: recorded episodes on canvases, their controls, and two of them side by side.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const TRAIL = 16, HOLD = 1.2, JUMP = 0.5;

  // ---- recorded arrays

  const TYPES = { "<i2": Int16Array, "<u2": Uint16Array, "<f4": Float32Array };

  function decoded(packed) {
    const bytes = Uint8Array.from(atob(packed.data), (c) => c.charCodeAt(0));
    return { shape: packed.shape, values: new TYPES[packed.type](bytes.buffer) };
  }

  // An episode of the page with its arrays unpacked, on first use.
  function unpacked(episode, strategy) {
    if (!episode.arrays) {
      episode.unit = strategy.unit;
      episode.backdrop = strategy.backdrop;
      episode.names = strategy.names;
      episode.arrays = Object.fromEntries(Object.entries(episode.packed).map(([k, v]) => [k, decoded(v)]));
      episode.frames = episode.arrays.total.shape[0];
    }
    return episode;
  }

  // Row `t` of an array whose first axis is time; what never changes is there once.
  function row(array, t) {
    const size = array.values.length / array.shape[0];
    const from = (array.shape[0] === 1 ? 0 : t) * size;
    return array.values.subarray(from, from + size);
  }

  // ---- drawing

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const ROLES = new Map(Object.entries({ agent: disc, goal: ring, monster, apple, light, line, enemy }));
  // What has a length and is no limb: strips of terrain, and bars in a colour of their own.
  const STRIPS = new Set(["ground", "plateau", "ramp", "cliff"]);
  const BARS = new Map(Object.entries({ health: "--health", shield: "--shield", shot: "--light", splash: "--light" }));

  function extent(episode) {
    if (!episode.extent) {
      let most = data.extent;
      for (const v of episode.arrays.place.values) most = Math.max(most, Math.abs(v) / episode.unit + 0.05);
      episode.extent = most;
    }
    return episode.extent;
  }

  class Pen {
    constructor(canvas, episode, strategy) {
      const box = canvas.getBoundingClientRect(), scale = devicePixelRatio || 1;
      const size = Math.max(1, Math.round((box.width || 280) * scale));
      const height = Math.max(1, Math.round((box.height || 280) * scale));
      if (canvas.width !== size || canvas.height !== height) { canvas.width = size; canvas.height = height; }
      this.context = canvas.getContext("2d");
      this.context.setTransform(scale, 0, 0, scale, 0, 0);
      this.width = size / scale;
      this.height = height / scale;
      this.context.clearRect(0, 0, this.width, this.height);
      this.unit = episode.arrays.place ? Math.min(this.width, this.height) / 2 / extent(episode) : 1;
      this.ink = colour("--ink"); this.muted = colour("--muted"); this.paper = colour("--panel");
      this.palette = [0, 1, 2, 3, 4, 5, 6].map((i) => colour(`--c${i}`));
      this.own = this.palette[strategy % 7];
    }
    x(value) { return this.width / 2 + value * this.unit; }
    y(value) { return this.height / 2 - value * this.unit; }
    disc(x, y, radius, fill, edge) {
      const c = this.context;
      c.beginPath(); c.arc(x, y, radius, 0, 2 * Math.PI);
      if (fill) { c.fillStyle = fill; c.fill(); }
      if (edge) { c.strokeStyle = edge; c.lineWidth = 1.5; c.stroke(); }
    }
    text(words, x, y, fill, size = 11, room = undefined) {
      const c = this.context;
      c.font = `${size}px system-ui, sans-serif`; c.fillStyle = fill; c.textAlign = "center"; c.textBaseline = "middle";
      c.fillText(words, x, y, room);
    }
  }

  function disc(pen, s) {
    // Agents are in the strategy's colour: the first one filled, the others outlined.
    const radius = Math.max(s.size * pen.unit, 4.5), [fill, edge] = s.rank ? [pen.paper, pen.own] : [pen.own, pen.paper];
    pen.disc(s.x, s.y, radius, fill, edge);
    if (s.label && radius > 7) pen.text(s.label, s.x, s.y, edge, Math.min(radius * 1.3, 14));
  }
  function ring(pen, s) {
    const radius = Math.max(s.size * pen.unit, 2);
    pen.disc(s.x, s.y, radius, pen.muted);
    if (radius < 5) pen.disc(s.x, s.y, radius + 4, null, pen.muted);
    if (s.label) {
      const below = s.y < pen.height - 24;
      pen.text(s.label, s.x, s.y + (below ? 1 : -1) * (Math.max(radius, 6) + 9), pen.muted);
    }
  }
  function monster(pen, s) {
    const c = pen.context, r = s.size * pen.unit * 0.8;
    c.fillStyle = pen.palette[3];
    c.beginPath(); c.arc(s.x, s.y - r * 0.1, r * 0.9, Math.PI, 0);
    c.lineTo(s.x + r * 0.9, s.y + r * 0.9);
    for (let i = 1; i <= 6; i++) c.lineTo(s.x + r * (0.9 - 0.3 * i), s.y + r * (i % 2 ? 0.6 : 0.9));
    c.closePath(); c.fill();
    for (const side of [-0.35, 0.35]) {
      pen.disc(s.x + side * r, s.y - r * 0.2, r * 0.22, "#fff");
      pen.disc(s.x + side * r, s.y - r * 0.14, r * 0.1, "#000");
    }
  }
  function apple(pen, s) {
    const c = pen.context, r = s.size * pen.unit;
    pen.disc(s.x, s.y, r, pen.palette[2]);
    c.strokeStyle = pen.ink; c.lineWidth = 2;
    c.beginPath(); c.moveTo(s.x, s.y - r * 0.7); c.lineTo(s.x + r * 0.35, s.y - r * 1.5); c.stroke();
  }
  function light(pen, s) {
    const c = pen.context, r = s.size * pen.unit * 0.95;
    c.fillStyle = colour("--light");
    c.beginPath();
    for (let i = 0; i < 24; i++) {
      const far = i % 2 ? r * 0.78 : r, angle = (i * Math.PI) / 12;
      c.lineTo(s.x + far * Math.cos(angle), s.y + far * Math.sin(angle));
    }
    c.closePath(); c.fill();
    if (s.label) pen.text(s.label, s.x, s.y + r * 0.55, "#000");
  }
  function line(pen, s) {
    const c = pen.context;
    c.strokeStyle = pen.muted; c.globalAlpha = 0.45; c.lineWidth = Math.max(2 * s.size * pen.unit, 1); c.lineCap = "round";
    c.beginPath(); c.moveTo(s.x, s.y); c.lineTo(s.endX, s.endY); c.stroke();
    c.globalAlpha = 1;
  }
  function strip(pen, s) {
    const c = pen.context, half = s.size * pen.unit;
    c.fillStyle = colour(`--${s.role}`);
    c.fillRect(s.x, s.y - half - 0.25, s.endX - s.x, 2 * half + 0.5);
  }
  function bar(pen, s) {
    const c = pen.context;
    c.strokeStyle = colour(BARS.get(s.role)); c.lineWidth = Math.max(2 * s.size * pen.unit, 1.5);
    c.lineCap = s.role === "splash" ? "round" : "butt"; c.globalAlpha = s.role === "splash" ? 0.45 : 1;
    c.beginPath(); c.moveTo(s.x, s.y); c.lineTo(s.endX, s.endY); c.stroke();
    c.globalAlpha = 1;
  }
  function enemy(pen, s) {
    pen.disc(s.x, s.y, Math.max(s.size * pen.unit, 1.5), colour("--enemy"));
  }
  function limb(pen, s) {
    const c = pen.context, width = Math.max(2 * s.size * pen.unit, 2);
    c.lineCap = "round";
    // A light edge around each, so that limbs that cross are told apart.
    for (const [ink, more] of [[pen.paper, 2.5], [pen.palette[s.kind % 7], 0]]) {
      c.strokeStyle = ink; c.lineWidth = width + more;
      if (!hasLength(s)) { pen.disc(s.x, s.y, c.lineWidth / 2, ink); continue; }
      c.beginPath(); c.moveTo(s.x, s.y); c.lineTo(s.endX, s.endY); c.stroke();
    }
  }
  function other(pen, s) {
    pen.disc(s.x, s.y, Math.max(s.size * pen.unit, 3), pen.palette[5], pen.ink);
    if (s.label) pen.text(s.label, s.x, s.y + Math.max(s.size * pen.unit, 3) + 9, pen.muted);
  }

  // Whether slot `s` is a limb, by the first moment.
  const isLong = ({ place, end }, s) => end && [0, 1].some((axis) => place.values[2 * s + axis] !== end.values[2 * s + axis]);
  const hasLength = (s) => s.x !== s.endX || s.y !== s.endY;

  function paint(pen, shape) {
    if (STRIPS.has(shape.role)) return strip(pen, shape);
    if (BARS.has(shape.role)) return bar(pen, shape);
    // Limbs of one label share a colour, so that one follows a leg through the gait.
    const isLimb = shape.role === "limb" || (shape.role !== "line" && hasLength(shape));
    (isLimb ? limb : ROLES.get(shape.role) || other)(pen, shape);
  }

  // Where slot `s` is at moment `t`, which may lie between two recorded ones; jumps are not smoothed.
  function between(array, t, s, unit) {
    const before = Math.floor(t), part = t - before, size = array.shape[1];
    const at = (frame, axis) => array.values[(frame * size + s) * 2 + axis] / unit;
    const [x, y] = [at(before, 0), at(before, 1)];
    if (!part) return [x, y];
    const [nextX, nextY] = [at(before + 1, 0), at(before + 1, 1)];
    return Math.hypot(nextX - x, nextY - y) > JUMP ? [x, y] : [x + part * (nextX - x), y + part * (nextY - y)];
  }

  function drawScene(pen, episode, t) {
    const { arrays, unit } = episode, frame = Math.floor(t);
    for (const [role, x, y, size, label, end] of episode.backdrop)
      paint(pen, shapeOf(pen, role, label, [x, y], end || [x, y], size, 0));
    // What is gone in the next moment stays where it is until then.
    const next = row(arrays.kind, Math.min(frame + 1, episode.frames - 1));
    const kinds = row(arrays.kind, frame), sizes = row(arrays.size, frame), ranks = {};
    for (let s = 0; s < kinds.length; s++)
      if (kinds[s] && episode.kinds[kinds[s] - 1][0] === "agent") { way(pen, episode, s); trail(pen, episode, t, s, ranks); }
    const seen = {};
    for (let s = 0; s < kinds.length; s++) {
      if (!kinds[s]) continue;
      const [role, label] = episode.kinds[kinds[s] - 1], when = next[s] ? t : frame;
      const from = between(arrays.place, when, s, unit), end = arrays.end ? between(arrays.end, when, s, unit) : from;
      seen[role] = (seen[role] ?? -1) + 1;
      const shape = shapeOf(pen, role, label, from, end, sizes[s] / episode.unit, seen[role]);
      paint(pen, { ...shape, kind: kinds[s] });
    }
  }

  function shapeOf(pen, role, label, from, end, size, rank) {
    return { role, label, size, rank, x: pen.x(from[0]), y: pen.y(from[1]), endX: pen.x(end[0]), endY: pen.y(end[1]) };
  }

  // The whole way of an agent, faint: what the still picture shows.
  function way(pen, { arrays, unit, frames }, s) {
    if (isLong(arrays, s)) return;
    const c = pen.context;
    c.strokeStyle = pen.own; c.lineWidth = 2; c.globalAlpha = 0.35; c.beginPath();
    for (let frame = 0, before = null; frame < frames; frame++) {
      const [x, y] = between(arrays.place, frame, s, unit), far = !before || Math.hypot(x - before[0], y - before[1]) > JUMP;
      far ? c.moveTo(pen.x(x), pen.y(y)) : c.lineTo(pen.x(x), pen.y(y));
      before = [x, y];
    }
    c.stroke(); c.globalAlpha = 1;
  }

  function trail(pen, { arrays, unit }, t, s, ranks) {
    const rank = (ranks.agent = (ranks.agent ?? -1) + 1), c = pen.context, now = Math.floor(t);
    if (isLong(arrays, s)) return;
    c.strokeStyle = pen.own; c.lineWidth = 2.5; c.lineCap = "butt"; c.setLineDash(rank ? [3, 3] : []);
    for (let frame = Math.max(0, now - TRAIL); frame <= now; frame++) {
      const [x, y] = between(arrays.place, frame, s, unit);
      const [toX, toY] = frame < now ? between(arrays.place, frame + 1, s, unit) : between(arrays.place, t, s, unit);
      c.globalAlpha = 0.1 + (0.45 * (frame - now + TRAIL)) / TRAIL;
      c.beginPath(); c.moveTo(pen.x(x), pen.y(y)); c.lineTo(pen.x(toX), pen.y(toY)); c.stroke();
    }
    c.globalAlpha = 1; c.setLineDash([]);
  }

  // Pictures that the environment itself made, below one another in one image.
  function drawFilm(pen, episode, t) {
    const { film } = episode;
    if (!film.image) {
      film.image = new Image();
      film.image.onload = () => redraw();
      // Those of a first episode are in its still picture.
      film.image.src = film.data ? `data:image/png;base64,${film.data}` : document.getElementById(film.id).href.baseVal;
    }
    if (!film.image.complete || !film.image.naturalWidth) return;
    const at = Math.round((t / Math.max(episode.frames - 1, 1)) * (film.pictures - 1));
    const scale = Math.min(pen.width / film.width, pen.height / film.height), [w, h] = [film.width * scale, film.height * scale];
    pen.context.drawImage(film.image, 0, at * film.height, film.width, film.height, (pen.width - w) / 2, (pen.height - h) / 2, w, h);
  }

  // ---- players and their controls

  class Player {
    constructor(figure, strategy) {
      this.canvas = figure.querySelector("canvas");
      this.caption = figure.querySelector("figcaption");
      this.show(strategy);
    }
    show(strategy) {
      this.strategy = data.strategies.find((s) => s.index === strategy);
      this.number = 0;
      const episode = this.episode;
      if (episode.film) this.canvas.style.aspectRatio = String(episode.film.width / episode.film.height);
      else if (!episode.arrays.place) this.canvas.style.aspectRatio = String(Math.min(1, 10 / laneCount(episode.arrays)));
    }
    get episode() { return unpacked(this.strategy.episodes[this.number], this.strategy); }
    get frames() { return this.episode.frames; }
    next(by) {
      const count = this.strategy.episodes.length;
      this.number = (this.number + by + count) % count;
    }
    draw(t) {
      const episode = this.episode, at = Math.min(t, episode.frames - 1), frame = Math.floor(at);
      (episode.film ? drawFilm : episode.arrays.place ? drawScene : drawTraces)(new Pen(this.canvas, episode, this.strategy.index), episode, at);
      const step = Math.min(frame * episode.stride, episode.steps), total = episode.arrays.total.values[frame];
      this.caption.textContent =
        `${episode.mode} episode ${this.number + 1} of ${this.strategy.episodes.length} · ` +
        `step ${step} of ${episode.steps} · reward so far ${total.toFixed(2).replace("-", "\u2212")}`;
    }
  }

  class Controls {
    constructor(root, players) {
      this.root = root; this.players = players;
      this.time = 0; this.playing = false; this.visible = false; this.held = 0;
      this.bar = root.querySelector(".controls");
      this.range = this.bar.querySelector("input");
      this.speed = this.bar.querySelector("select");
      this.bar.hidden = false;
      const act = {
        play: () => this.play(!this.playing), back: () => this.step(-1), forward: () => this.step(1),
        next: () => { this.turn(1); this.refresh(); },
      };
      for (const button of this.bar.querySelectorAll("button")) button.addEventListener("click", act[button.dataset.do]);
      this.range.addEventListener("input", () => { this.play(false); this.time = Number(this.range.value); this.refresh(); });
      new IntersectionObserver((entries) => { this.visible = entries.at(-1).isIntersecting; if (this.visible) this.refresh(); }).observe(root);
      new ResizeObserver(() => this.refresh()).observe(root);
      this.refresh();
    }
    get frames() { return Math.max(...this.players.map((player) => player.frames)); }
    get pace() { return Math.min(Math.max(this.frames / 7, 3), 40) * Number(this.speed.value); }
    play(on) {
      this.playing = on;
      const button = this.bar.querySelector("[data-do=play]");
      button.setAttribute("aria-label", on ? "Pause" : "Play");
      button.title = on ? "Pause" : "Play";
      button.querySelector("use").setAttribute("href", on ? "#icon-pause" : "#icon-play");
      if (on && this.time >= this.frames - 1) this.time = this.held = 0;
      wake();
    }
    step(by) {
      this.play(false);
      this.time = Math.min(Math.max((by > 0 ? Math.floor(this.time) : Math.ceil(this.time)) + by, 0), this.frames - 1);
      this.refresh();
    }
    turn(by) {
      for (const player of this.players) player.next(by);
      this.time = 0; this.held = 0;
    }
    advance(seconds) {
      if (this.time >= this.frames - 1) {
        if ((this.held += seconds) > HOLD) this.turn(1);
      } else this.time = Math.min(this.time + seconds * this.pace, this.frames - 1);
      this.refresh();
    }
    refresh() {
      this.range.max = this.frames - 1;
      this.range.value = Math.floor(this.time);
      this.range.setAttribute("aria-valuetext", `step ${Math.floor(this.time)} of ${this.frames - 1}`);
      // Until it is played, a card shows its still picture.
      if (this.playing || this.time > 0 || this.players.some((player) => player.number)) this.root.classList.add("live");
      for (const player of this.players) player.draw(still.matches ? Math.floor(this.time) : this.time);
    }
  }

  // ---- one clock for all

  const all = [];
  let last = null, asked = false;
  function tick(now) {
    asked = false;
    const running = all.filter((controls) => controls.playing);
    // The first picture after a rest only sets the clock.
    const seconds = last === null ? 0 : Math.min((now - last) / 1000, 0.1);
    for (const controls of running) if (controls.visible) controls.advance(seconds);
    last = running.length ? now : null;
    if (running.length) wake();
  }
  function wake() {
    if (!asked) requestAnimationFrame(tick);
    asked = true;
  }

  for (const figure of document.querySelectorAll(".card .player"))
    all.push(new Controls(figure, [new Player(figure, Number(figure.dataset.strategy))]));

  const pair = document.getElementById("pair");
  if (pair) {
    pair.hidden = false;
    const figures = [...pair.querySelectorAll(".player")];
    const selects = figures.map((figure) => figure.querySelector(".choose"));
    const controls = new Controls(pair, figures.map((figure, i) => new Player(figure, Number(selects[i].value))));
    selects.forEach((select, i) => select.addEventListener("change", () => {
      controls.players[i].show(Number(select.value));
      controls.time = 0; controls.refresh();
    }));
    all.push(controls);
  }

  const whole = document.getElementById("play-all");
  if (whole) {
    const playAll = (on) => {
      for (const controls of all) controls.play(on);
      whole.textContent = on ? "Pause all" : "Play all";
      whole.setAttribute("aria-pressed", String(on));
    };
    whole.hidden = false;
    whole.addEventListener("click", () => playAll(whole.getAttribute("aria-pressed") !== "true"));
    playAll(!still.matches);
  }

  const redraw = () => { for (const controls of all) controls.refresh(); };
  dark.addEventListener("change", redraw);
})();
