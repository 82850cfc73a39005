// Every member of a group has a colour of its own: hues advance by the golden angle, which never repeats a hue. From the
// 25th member on, a pattern distinguishes members with similar hues.

const HUES = [222, 48, 155, 318, 88, 190, 22, 285, 128, 350, 68, 250];
const FIRST_PATTERN = 24;
const PATTERNS = ["M0 6 6 0", "M0 0 6 6", "M3 0V6", "M0 3H6", "M0 6 6 0M0 0 6 6"];

function memberColour(index) {
  const hue = index < HUES.length ? HUES[index] : index * 137.50776405 % 360;
  const tier = index < HUES.length ? [0, 0.08, -0.07][index % 3] : [0.03, -0.09, 0.12, -0.03][index % 4];
  return `oklch(calc(var(--ml) + ${tier}) ${index % 2 ? 0.13 : 0.115} ${hue.toFixed(4)})`;
}
const memberPattern = (index) => index < FIRST_PATTERN ? null : (index - FIRST_PATTERN) % PATTERNS.length;

// The pattern definitions of one drawing. `prefix` makes their ids unique in the page.
function patternDefs(prefix) {
  return svg("defs", {}, PATTERNS.map((d, number) =>
    svg("pattern", { id: prefix + number, width: 6, height: 6, patternUnits: "userSpaceOnUse" },
      svg("path", { d, style: "stroke: var(--card); stroke-width: 1.3; stroke-opacity: 0.75; fill: none" }))));
}
function memberRects(index, box, prefix, extra) {
  const rects = [svg("rect", { ...box, ...extra, style: `fill: ${memberColour(index)}` })];
  const pattern = memberPattern(index);
  if (pattern !== null) rects.push(svg("rect", { ...box, class: extra.class, fill: `url(#${prefix}${pattern})`, "pointer-events": "none" }));
  return rects;
}
function swatch(index) {
  const prefix = `swatch${index}-`;
  return svg("svg", { width: 13, height: 13, "aria-hidden": "true" }, patternDefs(prefix),
    memberRects(index, { x: 0, y: 0, width: 13, height: 13, rx: 3 }, prefix, {}));
}
const key = (colour, text) => el("span", { class: "key" },
  svg("svg", { width: 12, height: 12, "aria-hidden": "true" }, svg("rect", { width: 12, height: 12, rx: 2, style: `fill: ${colour}` })), el("span", {}, text));

const CAUSE_COLOURS = ["#3f7fbf", "#c2772a", "#5a9a54", "#9a62b5", "#b84a5e", "#3c9a97", "#8a7a3a", "#6b7680"];
