// The tables of a group's page: members and partitions, sorted by any column.

import { paintSwatch, swatch } from "./colours.js";
import { VirtualRows, el, say } from "./dom.js";
import { ago, brief, number, rate, safe, short } from "./format.js";

const ROW = 32;
const MOST_ROWS = 14; // to be seen at once
const sorts = {}; // by table; kept while other groups are looked at

// Ids of members of classic groups begin with the client's id, those of others are random as a rule.
const RANDOM = /^([\w+/-]{22}|[0-9a-f-]{36})$/;
export const shortName = ({ id, client }) => !client || id.startsWith(client) ? id : `${client} · ${RANDOM.test(id) ? id.slice(0, 8) : id}`;

export function sayName(element, name) {
  const shown = safe(name);
  if (element.dataset.full === shown) return;
  element.dataset.full = shown;
  element.textContent = brief(shown);
  element.title = shown;
}

// Only the rows that can be seen are in the page. A column with `down` begins with the largest.
function table(title, kind, columns, make, fill) {
  const box = el("div", { class: "list short", tabindex: "0", role: "grid", "aria-label": title });
  const count = el("small");
  const heads = columns.map((column, index) => column.by
    ? el("button", { type: "button", role: "columnheader", class: `head ${column.id}`, "data-tip": column.tip, onclick: () => sortBy(index) }, column.name)
    : el("span", { class: `head ${column.id}`, role: "columnheader" }, column.name));
  const element = el("div", {}, el("h2", {}, title, count), el("div", { class: `card groups ${kind}` }, el("div", { class: "heads", role: "row" }, heads), box));
  const rows = new VirtualRows(box, { height: ROW, make, fill });
  let all = [];

  function sortBy(index) {
    const now = sorts[kind];
    sorts[kind] = now && now.index === index ? { index, down: !now.down } : { index, down: Boolean(columns[index].down) };
    box.scrollTop = 0;
    sort();
  }

  function sort() {
    const { index, down } = sorts[kind] ?? {};
    heads.forEach((head, each) => { if (columns[each].by) head.setAttribute("aria-sort", each !== index ? "none" : down ? "descending" : "ascending"); });
    if (index === undefined) { rows.show(all); return; }
    const { by } = columns[index];
    const sign = down ? -1 : 1;
    rows.show(all.map((row) => [by(row), row]).sort(([a], [b]) => {
      if (a === b || (a == null && b == null)) return 0;
      if (a == null || b == null) return a == null ? 1 : -1;
      return (a < b ? -1 : 1) * sign;
    }).map(([, row]) => row));
  }

  return {
    element,
    show(given, total) {
      all = given;
      say(count, total > all.length ? `${number(all.length)} of ${number(total)}` : number(total));
      const tall = Math.min(all.length, MOST_ROWS) * ROW + "px";
      if (box.style.height !== tall) box.style.height = tall;
      element.hidden = !all.length;
      sort();
    },
    redraw: () => rows.draw(),
    end: () => rows.end(),
  };
}

function cellRow(cells, names) {
  const row = el("div", { class: "row", role: "row" }, names.map((name) => el("span", { class: `cell ${name}`, role: "gridcell" }, cells[name])));
  row.cells = cells;
  return row;
}

// `view` tells the group and the time, and what the partitions of a member add up to.
export function membersTable(view) {
  const sum = (member) => view.sums().get(member.index);
  const columns = [
    { id: "colour", name: "" },
    { id: "member", name: "Member", by: (member) => member.instance_id ?? member.member_id },
    { id: "client", name: "Client", by: (member) => member.client_id },
    { id: "host", name: "Host", by: (member) => member.host },
    { id: "owned", name: "Partitions", by: (member) => member.partitions, down: true },
    { id: "lag", name: "Lag", by: (member) => sum(member)?.lag, down: true, tip: "Records behind, of the partitions that it owns" },
    { id: "rate", name: "Records / s", by: (member) => sum(member)?.rate, down: true, tip: "Committed, in its partitions" },
    { id: "since", name: "Since", by: (member) => -member.since, down: true },
    { id: "status", name: "State" },
  ];
  const make = () => cellRow(
    { colour: swatch(0), member: el("bdi", { class: "name" }), client: el("bdi"), host: el("span"), owned: el("span"), lag: el("span"), rate: el("span"), since: el("span"), status: el("span") },
    columns.map(({ id }) => id));
  const fill = ({ cells }, member) => {
    const total = sum(member);
    paintSwatch(cells.colour, member.index);
    sayName(cells.member, member.instance_id ?? member.member_id);
    sayName(cells.client, member.client_id);
    say(cells.host, safe(member.host.replace(/^\//, "")));
    say(cells.owned, number(member.partitions));
    say(cells.lag, total ? short(total.lag) : "–");
    cells.lag.classList.toggle("has", total?.lag > 0);
    say(cells.rate, total ? rate(total.rate) : "–");
    say(cells.since, ago(member.since, view.now()));
    const [words, isAlarm] = status(member, view.group());
    say(cells.status, words);
    cells.status.classList.toggle("alarm", isAlarm);
  };
  return table("Members", "members", columns, make, fill);
}

function status(member, group) {
  if (member.revoking) return ["giving up partitions", true];
  if (member.waiting) return ["waits for partitions", true];
  if (member.epoch === null) return [member.instance_id === null ? "" : "static", false];
  if (group && member.epoch < group.epoch) return [`behind, epoch ${member.epoch}`, true];
  return [`epoch ${member.epoch}`, false];
}

// Columns of a row as it comes: see feed.py. The last one is null unless the group is a share group.
const [TOPIC, PARTITION, COMMITTED, END, LAG, RATE, AT, OWNER, DELIVERIES] = [0, 1, 2, 3, 4, 5, 6, 7, 8];

export function partitionsTable(view) {
  const person = (owner) => owner !== null && view.group()?.people[owner];
  const owner = (row) => row[OWNER] === null ? "no owner" : person(row[OWNER]) ? shortName(person(row[OWNER])) : `member ${row[OWNER]}`;
  const columns = [
    { id: "topic", name: "Topic", by: (row) => `${row[TOPIC]}\0${String(row[PARTITION]).padStart(9, "0")}` },
    { id: "partition", name: "Partition", by: (row) => row[PARTITION] },
    { id: "owner", name: "Owner", by: owner },
    { id: "committed", name: "Committed", by: (row) => row[COMMITTED], down: true },
    { id: "end", name: "Log end", by: (row) => row[END], down: true },
    { id: "lag", name: "Lag", by: (row) => row[LAG], down: true },
    { id: "rate", name: "Records / s", by: (row) => row[RATE], down: true, tip: "Committed" },
    { id: "age", name: "Last commit", by: (row) => row[AT] },
  ];
  const make = () => {
    const cells = { topic: el("bdi"), partition: el("span"), owner: el("span", { class: "owner" }), committed: el("span"), end: el("span"), lag: el("span"), rate: el("span"), age: el("span") };
    cells.colour = swatch(0);
    cells.who = el("bdi");
    cells.owner.append(cells.colour, cells.who);
    return cellRow(cells, columns.map(({ id }) => id));
  };
  const fill = ({ cells }, row) => {
    sayName(cells.topic, row[TOPIC]);
    say(cells.partition, String(row[PARTITION]));
    cells.colour.classList.toggle("none", row[OWNER] === null);
    if (row[OWNER] !== null) paintSwatch(cells.colour, row[OWNER]);
    sayName(cells.who, owner(row));
    cells.who.classList.toggle("nobody", row[OWNER] === null);
    say(cells.committed, number(row[COMMITTED]));
    say(cells.end, number(row[END]));
    say(cells.lag, number(row[LAG]));
    cells.lag.classList.toggle("has", row[LAG] > 0);
    say(cells.rate, rate(row[RATE]));
    say(cells.age, ago(row[AT], view.now()));
  };
  return table("Partitions", "partitions", columns, make, fill);
}

// What became of the records that a share group was given, in the order of Deliveries in rows.py.
const TALLIES = [
  ["inflight", "In flight", "From the start offset on; with as many as group.share.partition.max.record.locks, members wait"],
  ["delivered", "Delivered", "Records that members have fetched, each time they were"],
  ["accepted", "Accepted", "Done: they are never delivered again"],
  ["released", "Released", "Given back by members, or because a session ended; they are delivered again"],
  ["rejected", "Rejected", "Members will not have them again"],
  ["expired", "Expired", "Locks that ended before the member said anything: it is slow, or gone"],
  ["given", "Given up", "Delivered as often as group.share.delivery.count.limit allows, or no longer in the log"],
];

export function deliveriesTable() {
  const columns = [
    { id: "topic", name: "Topic", by: (row) => `${row[TOPIC]}\0${String(row[PARTITION]).padStart(9, "0")}` },
    { id: "partition", name: "Partition", by: (row) => row[PARTITION] },
    ...TALLIES.map(([id, name, tip], index) => ({ id, name, tip, by: (row) => row[DELIVERIES][index], down: true })),
  ];
  const make = () => cellRow(
    { topic: el("bdi"), partition: el("span"), ...Object.fromEntries(TALLIES.map(([id]) => [id, el("span")])) },
    columns.map(({ id }) => id));
  const fill = ({ cells }, row) => {
    sayName(cells.topic, row[TOPIC]);
    say(cells.partition, String(row[PARTITION]));
    TALLIES.forEach(([id], index) => say(cells[id], number(row[DELIVERIES][index])));
    cells.given.classList.toggle("alarm", row[DELIVERIES][6] > 0);
  };
  const made = table("Deliveries", "partitions deliveries", columns, make, fill);
  return {
    ...made,
    show(rows) {
      const told = rows.filter((row) => row[DELIVERIES]);
      made.show(told, told.length);
    },
  };
}
