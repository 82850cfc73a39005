// The page of one group.

import { swatch } from "./colours.js";
import { chart } from "./chart.js";
import { el, say } from "./dom.js";
import { watch } from "./feed.js";
import { ago, brief, duration, moment, number, plural, rate, safe, short } from "./format.js";
import { TYPE_NAMES } from "./overview.js";
import { Strip, causeColour } from "./strip.js";
import { deliveriesTable, membersTable, partitionsTable, shortName } from "./tables.js";
import { Timeline } from "./timeline.js";
import { Trend } from "./trend.js";

const WINDOWS = [["2 min", 2 * 60e3], ["10 min", 10 * 60e3], ["1 h", 3600e3], ["6 h", 6 * 3600e3], ["all", 0]];
const MAX_POINTS = 900;
const MAX_LEGEND = 14;
const RATE_OVER_MS = 10e3; // records that are written are counted over so long
const KEEPS_UP_S = 5; // lag of so many seconds of work is usual: it is what was read and not committed yet
const QUIET_MS = 60e3; // a group with lag that has not committed for so long is suspicious
const TILES = [["members", "members"], ["lag", "records of lag"], ["rate", "records committed / s"], ["commit", "since the last commit"], ["hour", "rebalances in an hour"], ["unowned", "time without an owner"]];
let chosenWindow = 10 * 60e3;

export function showGroup(content, key, tell) {
  let group = null;
  let now = Date.now();
  let chosen = null;
  let asked = null;
  let whyTimer = 0;
  let owned = new Map(); // lag and rate of what each member owns
  const points = [];
  const ends = []; // where the logs end, all together
  const trend = new Trend();

  // --- the frame

  const title = el("bdi", {}, safe(key));
  const badges = el("span", { class: "badges" });
  const tiles = Object.fromEntries(TILES.map(([id, name]) => [id, tile(id, name)]));
  const banner = el("p", { class: "banner", role: "status", hidden: true });
  const canvas = el("canvas", { role: "img" });
  const windows = WINDOWS.map(([name, ms]) => el("button", { type: "button", class: "chip", "data-window": ms, onclick: () => setWindow(ms) }, name));
  const stripNote = el("p", { class: "note" });
  const stripBox = el("div", { class: "strip" }, canvas);
  const legend = el("div", { class: "legend" });
  const lagChart = chart("Lag", "records behind, all partitions", ["lag"]);
  const rateChart = chart("Speed", "records per second, all partitions", ["committed", "written"]);
  const causes = el("div", { class: "causes" });
  const timelineBox = el("div", {});
  const view = { group: () => group, now: () => now, sums: () => owned };
  const members = membersTable(view);
  const partitions = partitionsTable(view);
  const deliveries = deliveriesTable();
  const body = el("div", {},
    el("section", { class: "tiles" }, Object.values(tiles).map((each) => each.element)), banner,
    el("section", {}, el("div", { class: "between" }, el("h2", {}, "Owners of partitions"), el("div", { class: "chips" }, windows)), el("div", { class: "card pad" }, stripBox, legend, stripNote)),
    el("section", { class: "pair" }, lagChart.element, rateChart.element),
    el("section", {}, el("div", { class: "between" }, el("h2", {}, "Rebalances"), causes), el("div", { class: "card pad" }, timelineBox)),
    el("section", {}, members.element), el("section", {}, partitions.element), el("section", {}, deliveries.element));
  const missing = el("p", { class: "empty", hidden: true }, "There is no such group, or not any more. When it comes back, it is shown here. ", el("a", { href: "#/" }, "All groups"));
  content.append(el("div", { class: "title" }, el("a", { href: "#/", class: "back", title: "All groups (Esc)" }, "←"), el("h1", {}, title), badges), missing, body);

  const strip = new Strip(canvas, (index) => personName(index));
  const timeline = new Timeline(timelineBox, (which) => choose(which === chosen ? null : which));
  canvas.addEventListener("click", (event) => { const found = strip.rebalanceAt(event); if (found) choose(found.number, true); });
  setWindow(chosenWindow);

  function setWindow(ms) {
    chosenWindow = strip.window = ms;
    windows.forEach((chip) => chip.setAttribute("aria-pressed", String(Number(chip.dataset.window) === ms)));
    strip.draw();
    showLegend();
  }

  // Whose colour is which: who is there now, and then who has owned something in the time that is shown.
  function showLegend() {
    if (!group) return;
    const from = chosenWindow ? now - chosenWindow : 0;
    const present = group.members.filter((each) => each.partitions).map((each) => each.index);
    const before = group.bars.filter(([, , stop]) => stop === null || stop > from).map((bar) => bar[3]);
    const all = [...new Set([...present, ...before.sort((a, b) => a - b)])];
    const shown = all.slice(0, MAX_LEGEND).join();
    if (legend.dataset.shown === shown + present) return;
    legend.dataset.shown = shown + present;
    legend.replaceChildren(...all.slice(0, MAX_LEGEND).map((index) => {
      const name = personName(index, true);
      const gone = !present.includes(index);
      return el("span", { class: gone ? "key gone" : "key", "data-tip": gone ? `${personName(index)}\nowns nothing now` : personName(index), onpointerenter: () => strip.lift(index), onpointerleave: () => strip.lift(null) }, swatch(index), el("bdi", {}, name));
    }), ...all.length > MAX_LEGEND ? [el("span", {}, `and ${number(all.length - MAX_LEGEND)} more`)] : []);
  }

  const isAlone = ({ client }) => client && Object.values(group.people).filter((each) => each.client === client).length === 1;

  function personName(index, isShort) {
    const person = group && group.people[index];
    if (!person) return `member ${index}`;
    if (isShort) return brief(safe(isAlone(person) ? person.client : shortName(person))).slice(0, 60);
    return `${brief(safe(shortName(person)))}${person.host ? ` at ${safe(person.host.replace(/^\//, ""))}` : ""}`;
  }

  function choose(which, scroll) {
    chosen = strip.chosen = which;
    timeline.mark(which, scroll);
    strip.draw();
  }

  // --- what changes with rebalances

  function takeGroup(told) {
    missing.hidden = told.exists;
    body.hidden = !told.exists;
    say(title, safe(told.group));
    if (!told.exists) { badges.replaceChildren(); return; }
    group = told;
    now = told.now;
    strip.tick(now);
    const isClassic = told.type === "classic";
    for (const each of told.rebalances) {
      each.colour = causeColour(each.cause);
      each.kind = isClassic ? "generation" : "epoch";
      each.title = `${each.cause ? safe(each.cause) : "rebalance"} (${isClassic ? "generation" : "epoch"} ${each.epoch})`;
    }
    badges.replaceChildren(...[
      el("span", { class: "kind", "data-kind": told.type }, TYPE_NAMES[told.type] || told.type),
      el("span", { class: "state", "data-state": stateClass(told.state) }, told.state),
      told.assignor && el("span", { class: "plain" }, safe(told.assignor)),
      told.epoch >= 0 && el("span", { class: "plain" }, `${isClassic ? "generation" : "epoch"} ${told.epoch}`),
      told.protocol_type && told.protocol_type !== "consumer" && el("span", { class: "plain" }, safe(told.protocol_type)),
    ].filter(Boolean));
    canvas.setAttribute("aria-label", `Owners of ${plural(told.rows.length, "partition")} over time`);
    strip.show(told, told.type === "share");
    stripBox.hidden = !told.rows.length;
    const notes = [];
    if (!told.owners_kept) notes.push("There are too many partitions on this server for owners to be kept.");
    else if (!told.rows.length) notes.push(told.member_count ? "Nobody owns a partition, or assignments of this kind cannot be read." : "The group has no members: somebody has committed for it, or its members are gone.");
    if (told.row_count > told.rows.length) notes.push(`The first ${number(told.rows.length)} of ${plural(told.row_count, "partition")} are shown.`);
    if (told.since) notes.push(`Known since ${moment(told.since)}.`);
    say(stripNote, notes.join(" "));
    timeline.show(told.rebalances, isClassic);
    askWhy(told);
    timeline.tick(now);
    if (chosen !== null) timeline.mark(chosen, false);
    causes.replaceChildren(...Object.entries(told.causes).slice(0, 7).map(([cause, count]) =>
      el("span", { class: "key" }, el("i", { class: "dot", style: { background: causeColour(cause) } }), `${safe(cause)} `, el("b", {}, number(count)))));
    members.show(told.members, told.member_count);
    showLegend();
    showWaiting(told);
  }

  // Explanations take the whole log of the group: they are asked for when there is a new rebalance, once a second at most.
  function askWhy(told) {
    const wanted = told.rebalances.filter((each) => each.over).map((each) => each.epoch).join();
    if (wanted === asked || whyTimer) return;
    whyTimer = setTimeout(async () => {
      asked = wanted;
      try {
        const answer = await fetch(`/api/groups/${encodeURIComponent(key)}/why`, { cache: "no-store" });
        if (answer.ok) timeline.explain((await answer.json()).explanations); else asked = "";
      } catch { asked = ""; /* the page works without; it asks again */ }
      whyTimer = 0;
      if (group) askWhy(group);
    }, asked === null ? 0 : asked ? 1000 : 5000);
  }

  function showWaiting({ details, state }) {
    const parts = [];
    if (details.cause) parts.push(`${state}: ${safe(details.cause)}${details.trigger ? ` (${brief(safe(details.trigger))})` : ""}`);
    if (details.since) parts.push(`for ${duration(Math.max(0, now - details.since))}`);
    if (details.waits_for_count) parts.push(`waits for ${details.waits_for.map((name) => brief(safe(name))).join(", ")}${details.waits_for_count > details.waits_for.length ? ` and ${number(details.waits_for_count - details.waits_for.length)} more` : ""}`);
    banner.hidden = !parts.length;
    say(banner, parts.join(", "));
  }

  // --- what changes all the time

  function takeTick(told) {
    now = told.now;
    strip.tick(now);
    timeline.tick(now);
    partitions.show(told.partitions, told.partition_count);
    deliveries.show(told.partitions);
    members.redraw();
    if (!told.row) return;
    const [, , , state, count, lag, , lastCommit, hour, unowned] = told.row;
    const { committed, written } = speeds(told.partitions);
    tiles.members.show(number(count), !count);
    tiles.lag.show(short(lag), !lag);
    tiles.rate.show(rate(committed), !committed);
    tiles.commit.show(lastCommit === null ? "–" : ago(lastCommit, now), lastCommit === null);
    tiles.hour.show(number(hour), !hour);
    const unownedFor = group ? group.unowned_ms + (group.rows.length && unowned ? now - group.now : 0) : 0;
    tiles.unowned.show(duration(unownedFor), !unownedFor);
    tiles.unowned.element.classList.toggle("alarm", unowned > 0);
    const badge = badges.querySelector(".state");
    if (badge) { say(badge, state); badge.dataset.state = stateClass(state); }
    if (group) showWaiting({ details: group.details, state });
    points.push([now, lag, committed, written]);
    if (points.length > MAX_POINTS) points.shift();
    lagChart.draw(points.map(([at, value]) => [at, value]), short);
    rateChart.draw(points.map(([at, , value, other]) => [at, value, other]), rate);
    trend.tell(now, lag);
    lagChart.judge(...verdict({ lag, count, committed, silent: lastCommit === null ? null : now - lastCommit, hasEnds: ends.at(-1)[1] !== null }));
  }

  // Records per second, of all partitions: what the group commits, and what producers write, in the last seconds.
  function speeds(rows) {
    owned = new Map();
    let [committed, end] = [null, null];
    for (const [, , , logEnd, lag, perSecond, , owner] of rows) {
      if (perSecond !== null) committed = (committed ?? 0) + perSecond;
      if (logEnd !== null) end = (end ?? 0) + logEnd;
      if (owner === null) continue;
      const sum = owned.get(owner) ?? { lag: null, rate: null };
      if (lag !== null) sum.lag = (sum.lag ?? 0) + lag;
      if (perSecond !== null) sum.rate = (sum.rate ?? 0) + perSecond;
      owned.set(owner, sum);
    }
    ends.push([now, end, rows.length]);
    while (now - ends[0][0] > RATE_OVER_MS) ends.shift();
    const [since, before, count] = ends[0];
    const isKnown = end !== null && before !== null && count === rows.length && now - since > 2500;
    return { committed, written: isKnown ? Math.max(0, (end - before) / (now - since) * 1000) : null };
  }

  // What to make of the lag, in a few words.
  function verdict({ lag, count, committed, silent, hasEnds }) {
    if (lag === null && silent === null && hasEnds && group && group.type !== "share") return ["unknown: the group has not committed anything yet", ""];
    if (lag === null) return [group && group.type === "share" ? "unknown: nobody has fetched yet, or this log does not say how far share groups have come" : "unknown: where the logs end is not known here", ""];
    if (!lag) return ["caught up", "good"];
    const perSecond = trend.perSecond();
    if (count && committed > 0 && lag < committed * KEEPS_UP_S) return [lag < committed ? "keeps up: less than a second behind" : `keeps up: about ${duration(lag / committed * 1000)} behind`, "good"];
    const way = perSecond === null ? "" : perSecond > 0 ? `grows by ${rate(perSecond)} a second` : perSecond < 0 ? `shrinks by ${rate(-perSecond)} a second: caught up in about ${duration(lag / -perSecond * 1000)}` : "steady";
    if (!count) return [["nobody reads", way].filter(Boolean).join(", "), "bad"];
    if (silent !== null && silent > QUIET_MS) return [`no commit for ${duration(silent)}${way ? `, ${way}` : ""}`, "bad"];
    const work = committed > 0 && perSecond !== null && perSecond >= 0 ? `, about ${duration(lag / committed * 1000)} of work` : "";
    return [way ? way + work : "", perSecond > 0 ? "bad" : perSecond === null ? "" : "good"];
  }

  // --- events

  watch(`/api/watch/${encodeURIComponent(key)}`, { about: tell, group: takeGroup, tick: takeTick });

  return {
    end() { clearTimeout(whyTimer); strip.end(); members.end(); partitions.end(); deliveries.end(); },
    redraw() { strip.patterns.clear(); strip.draw(); members.redraw(); partitions.redraw(); deliveries.redraw(); },
    key(event, typing) {
      if (typing || (event.key.startsWith("Arrow") && event.target.closest(".list"))) return false; // tables scroll
      const list = group ? group.rebalances : [];
      const at = list.findIndex((each) => each.number === chosen);
      if (event.key === "Escape") { if (chosen !== null) choose(null); else location.hash = "#/"; } else if (event.key === "Backspace") location.hash = "#/";
      else if (event.key === "ArrowDown" && list.length) choose(list[Math.min(list.length - 1, at + 1)].number, true);
      else if (event.key === "ArrowUp" && list.length && at >= 0) choose(list[Math.max(0, at - 1)].number, true);
      else if (event.key === "/") location.hash = "#/";
      else return false;
      return true;
    },
  };
}

const stateClass = (state) => state === "Stable" ? "stable" : state === "Empty" || state === "Dead" ? "empty" : "moving";

function tile(id, name) {
  const value = el("b", {}, "–");
  const element = el("div", { class: `card tile ${id}` }, value, el("span", {}, name));
  return { element, show(text, zero) { say(value, text); element.classList.toggle("zero", Boolean(zero)); } };
}
