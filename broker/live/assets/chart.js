// Lines over the time that the page has been open.

import { el, say, svg } from "./dom.js";
import { clock } from "./format.js";

const [WIDTH, HEIGHT, TOP] = [560, 110, 21];

// `names` of the lines, the first of which has an area below it.
export function chart(title, about, names) {
  const area = svg("path", { class: "area" });
  const lines = names.map((_, index) => svg("path", { class: `line line${index}` }));
  const drawing = svg("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": `${title} over time` },
    svg("line", { class: "grid", x1: 0, x2: WIDTH, y1: TOP - 1, y2: TOP - 1 }), svg("line", { class: "axis", x1: 0, x2: WIDTH, y1: HEIGHT - 1, y2: HEIGHT - 1 }), area, lines.toReversed());
  const label = el("b", {}, "–");
  const most = el("span");
  const begin = el("span");
  const verdict = el("p", { class: "verdict" });
  const keys = names.length > 1 ? names.map((name, index) => el("span", { class: "key" }, el("i", { class: `dash dash${index}` }), name)) : [];
  const element = el("div", { class: "card pad" },
    el("div", { class: "between" }, el("h3", {}, title, el("small", {}, about)), label),
    verdict, drawing, el("div", { class: "foot" }, begin, keys, most));
  let shown = [];
  let words = String;

  // Points: a time and a value for each line, null where it is unknown.
  function draw(points, format) {
    [shown, words] = [points, format];
    const known = points.filter(([, value]) => value !== null);
    if (!known.length) { say(label, "–"); return; }
    say(label, format(known.at(-1)[1]));
    const max = Math.max(1, ...points.flatMap(([, ...values]) => values));
    say(most, `highest: ${format(max)}`);
    say(begin, `since ${clock(points[0][0])}`);
    const x = scale(points);
    const y = (value) => HEIGHT - 1 - Math.max(0, value) / max * (HEIGHT - 1 - TOP);
    lines.forEach((line, index) => {
      const at = points.filter((point) => point[index + 1] !== null);
      const d = at.length ? "M" + at.map((point) => `${x(point[0]).toFixed(1)} ${y(point[index + 1]).toFixed(1)}`).join("L") : "";
      line.setAttribute("d", d);
      if (!index) area.setAttribute("d", d && `${d}L${WIDTH} ${HEIGHT - 1}L${x(at[0][0]).toFixed(1)} ${HEIGHT - 1}Z`);
    });
  }

  const scale = (points) => {
    const [last, first] = [points.at(-1)[0], Math.min(points[0][0], points.at(-1)[0] - 30e3)];
    return (at) => (at - first) / (last - first) * WIDTH;
  };

  drawing.tipAt = (event) => {
    if (!shown.length) return null;
    const bounds = drawing.getBoundingClientRect();
    const x = scale(shown);
    const wanted = (event.clientX - bounds.left) / bounds.width * WIDTH;
    const nearest = shown.reduce((best, point) => Math.abs(x(point[0]) - wanted) < Math.abs(x(best[0]) - wanted) ? point : best);
    return [clock(nearest[0]), ...names.map((name, index) => `${name}: ${words(nearest[index + 1])}`)].join("\n");
  };

  return { element, draw, judge: (text, kind) => { say(verdict, text); verdict.dataset.kind = kind; } };
}
