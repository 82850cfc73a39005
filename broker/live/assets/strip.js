// Who owned what: a row per partition, a bar per ownership in the colour of its owner, growing to the right as time goes
// on. Drawn on a canvas: there may be thousands of bars, and they move.

import { CAUSE_COLOURS, memberColour, memberPattern, theme } from "./colours.js";
import { clock, moment, safe, duration } from "./format.js";

const SILENCE_MS = 2500; // without a word for so long, time stands still: nobody knows who owns what now
const GUTTER = 58;
const RIGHT = 14;
const HEADING = 22;
const LANE = 26; // of rebalances
const AXIS = 22;
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400].map((s) => s * 1000);

export class Strip {
  constructor(canvas, names) {
    this.canvas = canvas;
    this.names = names; // shown name of a person, by index
    this.data = { rows: [], bars: [], rebalances: [], people: {} };
    this.window = 10 * 60e3;
    this.offset = 0; // the server's clock minus ours
    this.told = Infinity; // the server's time when it was heard last
    this.chosen = null;
    this.lifted = null; // a person; the others fade
    this.patterns = new Map();
    this.ended = false;
    this.dueAt = 0;
    canvas.tipAt = (event) => this.tipAt(event);
    this.watcher = new ResizeObserver(() => this.draw());
    this.watcher.observe(canvas.parentElement);
    this.timer = setInterval(() => { if (!document.hidden && performance.now() >= this.dueAt) requestAnimationFrame(() => this.draw()); }, 250);
  }

  lift(person) { this.lifted = person; this.draw(); }

  end() { this.ended = true; clearInterval(this.timer); this.watcher.disconnect(); }

  show(data, shares) {
    data.bars.sort((a, b) => a[3] - b[3]); // a colour takes longer to set than a bar to draw
    this.data = data;
    this.shares = shares;
    this.plan();
    this.draw();
  }

  tick(now) { this.offset = now - Date.now(); this.told = now; }
  now() { return Math.min(Date.now() + this.offset, this.told + SILENCE_MS); }

  // Where each row is. Partitions of share groups have several owners, which share the row's height.
  plan() {
    const { rows, bars } = this.data;
    const lanes = rows.map(() => new Map());
    if (this.shares) for (const [row, , , person] of bars) if (!lanes[row].has(person)) lanes[row].set(person, lanes[row].size);
    const height = rows.length <= 16 ? 18 : rows.length <= 40 ? 13 : 9;
    this.places = [];
    this.headings = [];
    let y = 4;
    rows.forEach(([topic, partition], index) => {
      if (!index || topic !== rows[index - 1][0]) {
        y += index ? 6 : 0;
        this.headings.push({ y: y + 14, text: safe(topic) });
        y += HEADING;
      }
      const tall = this.shares ? Math.max(height, 7 * lanes[index].size) : height;
      this.places.push({ y, height: tall, lanes: lanes[index], label: String(partition), every: Math.ceil(11 / height) });
      y += tall;
    });
    this.bottom = y;
    this.tall = y + LANE + AXIS;
  }

  from(now) {
    const starts = [...this.data.bars.map((bar) => bar[1]), ...this.data.rebalances.map((each) => each.began ?? each.at)];
    const first = Math.min(now - 20e3, starts.reduce((a, b) => Math.min(a, b), Infinity) - 1000);
    return this.window ? Math.max(first, now - this.window) : first;
  }

  draw() {
    if (this.ended || !this.places) return;
    const began = performance.now();
    const { canvas } = this;
    const width = canvas.parentElement.clientWidth;
    const ratio = devicePixelRatio || 1;
    const size = `${width}x${this.tall}x${ratio}`;
    if (this.size !== size) {
      this.size = size;
      canvas.width = width * ratio;
      canvas.height = this.tall * ratio;
      canvas.style.width = width + "px";
      canvas.style.height = this.tall + "px";
    }
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, this.tall);
    const look = getComputedStyle(document.documentElement);
    const colour = (name) => look.getPropertyValue(name).trim();
    const now = this.now();
    const from = this.from(now);
    const end = width - RIGHT;
    const x = (ms) => GUTTER + Math.max(0, Math.min(1, (ms - from) / (now - from))) * (end - GUTTER);
    this.scale = { from, now, end, x };
    this.axis(pen, colour);
    this.labels(pen, colour);
    this.bars(pen, colour);
    this.marks(pen, colour);
    pen.strokeStyle = colour("--accent");
    pen.globalAlpha = 0.55 + 0.45 * Math.sin(Date.now() / 500) ** 2;
    line(pen, end + 0.5, 2, end + 0.5, this.bottom + 2);
    pen.globalAlpha = 1;
    this.dueAt = performance.now() + (performance.now() - began) * 20;
  }

  axis(pen, colour) {
    const { from, now, end, x } = this.scale;
    const step = STEPS.find((each) => (end - GUTTER) / ((now - from) / each) > 84) || 86400e3;
    pen.font = "11px system-ui, sans-serif";
    pen.fillStyle = colour("--faint");
    pen.strokeStyle = colour("--grid");
    pen.textAlign = "center";
    const zone = new Date(now).getTimezoneOffset() * 60e3;
    for (let at = Math.ceil((from - zone) / step) * step + zone; at < now; at += step) {
      line(pen, Math.round(x(at)) + 0.5, 2, Math.round(x(at)) + 0.5, this.bottom + 4);
      if (x(at) > GUTTER + 20 && x(at) < end - 22) pen.fillText(step < 60e3 ? clock(at) : clock(at).slice(0, 5), x(at), this.tall - 5);
    }
    pen.strokeStyle = colour("--line");
    line(pen, GUTTER, this.bottom + 4.5, end, this.bottom + 4.5);
  }

  labels(pen, colour) {
    pen.fillStyle = colour("--ink");
    pen.textAlign = "left";
    pen.font = "600 12px system-ui, sans-serif";
    for (const { y, text } of this.headings) pen.fillText(text.slice(0, 150), GUTTER, y);
    pen.fillStyle = colour("--faint");
    pen.textAlign = "right";
    pen.font = "10.5px system-ui, sans-serif";
    this.places.forEach((place, index) => {
      if (Number(place.label) % place.every === 0 || place.height > 12 || index === 0) pen.fillText(place.label, GUTTER - 7, place.y + place.height / 2 + 3.5);
    });
  }

  bars(pen, colour) {
    const round = this.places.length <= 40;
    let before = null;
    let pattern = null;
    for (const bar of this.data.bars) {
      const box = this.boxOf(bar);
      if (!box) continue;
      const person = bar[3];
      if (person !== before) {
        before = person;
        pen.globalAlpha = this.lifted === null || this.lifted === person ? 1 : 0.2;
        pattern = this.pattern(pen, person, colour);
        pen.fillStyle = memberColour(person);
      }
      const [left, y, wide, height] = box;
      fill(pen, left, y + 1, wide, height - 2, round ? Math.min(3, wide / 2, height / 3) : 0);
      if (pattern) {
        pen.fillStyle = pattern;
        fill(pen, left, y + 1, wide, height - 2, 0);
        pen.fillStyle = memberColour(person);
      }
    }
    pen.globalAlpha = 1;
  }

  // Where a bar is: left, top, width and height; null if it was before the time that is shown.
  boxOf([row, start, stop, person]) {
    const { from, now, x } = this.scale;
    if (stop !== null && stop < from) return null;
    const { y, height, lanes } = this.places[row];
    const left = x(start);
    const wide = Math.max(1.2, x(stop ?? now) - left - (stop === null ? 0 : 1));
    if (!this.shares || lanes.size < 2) return [left, y, wide, height];
    return [left, y + height / lanes.size * lanes.get(person), wide, height / lanes.size];
  }

  pattern(pen, person, colour) {
    const d = memberPattern(person);
    if (!d) return null;
    const id = d + theme();
    if (!this.patterns.has(id)) {
      const tile = new OffscreenCanvas(6, 6);
      const ink = tile.getContext("2d");
      ink.strokeStyle = colour("--card");
      ink.globalAlpha = 0.75;
      ink.lineWidth = 1.3;
      ink.stroke(new Path2D(d));
      this.patterns.set(id, pen.createPattern(tile, "repeat"));
    }
    return this.patterns.get(id);
  }

  // Rebalances: from their beginning to their end, and a tick at the end.
  marks(pen, colour) {
    const { from, now, x } = this.scale;
    const y = this.bottom + 10;
    this.ticks = [];
    for (const each of this.data.rebalances) {
      const stop = each.over ? each.at + (each.kind === "epoch" ? each.duration_ms || 0 : 0) : now;
      const start = each.began ?? each.at;
      if (stop < from) continue;
      const chosen = this.chosen === each.number;
      pen.fillStyle = each.colour;
      if (chosen) {
        pen.globalAlpha = 0.14;
        pen.fillRect(x(start) - 2, 2, Math.max(4, x(stop) - x(start) + 4), this.bottom);
        pen.globalAlpha = 1;
      }
      fill(pen, x(start) - 1, y + 2, Math.max(2, x(stop) - x(start) + 2), 4, 2);
      pen.beginPath();
      pen.arc(x(stop), y + 4, chosen ? 5.5 : 4, 0, 7);
      pen.fill();
      pen.strokeStyle = colour("--card");
      pen.stroke();
      this.ticks.push([x(start) - 4, x(stop) + 6, each]);
    }
  }

  tipAt(event) {
    const bounds = this.canvas.getBoundingClientRect();
    const [px, py] = [event.clientX - bounds.left, event.clientY - bounds.top];
    if (py > this.bottom) {
      const found = (this.ticks || []).findLast(([a, b]) => px >= a && px <= b);
      return found ? `${found[2].title}\n${moment(found[2].at)}\n${safe(found[2].explanation)}` : null;
    }
    const hit = this.scale && this.data.bars.find((bar) => {
      const box = this.boxOf(bar);
      return box && px >= box[0] && px <= box[0] + box[2] && py >= box[1] && py <= box[1] + box[3];
    });
    if (!hit) return null;
    const [row, start, stop, person] = hit;
    const [topic, partition] = this.data.rows[row];
    const until = stop === null ? `since ${moment(start)}, for ${duration(this.now() - start)}` : `from ${moment(start)} to ${clock(stop)}, for ${duration(stop - start)}`;
    return `${safe(topic)}-${partition}\n${this.names(person)}\n${until}`;
  }

  rebalanceAt(event) {
    const bounds = this.canvas.getBoundingClientRect();
    if (event.clientY - bounds.top < this.bottom) return null;
    const px = event.clientX - bounds.left;
    const found = (this.ticks || []).findLast(([a, b]) => px >= a && px <= b);
    return found ? found[2] : null;
  }
}

function line(pen, x1, y1, x2, y2) { pen.beginPath(); pen.moveTo(x1, y1); pen.lineTo(x2, y2); pen.stroke(); }
function fill(pen, x, y, width, height, radius) {
  if (radius < 1) { pen.fillRect(x, y, width, height); return; }
  pen.beginPath();
  pen.roundRect(x, y, width, height, radius);
  pen.fill();
}

// Causes have a colour each, in the order in which they were first seen.
const seen = [];
export function causeColour(cause) {
  const name = cause.split(": ")[0] || "unknown";
  if (!seen.includes(name)) seen.push(name);
  return CAUSE_COLOURS[Math.min(seen.indexOf(name), CAUSE_COLOURS.length - 1)];
}
