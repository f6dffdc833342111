// The squares: one for each node, drawn on a canvas. A colour and a shape for each class.

import { CLASSES, printable } from "./dom.js";

const GAP_GROUP = 10;
const LABEL = 18;

/** Draws one square. Shapes: done is full, active has a hole, failed a cross, waiting a dot, left out a stroke. */
function draw(pen, name, x, y, size, colours) {
  const inner = Math.max(1, size - (size > 5 ? 1 : 0));
  pen.fillStyle = colours[name];
  if (name === "done" || inner < 4) {
    pen.fillRect(x, y, inner, inner);
    return;
  }
  const third = Math.max(1, Math.round(inner / 3));
  if (name === "active") {
    pen.fillRect(x, y, inner, inner);
    pen.fillStyle = colours.ground;
    pen.fillRect(x + third, y + third, inner - 2 * third, inner - 2 * third);
  } else if (name === "failed") {
    pen.fillRect(x, y, inner, inner);
    pen.strokeStyle = colours.ground;
    pen.lineWidth = Math.max(1, inner / 7);
    pen.beginPath();
    pen.moveTo(x + 2, y + 2);
    pen.lineTo(x + inner - 2, y + inner - 2);
    pen.moveTo(x + inner - 2, y + 2);
    pen.lineTo(x + 2, y + inner - 2);
    pen.stroke();
  } else if (name === "waiting") {
    pen.fillRect(x + third, y + third, Math.max(1, inner - 2 * third), Math.max(1, inner - 2 * third));
    pen.strokeStyle = colours.waiting;
    pen.lineWidth = 1;
    pen.strokeRect(x + 0.5, y + 0.5, inner - 1, inner - 1);
  } else {
    pen.fillRect(x, y, inner, inner);
    pen.strokeStyle = colours.waiting;
    pen.lineWidth = 1;
    pen.beginPath();
    pen.moveTo(x, y + inner);
    pen.lineTo(x + inner, y);
    pen.stroke();
  }
}

function colours() {
  const of = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  return {
    done: of("--done"), active: of("--active"), failed: of("--failed"), waiting: of("--waiting"),
    leftOut: of("--left-out"), ground: of("--ground"), text: of("--text"), focus: of("--focus"),
  };
}

/** A square of the legend. */
export function sample(name) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 24;
  const pen = canvas.getContext("2d");
  pen.scale(2, 2);
  draw(pen, name, 0, 0, 12, colours());
  canvas.setAttribute("aria-hidden", "true");
  return canvas;
}

export class Grid {
  /** `open(name)` explains a node, `say(text)` tells what the cursor is at. */
  constructor(canvas, tip, open, say) {
    Object.assign(this, { canvas, tip, open, say });
    Object.assign(this, { nodes: [], groups: [], looks: [], squares: [], shown: [], boxes: [], cursor: -1, frames: 0 });
    this.filter = { text: "", classes: new Set() };
    this.dirty = new Set();
    canvas.addEventListener("pointermove", (event) => this.point(event));
    canvas.addEventListener("pointerleave", () => this.hide());
    canvas.addEventListener("click", (event) => this.click(event));
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("focus", () => this.move(this.cursor < 0 ? 0 : this.cursor));
    canvas.addEventListener("blur", () => this.hide());
    this.resized = new ResizeObserver(() => this.layout());
    this.resized.observe(canvas.parentElement);
    this.scheme = matchMedia("(prefers-color-scheme: dark)");
    this.repaint = () => this.layout();
    this.scheme.addEventListener("change", this.repaint);
  }

  end() {
    this.resized.disconnect();
    this.scheme.removeEventListener("change", this.repaint);
  }

  fleet({ groups, nodes }) {
    const at = this.nodes[this.cursor];
    Object.assign(this, { groups, nodes, looks: [], squares: new Array(nodes.length).fill(-1) });
    this.cursor = nodes.indexOf(at);
    // What they look like follows at once.
    if (!nodes.length) this.layout();
  }

  add(looks) {
    this.looks.push(...looks);
  }

  update({ all, changed }) {
    if (all) this.squares = all;
    else for (const [at, look] of changed) {
      this.squares[at] = look;
      this.dirty.add(at);
    }
    if (all || this.filter.text || this.filter.classes.size) this.layout();
    else this.ask();
  }

  setFilter(filter) {
    this.filter = filter;
    this.layout();
  }

  look(at) {
    return this.looks[this.squares[at]] ?? { class: "waiting", place: "", reason: "", words: "" };
  }

  matches(at) {
    const look = this.look(at);
    const { text, classes } = this.filter;
    if (classes.size && !classes.has(look.class)) return false;
    if (!text) return true;
    return `${this.nodes[at]} ${look.place} ${look.reason} ${look.words}`.toLowerCase().includes(text);
  }

  /** Where each square is. The size follows from how many there are. */
  layout() {
    const width = this.canvas.parentElement.clientWidth;
    if (!width) return;
    const count = this.nodes.length;
    this.size = count > 20000 ? 5 : count > 4000 ? 8 : count > 600 ? 11 : count > 100 ? 16 : 22;
    const across = Math.max(1, Math.floor(width / this.size));
    Object.assign(this, { across, boxes: new Array(count), shown: [], labels: [] });
    let y = 0;
    let first = 0;
    for (const [name, number] of this.groups) {
      const shown = [];
      for (let at = first; at < first + number; at += 1) if (this.matches(at)) shown.push(at);
      first += number;
      if (!shown.length) continue;
      if (name) {
        this.labels.push([name, shown.length, number, y]);
        y += LABEL;
      }
      shown.forEach((at, n) => {
        this.boxes[at] = [(n % across) * this.size, y + Math.floor(n / across) * this.size];
        this.shown.push(at);
      });
      y += Math.ceil(shown.length / across) * this.size + GAP_GROUP;
    }
    this.height = Math.max(y, 1);
    this.width = width;
    this.whole = true;
    this.ask();
  }

  ask() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => this.paint());
  }

  paint() {
    this.asked = false;
    this.frames += 1;
    const { canvas } = this;
    const pen = canvas.getContext("2d");
    const of = colours();
    if (this.whole) {
      const scale = devicePixelRatio || 1;
      canvas.width = Math.round(this.width * scale);
      canvas.height = Math.round(this.height * scale);
      canvas.style.height = `${this.height}px`;
      pen.setTransform(scale, 0, 0, scale, 0, 0);
      pen.fillStyle = of.text;
      pen.font = "12px system-ui, sans-serif";
      for (const [name, shown, number, y] of this.labels)
        pen.fillText(printable(`${name}  ${shown === number ? number : `${shown} of ${number}`}`), 0, y + 12);
      for (const at of this.shown) this.one(pen, at, of);
      this.whole = false;
    } else for (const at of this.dirty) this.one(pen, at, of);
    this.dirty.clear();
    const box = this.boxes[this.cursor];
    if (box && document.activeElement === canvas) {
      pen.strokeStyle = of.focus;
      pen.lineWidth = 2;
      pen.strokeRect(box[0], box[1], this.size - 1, this.size - 1);
    }
  }

  one(pen, at, of) {
    const box = this.boxes[at];
    if (!box) return;
    pen.fillStyle = of.ground;
    pen.fillRect(box[0], box[1], this.size, this.size);
    draw(pen, this.look(at).class, box[0], box[1], this.size, of);
  }

  at(event) {
    const frame = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - frame.left, event.clientY - frame.top];
    return this.shown.find((at) => {
      const [left, top] = this.boxes[at];
      return x >= left && x < left + this.size && y >= top && y < top + this.size;
    });
  }

  /** What a square says: node, place, reason, and what came out. */
  told(at) {
    const look = this.look(at);
    const reason = look.reason && !look.words.includes(look.reason) ? ` ${look.reason}` : "";
    const says = look.words && look.words !== look.place ? `: ${look.words}` : "";
    const place = look.words.startsWith(look.place) ? "" : look.place + reason;
    return `${this.nodes[at]} ${place}${place ? says : look.words}`.trim();
  }

  show(at, x, y) {
    this.tip.textContent = printable(this.told(at));
    this.tip.hidden = false;
    const width = this.tip.offsetWidth;
    this.tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - width - 4))}px`;
    this.tip.style.top = `${Math.min(y + 16, innerHeight - this.tip.offsetHeight - 4)}px`;
  }

  hide() {
    this.tip.hidden = true;
    this.whole = true;
    this.ask();
  }

  point(event) {
    const at = this.at(event);
    if (at === undefined) this.tip.hidden = true;
    else this.show(at, event.clientX, event.clientY);
  }

  click(event) {
    const at = this.at(event);
    if (at === undefined) return;
    this.cursor = at;
    this.open(this.nodes[at]);
  }

  move(at) {
    if (!this.shown.length) return;
    if (this.boxes[at] === undefined) at = this.shown[0];
    this.cursor = at;
    this.whole = true;
    this.ask();
    const [x, y] = this.boxes[at];
    let top = this.canvas.getBoundingClientRect().top + y;
    if (top < 0 || top > innerHeight - this.size) {
      scrollBy(0, top - innerHeight / 2);
      top = this.canvas.getBoundingClientRect().top + y;
    }
    this.show(at, this.canvas.getBoundingClientRect().left + x, top);
    this.say(this.told(at));
  }

  key(event) {
    const place = this.shown.indexOf(this.cursor);
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.across, ArrowUp: -this.across };
    if (event.key in steps) {
      const next = Math.min(this.shown.length - 1, Math.max(0, place + steps[event.key]));
      this.move(this.shown[next]);
    } else if (event.key === "Home") this.move(this.shown[0]);
    else if (event.key === "End") this.move(this.shown.at(-1));
    else if (event.key === "n") {
      const failed = (at) => this.look(at).class === "failed";
      const next = this.shown.slice(place + 1).find(failed) ?? this.shown.find(failed);
      if (next !== undefined) this.move(next);
    } else if (event.key === "Enter" || event.key === " ") {
      if (this.cursor >= 0) this.open(this.nodes[this.cursor]);
    } else return;
    event.preventDefault();
  }

  counts() {
    const counts = Object.fromEntries(CLASSES.map((name) => [name, 0]));
    for (let at = 0; at < this.nodes.length; at += 1) counts[this.look(at).class] += 1;
    return counts;
  }
}
