// Makes elements, words and numbers. Everything from the log is inserted as text, never as HTML, and what would not be
// shown as it is, such as marks that turn the direction of writing, is written out.

const SHOWN = ["data-tip", "aria-label", "title"];  // the other attributes are for programs
const UNSAFE = /(?!\n)[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu;
const safe = (value) => typeof value !== "string" ? value : value.replace(UNSAFE, (char) => {
  const code = char.codePointAt(0);
  return code < 256 ? "\\x" + code.toString(16).padStart(2, "0") : `\\u{${code.toString(16)}}`;
});
const SVG = "http://www.w3.org/2000/svg";
const SEVERITIES = ["critical", "error", "warning", "info"];

function put(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : SHOWN.includes(name) ? safe(value) : value);
  }
  for (const child of children.flat(2)) {
    if (child !== null && child !== undefined && child !== false) element.append(safe(child));
  }
  return element;
}
const el = (tag, attributes, ...children) => put(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => put(document.createElementNS(SVG, tag), attributes, children);

const number = (value) => value === null || value === undefined ? "–" : value.toLocaleString("en-US");
const plural = (count, one, many) => `${number(count)} ${count === 1 ? one : many || one + "s"}`;

function short(value) {
  if (value === null || value === undefined) return "–";
  for (const [unit, size, from] of [["bn", 1e9, 1e9], ["M", 1e6, 1e6], ["k", 1e3, 1e5]]) {
    if (Math.abs(value) >= from) return (value / size).toFixed(Math.abs(value) >= size * 100 ? 0 : 1) + " " + unit;
  }
  return number(value);
}
function bytes(value) {
  if (value === null || value === undefined) return "–";
  for (const [unit, size] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]]) {
    if (value >= size) return (value / size).toFixed(value >= size * 100 ? 0 : 1) + " " + unit;
  }
  return value + " B";
}
function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1000) return ms + " ms";
  if (ms < 60e3) return (ms / 1000).toFixed(ms < 10e3 ? 1 : 0) + " s";
  if (ms < 3600e3) return Math.floor(ms / 60e3) + " min " + Math.round(ms % 60e3 / 1000) + " s";
  if (ms < 48 * 3600e3) return Math.floor(ms / 3600e3) + " h " + Math.round(ms % 3600e3 / 60e3) + " min";
  return (ms / 86400e3).toFixed(1) + " days";
}
const iso = (ms) => new Date(ms).toISOString();
const moment = (ms) => ms === null || ms === undefined ? "–" : iso(ms).slice(0, 19).replace("T", " ");
const precise = (ms) => ms === null || ms === undefined ? "–" : iso(ms).slice(0, 23).replace("T", " ");
const words = (name) => name.replaceAll("_", " ").replace(/\bcrc\b/, "CRC");
// Member ids end in a UUID; its first digits tell them apart.
const brief = (id) => id.replace(/([0-9a-f]{8})(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, "$1…");
const sentence = (name) => words(name).charAt(0).toUpperCase() + words(name).slice(1);

// Every severity has a shape, so that it can be recognised without its colour.
const SHAPES = {
  critical: "M5 0 10 5 5 10 0 5Z", error: "M0 0H10V10H0Z", warning: "M5 0.5 10 9.5H0Z", info: "M5 0A5 5 0 1 1 5 10A5 5 0 1 1 5 0Z",
  none: "M0.5 5.5 3.5 8.5 9.5 1.5 8.3 0.6 3.4 6.4 1.6 4.5Z", not: "M1 4H9V6H1Z",
};
const shape = (severity) => svg("svg", { viewBox: "0 0 10 10", class: "dot " + severity, "aria-hidden": "true" }, svg("path", { d: SHAPES[severity] }));
const badge = (severity, text) => el("span", { class: "badge " + severity }, shape(severity), text || severity);

function table(heads, rows) {
  const cell = (tag, column, content) => el(tag, { class: column.class || false }, content);
  return el("div", { class: "scroll" }, el("table", {},
    el("thead", {}, el("tr", {}, heads.map((column) => cell("th", column, column.name)))),
    el("tbody", {}, rows.map((row) => el("tr", {}, row.map((content, index) => cell("td", heads[index], content)))))));
}

// Shows `rows` in steps, so that ten thousand rows do not block the page.
function inSteps(holder, rows, draw, first, step) {
  let shown = 0;
  const more = el("button", { type: "button", class: "more", onclick: () => next(step) });
  function next(count) {
    more.remove();
    holder.append(...rows.slice(shown, shown + count).map(draw));
    shown = Math.min(rows.length, shown + count);
    const left = rows.slice(shown).reduce((sum, row) => sum + (Array.isArray(row) ? row.length : 1), 0);
    if (left) {
      more.textContent = `Show more (${number(left)} left)`;
      holder.append(more);
    }
  }
  next(first);
}

// One tooltip for everything that has data-tip.
function followTips() {
  const tip = document.getElementById("tip");
  const show = (event) => {
    const target = event.target.closest && event.target.closest("[data-tip]");
    if (!target) { tip.hidden = true; return; }
    tip.textContent = target.getAttribute("data-tip");
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const at = event.clientX === undefined ? target.getBoundingClientRect() : { left: event.clientX, bottom: event.clientY };
    tip.style.left = Math.max(6, Math.min(at.left + 14, innerWidth - box.width - 8)) + "px";
    tip.style.top = (at.bottom + 18 + box.height > innerHeight ? at.bottom - box.height - 12 : at.bottom + 16) + "px";
  };
  document.addEventListener("pointermove", show);
  document.addEventListener("focusin", show);
  document.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });
}
