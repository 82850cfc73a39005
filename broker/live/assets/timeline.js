// The rebalances of a group, the newest first, each with its explanation.

import { el, say } from "./dom.js";
import { ago, brief, clock, duration, moment, plural, safe } from "./format.js";

export class Timeline {
  constructor(holder, choose) {
    this.holder = holder;
    this.choose = choose;
    this.items = new Map();
    this.explanations = new Map(); // by epoch
    this.list = el("ol", { class: "timeline" });
    this.none = el("p", { class: "note" }, "No rebalance was seen yet. The next one is shown here as it happens.");
    holder.append(this.list, this.none);
  }

  show(rebalances, isClassic) {
    this.last = [rebalances, isClassic];
    const longest = Math.max(1000, ...rebalances.map((each) => each.duration_ms || 0));
    const numbers = new Set(rebalances.map((each) => each.number));
    for (const [number, item] of this.items) if (!numbers.has(number)) { item.remove(); this.items.delete(number); }
    let previous = null;
    for (const each of rebalances) {
      let item = this.items.get(each.number);
      const why = this.explanations.get(each.epoch);
      const shown = JSON.stringify(each) + longest + Boolean(why);
      if (!item) {
        item = el("li", { tabindex: "-1", onclick: () => this.choose(each.number) });
        this.items.set(each.number, item);
        if (previous) previous.after(item); else this.list.prepend(item);
      }
      if (item.shown !== shown) {
        item.shown = shown;
        item.at = each.at;
        item.replaceChildren(...this.draw(each, longest, isClassic, why));
        item.ago = item.querySelector(".ago");
      }
      item.dataset.over = String(each.over);
      previous = item;
    }
    this.none.hidden = rebalances.length > 0;
  }

  explain(explanations) {
    for (const each of explanations) this.explanations.set(each.epoch, each);
    if (this.last) this.show(...this.last);
  }

  draw(each, longest, isClassic, why) {
    const word = isClassic ? "generation" : "epoch";
    const bar = el("i", { class: "took", style: { "--wide": `${Math.max(3, 100 * (each.duration_ms || 0) / longest)}%`, "--cause": each.colour } });
    return [
      el("i", { class: "dot", style: { background: each.colour } }),
      el("div", { class: "when" }, el("time", { datetime: new Date(each.at).toISOString(), title: moment(each.at) }, clock(each.at)), el("span", { class: "ago" })),
      el("div", { class: "what" },
        el("p", { class: "cause" }, each.cause ? el("bdi", {}, safe(sentence(each.cause))) : "Rebalance", el("span", { class: "epoch" }, `${word} ${each.epoch}`), !each.over && el("span", { class: "badge moving" }, "in progress"), why && why.lines.length > 1 && el("button", { type: "button", class: "more", tabindex: "-1" }, "more")),
        el("p", { class: "explanation" }, brief(safe(why ? why.lines[0][1] : each.explanation))),
        why && why.lines.length > 1 ? el("dl", { class: "why" }, why.lines.slice(1).flatMap(([label, text]) => [el("dt", {}, label), el("dd", {}, brief(safe(text)))])) : null,
        each.joined.length + each.left.length > (why ? 1 : 0) ? el("p", { class: "names" }, counted(each.joined, "joined", "+ "), counted(each.left, "left", "− ")) : null),
      el("div", { class: "cost" }, el("b", {}, each.duration_ms === null ? "–" : duration(each.duration_ms)), bar, el("span", {}, plural(each.members, "member"), ", ", `${each.moved} moved`)),
    ];
  }

  tick(now) {
    for (const item of this.items.values()) if (item.ago) say(item.ago, ago(item.at, now) === "now" ? "just now" : `${ago(item.at, now)} ago`);
  }

  mark(number, scroll) {
    for (const [each, item] of this.items) {
      item.classList.toggle("chosen", each === number);
      const more = item.querySelector(".more");
      if (more) say(more, each === number ? "less" : "more");
    }
    const item = this.items.get(number);
    if (item && scroll) item.scrollIntoView({ block: "nearest" });
  }
}

// Members often share a client id: such are told once, with their number.
function counted(names, kind, sign) {
  const counts = new Map();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].map(([name, count]) => el("span", { class: kind }, sign, el("bdi", { title: safe(name) }, brief(safe(name))), count > 1 && ` × ${count}`));
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);
