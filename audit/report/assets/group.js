// One group's page: drawn when it is opened, from data that is unpacked only then.

const GENERATION = ["generation", "time", "protocol", "cause", "trigger", "members", "joined", "left", "join", "sync", "duration", "timeout", "moved", "forced", "avoidable", "max", "min", "idle", "type"];
const INTERVAL = ["row", "member", "first", "last", "start", "end", "by", "revoking"];
const asObjects = (names, rows) => rows.map((row) => Object.fromEntries(names.map((name, index) => [name, row[index]])));

async function unpack(packed) {
  const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const detail = JSON.parse(await new Response(stream).text());
  detail.generations = asObjects(GENERATION, detail.generations);
  detail.intervals = asObjects(INTERVAL, detail.intervals);
  return detail;
}

let drawings = 0;

// What the numbers of a group are called.
const numberName = (detail) => detail.generations.every((row) => row.type === "consumer") ? "Epoch" : "Generation";

function ownershipPart(detail, draw) {
  if (!detail.generations.length && !detail.intervals.length) {
    return [el("h3", {}, "Owners"), el("p", { class: "empty" }, "The log has no generation of this group: it only commits offsets, or its generations were compacted away before anybody read them.")];
  }
  const legend = el("div", { class: "legend" });
  const shown = 20;
  detail.members.slice(0, shown).forEach((member, index) => legend.append(el("button", { type: "button", "data-tip": member.name + (member.host ? "\n" + member.host : ""),
    onpointerenter: () => draw.light(index), onpointerleave: () => draw.light(null), onfocus: () => draw.light(index), onblur: () => draw.light(null) }, swatch(index), el("span", {}, member.label))));
  if (detail.members.length > shown) legend.append(el("span", {}, `and ${number(detail.members.length - shown)} more, each in its own colour: point at a bar for its name`));
  const window = detail.generations_total > detail.generations.length
    ? `Generations ${number(detail.generations[0].generation)} to ${number(detail.generations.at(-1).generation)}, ${number(detail.generations.length)} of ${number(detail.generations_total)}${detail.centred ? ", around its worst finding" : ", the latest"}. ` : "";
  const rows = detail.partitions_left_out ? `${number(detail.partitions_left_out)} further partitions are not drawn. ` : "";
  const cut = detail.intervals_left_out ? `${number(detail.intervals_left_out)} older ownerships are not drawn. ` : "";
  return [el("h3", {}, "Owners"), el("p", { class: "about" }, `${window}${rows}${cut}A row per partition, a colour per member.${detail.intervals.some((owned) => owned.revoking !== null) ? " By time, a pale end of a bar is the time in which the member had been told to give the partition up and had not done so yet." : ""}`), draw.strip, legend];
}

function durationPart(detail, draw, causes) {
  const known = detail.generations.filter((row) => row.duration !== null);
  const syncs = detail.generations.filter((row) => row.sync !== null);
  if (!detail.generations.length) return [];
  const about = known.length ? [known.some((row) => row.type === "classic") ? [key("var(--join)", "waiting for members"), key("var(--sync)", "waiting for the leader's assignment")] : [],
    known.some((row) => row.type === "consumer") ? key("var(--reconcile)", "from the new epoch until every member had its partitions") : []]
    : [el("span", {}, "This log does not say when a rebalance began (a broker without Kohort's headers wrote it)" + (syncs.length ? `; leaders took up to ${duration(Math.max(...syncs.map((row) => row.sync)))} to assign.` : "."))];
  return [el("h3", {}, "How long rebalances took, and why"), el("div", { class: "legend" }, about,
    causes.map((cause, index) => key(CAUSE_COLOURS[Math.min(index, CAUSE_COLOURS.length - 1)], cause))), known.length || causes.length ? draw.durations : null];
}

function movesPart(detail, draw) {
  if (!detail.generations.some((row) => row.moved !== null)) return [];
  const totals = detail.what_if.totals;
  const still = !detail.generations.some((row) => row.moved) && !totals.some((row) => row.moved);
  const legend = still ? el("p", { class: "note" }, "No partition changed hands" + (totals.length ? ", nor would any have with another assignor." : "."))
    : el("div", { class: "legend" }, key("var(--forced)", "forced: the owner had left"), key("var(--needed)", "needed for balance"), key("var(--avoidable)", "avoidable"));
  const parts = [el("h3", {}, totals.length ? "What rebalances moved, and what other assignors would have" : "What rebalances moved"), legend];
  if (!totals.length) {
    return [...parts, still ? null : draw.moves, el("p", { class: "note" }, detail.type === "consumer" ? "The coordinator assigns partitions of a consumer group itself, so there is no what-if." : "Subscriptions are not readable, so there is no what-if.")];
  }
  const choice = el("select", { "aria-label": "Assignor to compare with", onchange: (event) => draw.compare(event.target.value) },
    totals.map((row) => el("option", { value: row.assignor, selected: row.assignor === draw.assignor }, row.assignor)));
  if (!still) legend.append(el("label", {}, "— what would have moved with ", choice));
  const mixed = detail.generations.some((row) => row.type === "consumer");
  const most = Math.max(1, detail.what_if.moved, ...totals.map((row) => row.moved));
  const bar = (count, own) => el("span", {}, el("span", { class: own ? "bar own" : "bar", style: `width: ${(count / most * 78).toFixed(1)}%` }), ` ${number(count)}`);
  const rows = [["as it was", bar(detail.what_if.moved, true), "–", number(detail.what_if.gap)],
    ...totals.map((row) => [row.assignor + (row.own ? " (the group's own)" : ""), bar(row.moved, false), number(row.interrupted), number(row.gap)])];
  const grid = table([{ name: "Assignor" }, { name: `Partitions moved in ${plural(detail.what_if.rebalances, mixed ? "classic rebalance" : "rebalance")}` }, { name: "Interrupted", class: "n" }, { name: "Largest gap in load", class: "n" }], rows);
  grid.classList.add("whatif");
  return [...parts, still ? null : draw.moves, grid, el("p", { class: "note" }, "Interrupted: partitions that members had to let go, if only for the time of the rebalance. Gap: partitions of the member with most, less those of the member with fewest. Each rebalance is judged from the owners there really were before it; racks are not considered.")];
}

function offsetsPart(detail) {
  if (!detail.offsets.length) return [el("h3", {}, "Offsets"), el("p", { class: "empty" }, "No commits of this group are in the log.")];
  const left = detail.offsets_left_out ? ` Drawn are the ${detail.offsets.length} with most rewinds, then most commits; ${number(detail.offsets_left_out)} are not.` : "";
  return [el("h3", {}, "Committed offsets"), el("p", { class: "about" }, `Each partition in its own scale; a step back is marked red.${left}`),
    el("div", { class: "multiples" }, detail.offsets.map((line) => el("figure", {},
      el("figcaption", {}, el("b", { title: `${line.topic}-${line.partition}` }, el("span", {}, line.topic), `-${line.partition}`), el("span", {}, plural(line.commits, "commit")), line.rewound ? el("i", {}, plural(line.rewound, "rewind")) : null), progress(line))))];
}

function rebalanceTable(detail) {
  if (!detail.generations.length) return [];
  const n = (name) => ({ name, class: "n" });
  const heads = [n(numberName(detail)), { name: "Time", class: "t" }, { name: "Cause" }, { name: "By" }, n("Members"), n("Joined"), n("Left"), n("Took"), n("Moved"), n("Avoidable"), n("Most"), n("Fewest")];
  const rows = detail.generations.slice(-200).reverse().map((row) => [number(row.generation), moment(row.time), row.cause || "–", el("span", { class: "mono", title: row.trigger || false }, brief(row.trigger || "–")), number(row.members), number(row.joined), number(row.left), duration(row.duration), number(row.moved), number(row.avoidable), number(row.max), number(row.min)]);
  const holder = el("details", {}, el("summary", { class: "legend" }, `Rebalances as a table (${rows.length}, latest first)`));
  holder.addEventListener("toggle", () => { if (holder.open && holder.children.length < 2) holder.append(table(heads, rows)); });
  return [el("h3", {}, "In figures"), holder];
}

function findingsPart(detail) {
  const parts = [];
  if (detail.findings.length) {
    const holder = el("div");
    inSteps(holder, [detail.findings.slice(0, 6), ...chunks(detail.findings.slice(6), 40)], (rows) => findingsTable(rows, false), 1, 1);
    parts.push(holder);
    if (detail.findings_left_out) parts.push(el("p", { class: "note" }, `${number(detail.findings_left_out)} further findings of this group are in the table "findings".`));
  }
  if (detail.not_evaluable.length) parts.push(el("p", { class: "note" }, "Not evaluable here: " + detail.not_evaluable.map(([check, reason]) => `${words(check)} (${reason})`).join("; ") + "."));
  return parts.length ? parts : [el("p", { class: "note" }, "No findings.")];
}

// Draws everything that is shown over generations; called again when the width, the axis or the choice changes.
function makeDrawings(detail, causes) {
  const draw = { strip: el("div"), durations: el("div"), moves: el("div"), assignor: (detail.what_if.totals.find((row) => row.assignor === "sticky" && !row.own) || detail.what_if.totals[0] || {}).assignor };
  draw.mode = detail.type === "consumer" ? "time" : "generation";
  const prefix = `p${drawings++}-`;
  draw.all = () => {
    const width = Math.max(560, draw.strip.clientWidth || 1080);
    const axis = makeAxis(draw.mode, detail, width);
    draw.strip.replaceChildren(ownership(detail, axis, prefix));
    draw.durations.replaceChildren(durations(detail, axis, causes));
    draw.moves.replaceChildren(moves(detail, axis, draw.assignor));
  };
  draw.compare = (assignor) => { draw.assignor = assignor; draw.all(); };
  draw.light = (index) => {
    const drawing = draw.strip.firstChild;
    drawing.classList.toggle("lit", index !== null);
    drawing.querySelectorAll(".own").forEach((rect) => rect.classList.toggle("on", rect.classList.contains("m" + index)));
  };
  return draw;
}

// Draws now, and again when the width changes.
function drawAndFollow(holder, draw) {
  draw();
  let width = holder.clientWidth;
  new ResizeObserver(() => { if (holder.clientWidth && Math.abs(holder.clientWidth - width) > 4) { width = holder.clientWidth; draw(); } }).observe(holder);
}

function openShareGroup(holder, detail) {
  const { parts, draw } = sharePart(detail.share, holder);
  holder.replaceChildren(...findingsPart(detail), ...parts);
  drawAndFollow(holder, draw);
}

async function openGroup(holder, packed) {
  const detail = await unpack(packed);
  if (detail.share) { openShareGroup(holder, detail); return; }
  const causes = [...new Set(detail.generations.map((row) => row.cause).filter((cause) => cause))];
  const draw = makeDrawings(detail, causes);
  const modes = ["generation", "time"].map((mode) => el("button", { type: "button", class: "chip", "aria-pressed": String(draw.mode === mode), onclick: () => {
    draw.mode = mode;
    modes.forEach((chip) => chip.setAttribute("aria-pressed", String(chip.dataset.mode === mode)));
    draw.all();
  }, "data-mode": mode }, "By " + (mode === "time" ? mode : numberName(detail).toLowerCase())));
  holder.replaceChildren(...findingsPart(detail), detail.generations.length ? el("div", { class: "tools" }, modes) : "", ...ownershipPart(detail, draw),
    ...[...durationPart(detail, draw, causes), ...movesPart(detail, draw), ...offsetsPart(detail), ...rebalanceTable(detail)].filter((part) => part));
  drawAndFollow(holder, draw.all);
}
