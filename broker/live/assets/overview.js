// All groups: searched, sorted, a line each. Only the lines that can be seen are in the page.

import { VirtualRows, el, say } from "./dom.js";
import { watch } from "./feed.js";
import { ago, number, plural, rate, safe, short } from "./format.js";
import { Trend, trendClass } from "./trend.js";

const HEIGHT = 38;
const QUIET_MS = 60e3; // a group with lag that has not committed for so long is suspicious
// Columns of a row as it comes: see rows.py.
const [NAME, KEY, TYPE, STATE, MEMBERS, LAG, MAX_LAG, LAST_COMMIT, REBALANCES, UNOWNED] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
const COLUMNS = [
  { id: "group", name: "Group", at: NAME },
  { id: "type", name: "Type", at: TYPE },
  { id: "state", name: "State", at: STATE },
  { id: "members", name: "Members", at: MEMBERS, down: true, tip: "Members that the group has now" },
  { id: "lag", name: "Lag", at: LAG, down: true, tip: "Records behind the committed offsets, of all partitions" },
  { id: "trend", name: "Trend", at: null, down: true, tip: "Records per second by which lag grows ▲ or shrinks ▼, in the last half minute; known after 20 s" },
  { id: "commit", name: "Last commit", at: LAST_COMMIT, down: true, tip: "How long ago the group has committed" },
  { id: "rebalances", name: "Rebalances / h", at: REBALANCES, down: true, tip: "In the last hour, as far as they were seen" },
];
const CALM = new Set(["Stable", "Empty"]);
let kept = { sort: "group", down: false, query: "", filter: "all", top: 0, chosen: null }; // while a group is looked at

export function showOverview(content, tell) {
  const groups = new Map();
  let shown = [];
  let now = Date.now();
  let most = 1;
  let dueAt = 0;
  let timer = 0;
  let received = false;

  const tiles = ["groups", "members", "lag", "rebalances", "unsettled"].map((id) => tile(id));
  const search = el("input", { type: "search", id: "search", placeholder: "Search groups  ( / )", "aria-label": "Search groups", autocomplete: "off", spellcheck: "false" });
  search.value = kept.query;
  const filters = [["all", "All"], ["classic", "Classic"], ["consumer", "KIP-848"], ["share", "Share"], ["unsettled", "Rebalancing"], ["lagging", "Lagging"], ["growing", "Growing lag"], ["empty", "Empty"]]
    .map(([id, name]) => el("button", { type: "button", class: "chip", "data-filter": id, onclick: () => { kept.filter = id; sift(); } }, name));
  const count = el("span", { class: "count", role: "status" });
  const heads = COLUMNS.map((column) => el("button", { type: "button", role: "columnheader", class: "head " + column.id, "data-tip": column.tip, onclick: () => sortBy(column) }, column.name));
  const none = el("p", { class: "none", hidden: true }, "No group fits. ", el("button", { type: "button", class: "chip", onclick: () => { kept.filter = "all"; search.value = kept.query = ""; sift(); search.focus(); } }, "Show all"));
  const box = el("div", { class: "list", tabindex: "0", role: "grid", "aria-label": "Groups" });
  const table = el("div", { class: "card groups" }, el("div", { class: "heads", role: "row" }, heads), box, none);
  const nothing = el("p", { class: "empty" }, "No groups yet. They appear here as soon as a consumer joins or commits.");
  content.append(
    el("section", { class: "tiles" }, tiles.map((each) => each.element)),
    el("section", {}, el("div", { class: "tools" }, search, el("div", { class: "chips" }, filters), count), table, nothing));

  const rows = new VirtualRows(box, { height: HEIGHT, make: makeRow, fill: fillRow });

  // --- what is shown

  function sortBy(column) {
    kept.down = kept.sort === column.id ? !kept.down : Boolean(column.down);
    kept.sort = column.id;
    box.scrollTop = 0;
    sift();
  }

  const FILTERS = {
    all: () => true,
    classic: (row) => row[TYPE] === "classic",
    consumer: (row) => row[TYPE] === "consumer",
    share: (row) => row[TYPE] === "share",
    unsettled: (row) => !CALM.has(row[STATE]),
    lagging: (row) => row[LAG] > 0,
    growing: (row) => row.trend.perSecond() > 0,
    empty: (row) => row[MEMBERS] === 0,
  };

  function sift() {
    const words = kept.query.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = FILTERS[kept.filter];
    shown = [];
    most = 1;
    for (const row of groups.values()) {
      if (row[LAG] > most) most = row[LAG];
      if (fits(row) && words.every((word) => row.lower.includes(word))) shown.push(row);
    }
    const { at } = COLUMNS.find((column) => column.id === kept.sort);
    if (at === null) for (const row of shown) row.perSecond = row.trend.perSecond();
    const value = at === null ? (row) => row.perSecond : (row) => row[at];
    const sign = kept.down ? -1 : 1;
    const byName = (a, b) => a.lower < b.lower ? -1 : a.lower > b.lower ? 1 : 0;
    shown.sort(at === NAME ? (a, b) => sign * byName(a, b) : (a, b) => {
      const [x, y] = [value(a), value(b)];
      if (x === y) return byName(a, b);
      if (x === null || y === null) return x === null ? 1 : -1;
      return (x < y ? -1 : 1) * sign;
    });
    COLUMNS.forEach((column, index) => heads[index].setAttribute("aria-sort", column.id !== kept.sort ? "none" : kept.down ? "descending" : "ascending"));
    filters.forEach((chip) => chip.setAttribute("aria-pressed", String(chip.dataset.filter === kept.filter)));
    say(count, shown.length === groups.size ? plural(groups.size, "group") : `${number(shown.length)} of ${plural(groups.size, "group")}`);
    nothing.hidden = !received || groups.size > 0;
    table.hidden = received && groups.size === 0;
    none.hidden = shown.length > 0;
    box.hidden = shown.length === 0;
    box.style.setProperty("--rows", String(shown.length));
    rows.show(shown);
    sum();
  }

  function sum() {
    let [members, lag, rebalances, unsettled] = [0, 0, 0, 0];
    for (const row of groups.values()) {
      members += row[MEMBERS];
      lag += row[LAG] || 0;
      rebalances += row[REBALANCES];
      if (!CALM.has(row[STATE])) unsettled += 1;
    }
    const values = [groups.size, members, lag, rebalances, unsettled];
    tiles.forEach((each, index) => each.show(values[index]));
  }

  // Many changes come together: sort and draw at most four times a second, and less often if that takes long.
  function changed() {
    if (timer) return;
    timer = setTimeout(() => {
      timer = 0;
      const began = performance.now();
      sift();
      dueAt = began + Math.max(250, (performance.now() - began) * 10);
    }, Math.max(0, dueAt - performance.now()));
  }

  // --- rows

  function makeRow() {
    const cells = { name: el("a", { class: "name" }), type: el("span", { class: "kind" }), state: el("span", { class: "state" }), members: el("span"), lag: el("span", { class: "value" }), trend: el("span"), commit: el("span"), rebalances: el("span") };
    const bar = el("i", { class: "bar" });
    const row = el("div", { class: "row", role: "row" },
      el("span", { class: "cell group" }, el("bdi", {}, cells.name)), el("span", { class: "cell type" }, cells.type), el("span", { class: "cell state" }, cells.state),
      el("span", { class: "cell members" }, cells.members), el("span", { class: "cell lag" }, bar, cells.lag), el("span", { class: "cell trend" }, cells.trend), el("span", { class: "cell commit" }, cells.commit), el("span", { class: "cell rebalances" }, cells.rebalances));
    row.addEventListener("click", (event) => { if (!event.target.closest("a") && row.group) open(row.group); });
    return Object.assign(row, { cells, bar });
  }

  function fillRow(row, group, index) {
    const { cells } = row;
    if (row.group !== group) {
      row.group = group;
      say(cells.name, group.shown);
      cells.name.href = address(group);
      if (group.shown.length > 60) row.cells.name.title = group.shown; else row.cells.name.removeAttribute("title");
      say(cells.type, TYPE_NAMES[group[TYPE]] || group[TYPE]);
      cells.type.dataset.kind = group[TYPE];
    }
    row.classList.toggle("chosen", index === chosenIndex());
    row.classList.toggle("fresh", group.freshUntil > now);
    say(cells.state, group[STATE]);
    cells.state.dataset.state = CALM.has(group[STATE]) ? group[STATE].toLowerCase() : "moving";
    say(cells.members, number(group[MEMBERS]));
    say(cells.lag, short(group[LAG]));
    cells.lag.title = group[MAX_LAG] === null ? "" : `most in one partition: ${number(group[MAX_LAG])}`;
    const perSecond = group.trend.perSecond();
    say(cells.trend, perSecond ? `${perSecond > 0 ? "▲" : "▼"} ${rate(Math.abs(perSecond))}/s` : perSecond === null || !group[LAG] ? "" : "steady");
    cells.trend.dataset.trend = trendClass(perSecond);
    row.bar.style.width = group[LAG] ? `${Math.max(2, 60 * Math.sqrt(group[LAG] / most))}px` : "0";
    say(cells.commit, ago(group[LAST_COMMIT], now));
    cells.commit.classList.toggle("late", group[LAG] > 0 && group[LAST_COMMIT] !== null && now - group[LAST_COMMIT] > QUIET_MS);
    say(cells.rebalances, number(group[REBALANCES]));
    cells.rebalances.classList.toggle("many", group[REBALANCES] >= 10);
    row.classList.toggle("unowned", group[UNOWNED] > 0);
  }

  const address = (group) => `#/group/${encodeURIComponent(group[KEY] ?? group[NAME])}`;
  function open(group) { kept.chosen = group[KEY] ?? group[NAME]; location.hash = address(group); }
  const chosenIndex = () => kept.chosen === null ? -1 : (shown[kept.at] && (shown[kept.at][KEY] ?? shown[kept.at][NAME]) === kept.chosen) ? kept.at : (kept.at = shown.findIndex((row) => (row[KEY] ?? row[NAME]) === kept.chosen));

  function choose(index) {
    if (!shown.length) return;
    kept.at = Math.max(0, Math.min(shown.length - 1, index));
    kept.chosen = shown[kept.at][KEY] ?? shown[kept.at][NAME];
    rows.bringIntoView(kept.at);
    rows.draw();
  }

  // --- events

  function take(list) {
    const fresh = received;
    for (const row of list) {
      const id = row[KEY] ?? row[NAME];
      const before = groups.get(id);
      row.shown = before ? before.shown : safe(row[NAME]);
      row.lower = before ? before.lower : row.shown.toLowerCase();
      row.freshUntil = fresh && before && (before[REBALANCES] < row[REBALANCES] || before[STATE] !== row[STATE]) ? now + 2500 : before ? before.freshUntil : 0;
      row.trend = before ? before.trend : new Trend();
      row.trend.tell(now, row[LAG]);
      groups.set(id, row);
    }
    changed();
  }

  watch("/api/watch", {
    about: tell,
    begin: () => groups.clear(),
    rows: take,
    gone: (list) => { list.forEach((id) => groups.delete(id)); changed(); },
    now: (event) => {
      now = event.now;
      if (!received) { received = true; changed(); restore(); } else rows.draw();
    },
  });
  const ticker = setInterval(() => {
    now += 1000;
    for (const row of groups.values()) row.trend.tell(now, row[LAG]);
    if (kept.sort === "trend" || kept.filter === "growing") changed(); else rows.draw();
  }, 1000);

  function restore() {
    setTimeout(() => { if (kept.top) box.scrollTop = kept.top; }, 60);
  }

  search.addEventListener("input", () => { kept.query = search.value; kept.chosen = null; box.scrollTop = 0; sift(); });
  sift();

  return {
    end() { kept.top = box.scrollTop; clearInterval(ticker); clearTimeout(timer); rows.end(); },
    redraw() { rows.draw(); },
    key(event, typing) {
      const page = Math.max(1, Math.floor(box.clientHeight / HEIGHT) - 1);
      const at = chosenIndex();
      const steps = { ArrowDown: at + 1, ArrowUp: at < 0 ? 0 : at - 1, PageDown: at + page, PageUp: Math.max(0, at - page) };
      if (!typing) Object.assign(steps, { Home: 0, End: shown.length - 1 });
      if (event.key in steps) choose(steps[event.key]);
      else if (event.key === "Enter" && (shown[at] || (typing && shown.length)) && !event.target.closest("button, a")) open(shown[at] || shown[0]);
      else if (event.key === "/" && !typing) { search.focus(); search.select(); }
      else if (event.key === "Escape" && (kept.query || typing || kept.filter !== "all")) {
        if (!kept.query) { search.blur(); kept.filter = "all"; }
        search.value = kept.query = "";
        sift();
      } else return false;
      return true;
    },
  };
}

export const TYPE_NAMES = { classic: "classic", consumer: "KIP-848", share: "share", streams: "streams" };
const TILE_NAMES = { groups: "groups", members: "members", lag: "records of lag", rebalances: "rebalances in the last hour", unsettled: "rebalancing now" };

function tile(id) {
  const value = el("b", {}, "–");
  const element = el("div", { class: `card tile ${id}` }, value, el("span", {}, TILE_NAMES[id]));
  return { element, show: (count) => { say(value, short(count)); element.classList.toggle("zero", !count); } };
}
