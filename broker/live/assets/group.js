// The page of one group.

import { paintSwatch, swatch } from "./colours.js";
import { VirtualRows, el, say, svg } from "./dom.js";
import { watch } from "./feed.js";
import { ago, brief, duration, moment, number, plural, rate, safe, short } from "./format.js";
import { TYPE_NAMES } from "./overview.js";
import { Strip, causeColour } from "./strip.js";
import { Timeline } from "./timeline.js";

const WINDOWS = [["2 min", 2 * 60e3], ["10 min", 10 * 60e3], ["1 h", 3600e3], ["6 h", 6 * 3600e3], ["all", 0]];
const ROW = 32;
const MAX_POINTS = 900;
let chosenWindow = 10 * 60e3;

export function showGroup(content, key, tell) {
  let group = null;
  let now = Date.now();
  let chosen = null;
  let announced = false;
  let asked = null;
  let whyTimer = 0;
  const points = [];

  // --- the frame

  const title = el("bdi", {}, safe(key));
  const badges = el("span", { class: "badges" });
  const tiles = Object.fromEntries([["members", "members"], ["lag", "records of lag"], ["rate", "commits, records / s"], ["commit", "since the last commit"], ["hour", "rebalances in an hour"], ["unowned", "partitions unowned"]]
    .map(([id, name]) => [id, tile(id, name)]));
  const banner = el("p", { class: "banner", role: "status", hidden: true });
  const canvas = el("canvas", { role: "img" });
  const windows = WINDOWS.map(([name, ms]) => el("button", { type: "button", class: "chip", "data-window": ms, onclick: () => setWindow(ms) }, name));
  const stripNote = el("p", { class: "note" });
  const stripBox = el("div", { class: "strip" }, canvas);
  const lagChart = chart("Lag", "records behind, all partitions together");
  const rateChart = chart("Commits", "records per second, all partitions together");
  const causes = el("div", { class: "causes" });
  const timelineBox = el("div", {});
  const members = list("Members", ["", "Member", "Client", "Host", "Partitions", "Since", "State"], "members", makeMember, fillMember);
  const partitions = list("Partitions", ["Topic", "Partition", "Owner", "Committed", "Log end", "Lag", "Records / s", "Age"], "partitions", makePartition, fillPartition);
  const body = el("div", {},
    el("section", { class: "tiles" }, Object.values(tiles).map((each) => each.element)), banner,
    el("section", {}, el("div", { class: "between" }, el("h2", {}, "Owners of partitions"), el("div", { class: "chips" }, windows)), el("div", { class: "card pad" }, stripBox, stripNote)),
    el("section", { class: "pair" }, lagChart.element, rateChart.element),
    el("section", {}, el("div", { class: "between" }, el("h2", {}, "Rebalances"), causes), el("div", { class: "card pad" }, timelineBox)),
    el("section", {}, members.element), el("section", {}, partitions.element));
  const missing = el("p", { class: "empty", hidden: true }, "There is no such group, or not any more. If it comes back, it is shown here.");
  content.append(el("div", { class: "title" }, el("a", { href: "#/", class: "back", title: "All groups (Esc)" }, "←"), el("h1", {}, title), badges), missing, body);

  const strip = new Strip(canvas, (index) => personName(index));
  const timeline = new Timeline(timelineBox, (which) => choose(which === chosen ? null : which));
  canvas.addEventListener("click", (event) => { const found = strip.rebalanceAt(event); if (found) choose(found.number, true); });
  setWindow(chosenWindow);

  function setWindow(ms) {
    chosenWindow = strip.window = ms;
    windows.forEach((chip) => chip.setAttribute("aria-pressed", String(Number(chip.dataset.window) === ms)));
    strip.draw();
  }

  function personName(index) {
    const person = group && group.people[index];
    if (!person) return `member ${index}`;
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
    else if (!told.rows.length) notes.push(told.member_count ? "Nobody owns a partition, or assignments of this kind cannot be read." : "Nobody owns a partition.");
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
    showWaiting(told);
    if (!announced) { announced = true; tell({ where: "", ...lastAbout }); }
  }

  // Explanations take the whole log of the group: they are asked for when there is a new rebalance, once a second at most.
  function askWhy(told) {
    const wanted = told.rebalances.filter((each) => each.over).map((each) => each.epoch).join();
    if (wanted === asked || whyTimer) return;
    whyTimer = setTimeout(async () => {
      asked = wanted;
      try {
        const answer = await fetch(`/api/groups/${encodeURIComponent(key)}/why`, { cache: "no-store" });
        if (answer.ok) timeline.explain((await answer.json()).explanations);
      } catch { /* the page works without */ }
      whyTimer = 0;
      if (group) askWhy(group);
    }, asked === null ? 0 : 1000);
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
    members.redraw();
    if (!told.row) return;
    const [, , , state, count, lag, , lastCommit, hour, unowned] = told.row;
    const total = told.partitions.reduce((sum, row) => sum + (row[5] || 0), 0);
    tiles.members.show(number(count), !count);
    tiles.lag.show(short(lag), !lag);
    tiles.rate.show(rate(total), !total);
    tiles.commit.show(lastCommit === null ? "–" : ago(lastCommit, now), lastCommit === null);
    tiles.hour.show(number(hour), !hour);
    tiles.unowned.show(group ? duration(group.unowned_ms) : "–", !group || !group.unowned_ms);
    tiles.unowned.element.classList.toggle("alarm", unowned > 0);
    const badge = badges.querySelector(".state");
    if (badge) { say(badge, state); badge.dataset.state = stateClass(state); }
    if (group) showWaiting({ details: group.details, state });
    points.push([now, lag, total]);
    if (points.length > MAX_POINTS) points.shift();
    lagChart.draw(points.map(([at, value]) => [at, value]), short);
    rateChart.draw(points.map(([at, , value]) => [at, value]), rate);
  }

  // --- members and partitions

  function makeMember() {
    const cells = { colour: swatch(0), name: el("bdi"), client: el("bdi"), host: el("span"), partitions: el("span"), since: el("span"), status: el("span") };
    return cellRow(cells, ["colour", "name", "client", "host", "partitions", "since", "status"]);
  }
  function fillMember({ cells }, member) {
    paintSwatch(cells.colour, member.index);
    sayName(cells.name, member.instance_id ?? member.member_id);
    sayName(cells.client, member.client_id);
    say(cells.host, safe(member.host.replace(/^\//, "")));
    say(cells.partitions, number(member.partitions));
    say(cells.since, ago(member.since, now));
    const behind = member.epoch !== null && group && member.epoch < group.epoch;
    say(cells.status, member.revoking ? "giving up partitions" : member.waiting ? "waits for partitions" : behind ? `behind, epoch ${member.epoch}` : member.epoch !== null ? `epoch ${member.epoch}` : "");
    cells.status.classList.toggle("alarm", member.revoking || member.waiting || Boolean(behind));
  }

  function makePartition() {
    const cells = { topic: el("bdi"), partition: el("span"), owner: el("span", { class: "owner" }), committed: el("span"), end: el("span"), lag: el("span"), rate: el("span"), age: el("span") };
    cells.colour = swatch(0);
    cells.who = el("bdi");
    cells.owner.append(cells.colour, cells.who);
    return cellRow(cells, ["topic", "partition", "owner", "committed", "end", "lag", "rate", "age"]);
  }
  function fillPartition({ cells }, [topic, partition, offset, end, lag, perSecond, committedAt, owner]) {
    sayName(cells.topic, topic);
    say(cells.partition, String(partition));
    cells.colour.classList.toggle("none", owner === null);
    if (owner !== null) paintSwatch(cells.colour, owner);
    const person = owner !== null && group && group.people[owner];
    sayName(cells.who, owner === null ? "no owner" : person ? shortName(person) : `member ${owner}`);
    say(cells.committed, number(offset));
    say(cells.end, number(end));
    say(cells.lag, number(lag));
    cells.lag.classList.toggle("has", lag > 0);
    say(cells.rate, rate(perSecond));
    say(cells.age, ago(committedAt, now));
  }

  // --- events

  let lastAbout = {};
  fetch("/api/about", { cache: "no-store" }).then((answer) => answer.ok ? answer.json() : {}).then((about) => { lastAbout = about; tell(about); }).catch(() => {});
  watch(`/api/watch/${encodeURIComponent(key)}`, { group: takeGroup, tick: takeTick });

  return {
    end() { clearTimeout(whyTimer); strip.end(); members.end(); partitions.end(); },
    redraw() { strip.patterns.clear(); strip.draw(); members.redraw(); partitions.redraw(); },
    key(event, typing) {
      if (typing) return false;
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

// Ids of members of classic groups begin with the client's id, those of others are random.
const shortName = ({ id, client }) => !client || id.startsWith(client) || client === id ? id : `${client} · ${id.slice(0, 8)}`;

const stateClass = (state) => state === "Stable" ? "stable" : state === "Empty" || state === "Dead" ? "empty" : "moving";

function sayName(element, name) {
  const shown = safe(name);
  if (element.dataset.full === shown) return;
  element.dataset.full = shown;
  element.textContent = brief(shown);
  element.title = shown;
}

function tile(id, name) {
  const value = el("b", {}, "–");
  const element = el("div", { class: `card tile ${id}` }, value, el("span", {}, name));
  return { element, show(text, zero) { say(value, text); element.classList.toggle("zero", Boolean(zero)); } };
}

function cellRow(cells, names) {
  const row = el("div", { class: "row", role: "row" }, names.map((name) => el("span", { class: `cell ${name}` }, cells[name])));
  row.cells = cells;
  return row;
}

// A table of which only the rows that can be seen are in the page.
function list(name, heads, kind, make, fill) {
  const box = el("div", { class: "list short", tabindex: "0", role: "grid", "aria-label": name });
  const count = el("small");
  const element = el("div", {}, el("h2", {}, name, count), el("div", { class: `card groups ${kind}` }, el("div", { class: "heads" }, heads.map((head) => el("span", { class: "head" }, head))), box));
  const rows = new VirtualRows(box, { height: ROW, make, fill });
  return {
    element,
    show(all, total) {
      say(count, total > all.length ? `${number(all.length)} of ${number(total)}` : number(total));
      const tall = Math.min(all.length, 14) * ROW + "px";
      if (box.style.height !== tall) box.style.height = tall;
      element.hidden = !all.length;
      rows.show(all);
    },
    redraw: () => rows.draw(),
    end: () => rows.end(),
  };
}

// A line over the time that this page has been open.
function chart(name, about) {
  const [width, height] = [560, 110];
  const area = svg("path", { class: "area" });
  const path = svg("path", { class: "line" });
  const top = svg("text", { x: 4, y: 14 });
  const drawing = svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": `${name} over time` }, svg("line", { class: "grid", x1: 0, x2: width, y1: 20, y2: 20 }), svg("line", { class: "axis", x1: 0, x2: width, y1: height - 1, y2: height - 1 }), area, path);
  const label = el("b", {}, "–");
  const most = el("span", { class: "most" });
  const element = el("div", { class: "card pad" }, el("div", { class: "between" }, el("h3", {}, name, el("small", {}, about)), label), drawing, most);
  return {
    element,
    draw(all, format) {
      const known = all.filter(([, value]) => value !== null);
      if (!known.length) { say(label, "–"); return; }
      say(label, format(known.at(-1)[1]));
      const first = Math.min(known[0][0], known.at(-1)[0] - 60e3);
      const max = Math.max(1, ...known.map(([, value]) => value));
      say(most, `highest since this page was opened: ${format(max)}`);
      const x = (at) => (at - first) / (known.at(-1)[0] - first) * width;
      const y = (value) => height - 1 - Math.max(0, value) / max * (height - 22);
      const d = "M" + known.map(([at, value]) => `${x(at).toFixed(1)} ${y(value).toFixed(1)}`).join("L");
      path.setAttribute("d", d);
      area.setAttribute("d", `${d}L${width} ${height - 1}L${x(known[0][0]).toFixed(1)} ${height - 1}Z`);
    },
  };
}
