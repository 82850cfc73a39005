// The page from top to bottom.

const payload = JSON.parse(document.getElementById("payload").textContent);
const GROUP = ["id", "type", "critical", "error", "warning", "info", "rebalances", "members", "partitions", "commits", "rewinds", "last", "longest", "updates"];
const FINDING = ["check", "severity", "group", "topic", "partition", "member", "generation", "log_partition", "log_offset", "time", "until", "message"];
const details = new Map(Object.entries(payload.details));  // a plain object also has what it inherits: "constructor"
const section = (name) => document.getElementById(name);
const groups = asObjects(GROUP, payload.groups.rows);
groups.forEach((group, index) => { group.rank = index + 1; group.found = group.id.toLowerCase(); });

function summary() {
  const totals = payload.totals;
  const counts = payload.findings.counts;
  const tiles = SEVERITIES.map((name) => el("div", { class: `card tile sev ${name}${counts[name] ? "" : " zero"}` }, el("b", {}, number(counts[name])), el("span", {}, name === "info" ? "notes" : counts[name] === 1 ? name : name === "critical" ? name : name + "s")));
  const seen = [[totals.groups, "group"], [totals.rebalances, "rebalance"], [totals.commits, "commit"], [totals.partitions, "partition"]].map(([count, name]) =>
    el("div", { class: "card tile" + (count ? "" : " zero") }, el("b", {}, short(count)), el("span", {}, count === 1 ? name : name + "s")));
  const found = payload.checks.filter((check) => check.status === "found").length;
  const clean = payload.checks.filter((check) => check.status === "clean").length;
  const open = payload.checks.length - found - clean;
  const timeline = el("div", { class: "card" }, el("h4", {}, "Findings over time"));
  const states = el("div", { class: "card" }, el("h4", {}, `${plural(payload.checks.length, "check")}: ${number(found)} found something, ${number(clean)} clean, ${number(open)} not evaluable`),
    el("ul", { class: "checks" }, payload.checks.map((check) => {
      const severity = check.status === "found" ? check.severity : check.status === "clean" ? "none" : "not";
      const told = check.status === "found" ? number(check.findings) : check.status;
      return el("li", { "data-tip": `${sentence(check.name)}: ${check.about || ""}${check.threshold ? "\nthreshold: " + check.threshold : ""}\n${check.status}` }, shape(severity), el("span", {}, words(check.name)), el("em", {}, told));
    })));
  section("summary").append(el("div", { class: "tiles" }, tiles), el("div", { class: "tiles" }, seen));
  if (payload.findings.histogram) section("summary").append(timeline);
  timeline.style.cssText = "padding: 0.9rem 1.1rem; margin-bottom: 1rem";
  states.style.cssText = "padding: 0.9rem 1.1rem";
  section("summary").append(states);
  if (payload.findings.histogram) timeline.append(findingsOverTime(payload.findings.histogram, timeline.clientWidth - 36 || 1080));
}

const TRANSACTION_LOGS = 200000, STATE_LOGS = 100000;  // log partitions from here on are those of other topics
const logNumber = (partition) => partition === null ? "–" : partition >= TRANSACTION_LOGS ? `transactions ${partition - TRANSACTION_LOGS}` : partition >= STATE_LOGS ? `share ${partition - STATE_LOGS}` : String(partition);
const logName = (partition) => partition >= TRANSACTION_LOGS ? `__transaction_state-${partition - TRANSACTION_LOGS}` : partition >= STATE_LOGS ? `__share_group_state-${partition - STATE_LOGS}` : `__consumer_offsets-${partition}`;
const place = (row) => row.topic === null ? "" : row.partition === null ? row.topic : `${row.topic}-${row.partition}`;
const named = (id) => id.trim() === "" ? `“${id}”` : id;
const quoted = (id) => `'${id.replaceAll("'", "'\\''")}'`;  // for a shell: somebody will copy it
const link = (id) => el("a", { class: "mono", href: "#group=" + encodeURIComponent(id) }, named(id));

function findingsTable(findings, withGroup) {
  const heads = [{ name: "Time", class: "t" }, ...(withGroup ? [{ name: "Group", class: "who" }] : [{ name: "Check" }]), { name: "What was seen", class: "wide" }, { name: "Where", class: "who" }, { name: "In the log", class: "n" }];
  const rows = asObjects(FINDING, findings).map((row) => [row.time === null ? "–" : moment(row.time) + (row.until !== null && row.until > row.time ? " +" + duration(row.until - row.time) : ""),
    withGroup ? (row.group === null ? "–" : link(row.group)) : badge(row.severity, words(row.check)),
    el("span", { title: row.message }, brief(row.message)),
    el("span", { class: "mono", title: row.member || false }, [place(row), row.generation === null ? "" : "generation " + row.generation, brief(row.member || "")].filter((part) => part).join(" · ") || "–"),
    row.log_partition === null ? "–" : `${logNumber(row.log_partition)}${row.log_offset === null ? "" : " @ " + number(row.log_offset)}`]);
  return table(heads, rows);
}

function findings() {
  const home = section("findings");
  const total = SEVERITIES.reduce((sum, name) => sum + payload.findings.counts[name], 0);
  home.append(el("h2", {}, "Findings", el("small", {}, total ? `${number(total)}, worst first` : "")));
  if (!total) { home.append(el("p", { class: "empty" }, payload.checks.length ? "The checks found nothing. What they could not judge is listed under “Not evaluable”." : "No checks were run.")); return; }
  home.append(el("p", { class: "about" }, "By rule, each with what to do."));
  payload.findings.rules.forEach((rule, index) => {
    const holder = el("div", { class: "inside" });
    const card = el("details", { class: "card rule " + rule.severity, id: "rule-" + rule.check }, el("summary", {}, badge(rule.severity), el("span", { class: "name" }, sentence(rule.check)),
      el("span", { class: "first" }, rule.rows[0] ? brief(rule.rows[0][FINDING.indexOf("message")]) : ""), el("span", { class: "count" }, `${plural(rule.count, "finding")}${rule.groups ? " in " + plural(rule.groups, "group") : ""}`)), holder);
    const fill = () => {
      if (holder.children.length) return;
      holder.append(el("p", { class: "advice" }, rule.advice || ""));
      inSteps(holder, chunks(rule.rows, 25), (rows) => findingsTable(rows, true), 1, 4);
      if (rule.count > rule.rows.length) holder.append(el("p", { class: "note" }, `${number(rule.count - rule.rows.length)} further findings of this rule are not in this file; they are in the table "findings".`));
    };
    card.addEventListener("toggle", fill);
    if (index < 3) { card.open = true; fill(); }
    home.append(card);
  });
}
const chunks = (rows, size) => Array.from({ length: Math.ceil(rows.length / size) }, (_, index) => rows.slice(index * size, index * size + size));

const ORDERS = {
  "worst first": (a, b) => a.rank - b.rank, "most rebalances": (a, b) => b.rebalances - a.rebalances, "most commits": (a, b) => b.commits - a.commits,
  "longest rebalance": (a, b) => (b.longest ?? -1) - (a.longest ?? -1), "most rewinds": (a, b) => b.rewinds - a.rewinds, "name": (a, b) => a.id < b.id ? -1 : a.id > b.id ? 1 : 0,
};
const worst = (group) => SEVERITIES.find((name) => group[name]) || "none";
let listed;

function groupCard(group) {
  const holder = el("div", { class: "inside" });
  const badges = SEVERITIES.filter((name) => group[name]).map((name) => badge(name, number(group[name])));
  const figures = group.type === "share" ? [plural(group.members ?? 0, "member"), plural(group.partitions, "partition"), short(group.updates) + (group.updates === 1 ? " update" : " updates"), ""] : [plural(group.rebalances, "rebalance"), plural(group.partitions, "partition"), short(group.commits) + (group.commits === 1 ? " commit" : " commits"), group.rewinds ? plural(group.rewinds, "rewind") : ""];
  const card = el("details", { class: "card group " + worst(group), "data-group": group.id }, el("summary", {}, el("span", { class: "rank" }, number(group.rank)), el("span", { class: "id", title: group.id }, named(group.id)),
    el("span", { class: "badges" }, badges.length ? badges : badge("none", "clean")), el("span", { class: "figures" }, figures.map((text) => el("span", {}, text)))), holder);
  card.addEventListener("toggle", () => {
    if (!card.open || holder.children.length) return;
    const packed = details.get(group.id);
    const facts = el("p", { class: "note" }, [group.type ? group.type + " group" : "commits only, no generations", group.members === null ? "" : plural(group.members, "member") + (group.type === "share" ? " at the end of the log" : " in the last rebalance"),
      group.longest === null ? "" : "longest rebalance " + duration(group.longest), group.last === null ? "" : (group.type === "share" ? "last update " : "last commit ") + moment(group.last)].filter((text) => text).join(" · "));
    const body = el("div", {}, el("p", { class: "note" }, packed ? "Unpacking…" : ""));
    holder.append(facts, body);
    if (packed) openGroup(body, packed).catch((error) => { body.replaceChildren(el("p", { class: "empty" }, "This browser could not unpack the details: " + error)); });
    else body.replaceChildren(el("p", { class: "empty" }, "Drawings are in this file for the worst and busiest groups only. For this one: ", el("code", {}, `kohort audit PATH --group ${quoted(group.id)}`)));
  });
  return card;
}

function groupList() {
  const home = section("groups");
  const withDetails = details.size;
  home.append(el("h2", {}, "Groups", el("small", {}, number(payload.totals.groups))));
  if (!groups.length) { home.append(el("p", { class: "empty" }, "There are no groups in what was read.")); return; }
  home.append(el("p", { class: "about" }, `Worst first; open one for its owners, rebalances and offsets, a share group for its members and progress.${withDetails < payload.totals.groups ? ` Drawings are here for the ${number(withDetails)} worst and busiest.` : ""}${payload.groups.left_out ? ` ${number(payload.groups.left_out)} quiet groups are not listed.` : ""}`));
  const search = el("input", { type: "search", placeholder: "Search groups  ( / )", "aria-label": "Search groups", oninput: () => list() });
  const order = el("select", { "aria-label": "Order", onchange: () => list() }, Object.keys(ORDERS).map((name) => el("option", {}, name)));
  const chips = SEVERITIES.filter((name) => groups.some((group) => group[name])).map((name) => el("button", { type: "button", class: "chip", "aria-pressed": "false", "data-name": name, onclick: (event) => {
    event.target.setAttribute("aria-pressed", String(event.target.getAttribute("aria-pressed") !== "true"));
    list();
  } }, `with ${name}`));
  const count = el("span", { class: "note", role: "status" });
  const holder = el("div");
  function list() {
    const text = search.value.trim().toLowerCase();
    const wanted = chips.filter((chip) => chip.getAttribute("aria-pressed") === "true").map((chip) => chip.dataset.name);
    const rows = groups.filter((group) => (!text || group.found.includes(text)) && (!wanted.length || wanted.some((name) => group[name]))).sort(ORDERS[order.value]);
    count.textContent = rows.length === groups.length ? "" : `${number(rows.length)} of ${number(groups.length)}`;
    holder.replaceChildren();
    if (rows.length) inSteps(holder, rows, groupCard, 40, 200);
    else holder.append(el("p", { class: "empty" }, "No group matches."));
  }
  listed = (text) => { search.value = text; chips.forEach((chip) => chip.setAttribute("aria-pressed", "false")); list(); return holder.querySelector("details"); };
  home.append(el("div", { class: "tools" }, search, order, chips, count), holder);
  list();
  document.addEventListener("keydown", (event) => { if (event.key === "/" && !/INPUT|SELECT|TEXTAREA/.test(event.target.tagName)) { event.preventDefault(); search.focus(); } });
}

function followHash() {
  const match = /^#group=(.+)$/.exec(location.hash);
  if (!match || !listed) return;
  const id = decodeURIComponent(match[1]);
  const cards = [...document.querySelectorAll("details.group")];
  let card = cards.find((candidate) => candidate.dataset.group === id);
  if (!card) { listed(id); card = [...document.querySelectorAll("details.group")].find((candidate) => candidate.dataset.group === id); }
  if (card) { card.open = true; card.scrollIntoView({ block: "start" }); card.querySelector("summary").focus({ preventScroll: true }); }
}
