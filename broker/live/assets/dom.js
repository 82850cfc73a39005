// Makes elements. All text is inserted as text, never as HTML. Styles are set as properties: the page's policy forbids
// style attributes.

const SVG = "http://www.w3.org/2000/svg";

function put(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, each] of Object.entries(value)) element.style.setProperty(key, each);
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(2)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}
export const el = (tag, attributes, ...children) => put(document.createElement(tag), attributes, children);
export const svg = (tag, attributes, ...children) => put(document.createElementNS(SVG, tag), attributes, children);

// Sets text only where it differs: a page that changes each second must not make the browser lay out everything anew.
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// One tooltip for everything that has data-tip, or a function `tipAt` in its place.
export function followTips() {
  const tip = document.getElementById("tip");
  const hide = () => { tip.hidden = true; };
  document.addEventListener("pointermove", (event) => {
    const target = event.target.closest && event.target.closest("[data-tip], canvas, .chart");
    const text = target && (target.tipAt ? target.tipAt(event) : target.getAttribute("data-tip"));
    if (!text) { hide(); return; }
    say(tip, text);
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.max(6, Math.min(event.clientX + 14, innerWidth - box.width - 8)) + "px";
    tip.style.top = (event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 12 : event.clientY + 16) + "px";
  });
  document.addEventListener("scroll", hide, { passive: true });
  document.addEventListener("keydown", hide);
}

// Rows of one height in a box that scrolls: only those that can be seen are in the page, and are used again.
export class VirtualRows {
  constructor(box, { height, make, fill, onPlace }) {
    this.box = box;
    this.height = height;
    this.make = make;
    this.fill = fill;
    this.onPlace = onPlace;
    this.rows = [];
    this.pool = [];
    this.holder = el("div", { class: "rows" });
    box.append(this.holder);
    this.due = false;
    box.addEventListener("scroll", () => this.draw(), { passive: true });
    this.watcher = new ResizeObserver(() => this.draw());
    this.watcher.observe(box);
  }

  show(rows) {
    this.rows = rows;
    this.holder.style.height = rows.length * this.height + "px";
    this.draw();
  }

  draw() {
    if (this.due) return;
    this.due = true;
    requestAnimationFrame(() => { this.due = false; this.drawNow(); });
  }

  drawNow() {
    const first = Math.max(0, Math.floor(this.box.scrollTop / this.height) - 4);
    const count = Math.min(this.rows.length - first, Math.ceil(this.box.clientHeight / this.height) + 8);
    while (this.pool.length < count) {
      const row = this.make();
      this.pool.push(row);
      this.holder.append(row);
    }
    this.pool.forEach((row, index) => {
      row.hidden = index >= count;
      if (index >= count) return;
      row.style.transform = `translateY(${(first + index) * this.height}px)`;
      this.fill(row, this.rows[first + index], first + index);
    });
    if (this.onPlace) this.onPlace(first);
  }

  bringIntoView(index) {
    const top = index * this.height;
    if (top < this.box.scrollTop) this.box.scrollTop = top;
    else if (top + this.height > this.box.scrollTop + this.box.clientHeight) this.box.scrollTop = top + this.height - this.box.clientHeight;
  }

  end() { this.watcher.disconnect(); }
}
