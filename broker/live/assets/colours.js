// The colours of members, as in the report of the audit (audit/report/assets/colours.js): hues advance by the golden
// angle, which never repeats a hue. From the 25th member on, a pattern distinguishes members with similar hues.

import { svg } from "./dom.js";

const HUES = [222, 48, 155, 318, 88, 190, 22, 285, 128, 350, 68, 250];
const FIRST_PATTERN = 24;
const PATTERNS = ["M0 6 6 0", "M0 0 6 6", "M3 0V6", "M0 3H6", "M0 6 6 0M0 0 6 6"];
const LIGHTNESS = { light: 0.64, dark: 0.7 };

export const theme = () => document.documentElement.dataset.theme;

export function memberColour(index) {
  const hue = index < HUES.length ? HUES[index] : index * 137.50776405 % 360;
  const tier = index < HUES.length ? [0, 0.08, -0.07][index % 3] : [0.03, -0.09, 0.12, -0.03][index % 4];
  return `oklch(${(LIGHTNESS[theme()] + tier).toFixed(3)} ${index % 2 ? 0.13 : 0.115} ${hue.toFixed(4)})`;
}
export const memberPattern = (index) => index < FIRST_PATTERN ? null : PATTERNS[(index - FIRST_PATTERN) % PATTERNS.length];

export function swatch(index) {
  const drawing = svg("svg", { width: 13, height: 13, viewBox: "0 0 13 13", "aria-hidden": "true", class: "swatch" });
  paintSwatch(drawing, index);
  return drawing;
}

export function paintSwatch(drawing, index) {
  const shown = index + theme();
  if (drawing.dataset.shown === shown) return;
  drawing.dataset.shown = shown;
  drawing.replaceChildren(svg("rect", { width: 13, height: 13, rx: 3, style: { fill: memberColour(index) } }));
  const pattern = memberPattern(index);
  if (pattern) drawing.append(svg("path", { d: pattern, transform: "translate(3.5 3.5)", class: "hatch" }));
}

export const CAUSE_COLOURS = ["#3f7fbf", "#c2772a", "#5a9a54", "#9a62b5", "#b84a5e", "#3c9a97", "#8a7a3a", "#6b7680"];
