// The page of a share group: who read what together, how far each partition came, and what became of its records.

const POINT = ["time", "start", "end", "accepted", "archived", "returned", "timeouts", "deliveries"];

// A row per member, a bar for each of its assignments.
function shareMembers(share, width) {
  const axis = makeAxis("time", { generations: [], from: share.from, to: share.to }, width);
  const height = share.members.length <= 16 ? 18 : 12;
  const top = 4;
  const bottom = top + height * share.members.length;
  const prefix = `share${drawings++}-`;
  const drawing = svg("svg", { class: "chart", viewBox: `0 0 ${axis.width} ${bottom + 22}`, role: "img", "aria-label": `Assignments of ${share.members.length} members over time` }, patternDefs(prefix));
  for (const [row, start, end, by, partitions] of share.bars) {
    const who = share.members[row];
    const [from, to] = [axis.ofTime(start), axis.ofTime(end ?? share.to)];
    const list = partitions.length > 12 ? partitions.slice(0, 12).join(", ") + ` and ${partitions.length - 12} more` : partitions.join(", ") || "no partition";
    const tip = `${who.client ? who.client + " · " : ""}${who.name}${who.host ? " at " + who.host : ""}\n${list}\nfrom ${precise(start)}${end ? " to " + precise(end) + " (" + by + ")" : ", still at the end"}`;
    const box = { x: from, y: top + row * height + 1, width: Math.max(1, to - from - (to - from > 3 ? 1 : 0)), height: height - 2, rx: height > 12 ? 2 : 0 };
    drawing.append(...memberRects(row, box, prefix, { class: "own m" + row + (partitions.length ? "" : " idle"), "data-tip": tip }));
    if (to - from > 26 && partitions.length) drawing.append(svg("text", { class: "inbar", x: from + 6, y: top + row * height + height / 2 + 4 }, partitions.length));
  }
  drawing.append(svg("line", { class: "axis", x1: GUTTER, x2: axis.end, y1: bottom + 2, y2: bottom + 2 }), ...axisLabels(axis, { generations: [] }, bottom + 17));
  return drawing;
}

// Start offset of one partition over time; above it, how far records were delivered; below, what came back or was given up.
function shareProgress(line) {
  const [width, height, lane] = [300, 112, 26];
  const points = asObjects(POINT, line.points).filter((point) => point.start >= 0);
  if (!points.length) return el("p", { class: "note" }, "No start offset has been decided yet.");
  const [t0, t1] = [points[0].time, points.at(-1).time];
  const [low, high] = [Math.min(...points.map((p) => p.start)), Math.max(...points.map((p) => p.end))];
  const floor = height - 18 - lane;
  const x = (ms) => 3 + (t1 > t0 ? (ms - t0) / (t1 - t0) : 0.5) * (width - 6);
  const y = (offset) => 8 + (high > low ? (high - offset) / (high - low) : 0.5) * (floor - 16);
  const stairs = (name) => points.map((point, index) => `${index ? `H${x(point.time).toFixed(1)}V` : `M${x(point.time).toFixed(1)} `}${y(point[name]).toFixed(1)}`).join("");
  const back = points.slice(0, -1).reverse().map((point) => `V${y(point.start).toFixed(1)}H${x(point.time).toFixed(1)}`).join("");
  const most = Math.max(1, ...points.map((p) => p.returned + p.archived));
  const drawing = svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Start offset of ${line.topic}-${line.partition}: from ${points[0].start} to ${points.at(-1).start}` },
    points.length > 1 && svg("path", { class: "window", d: `${stairs("end")}${back}Z` }),
    points.length > 1 ? svg("path", { class: "line", d: stairs("start") }) : svg("circle", { cx: x(t0), cy: y(points[0].start), r: 3, style: "fill: var(--accent)" }),
    svg("line", { class: "axis", x1: 0, x2: width, y1: height - 18, y2: height - 18 }),
    svg("text", { x: 2, y: height - 5 }, timeLabel(t0, t1 - t0)), svg("text", { x: width - 2, y: height - 5, "text-anchor": "end" }, timeLabel(t1, t1 - t0)),
    svg("text", { x: 2, y: 14 }, short(high)));
  for (const point of points) {
    const scale = (lane - 6) / most;
    const bar = (count, below, colour) => count && drawing.append(svg("rect", { class: "fate", x: x(point.time) - 1.5, width: 3, y: height - 18 - (below + count) * scale, height: Math.max(1.5, count * scale), style: `fill: var(--${colour})` }));
    bar(point.archived, 0, "error");
    bar(point.returned, point.archived, "warning");
    const tip = [precise(point.time), `start offset ${number(point.start)}, delivered up to ${number(point.end - 1)}`, `accepted ${number(point.accepted)}, came back ${number(point.returned)}, archived ${number(point.archived)}`,
      point.timeouts ? `${plural(point.timeouts, "time")} because a lock had expired` : "", point.deliveries > 1 ? `delivered up to ${number(point.deliveries)} times` : ""].filter((text) => text).join("\n");
    drawing.append(svg("rect", { class: "hit", x: x(point.time) - 3, width: 6, y: 4, height: height - 22, "data-tip": tip }));
  }
  return drawing;
}

function sharePart(share, holder) {
  const strip = el("div");
  const draw = () => { if (share.members.length) strip.replaceChildren(shareMembers(share, Math.max(560, holder.clientWidth || 1080))); };
  const n = (name) => ({ name, class: "n" });
  const left = share.members_left_out ? ` ${number(share.members_left_out)} earlier members are not drawn.` : "";
  const members = share.members.length ? [el("h3", {}, "Members"), el("p", { class: "about" }, `A row per member, with the number of its partitions. Several members read a partition together; who held which record is not in the log.${left}`), strip,
    el("div", { class: "legend" }, share.members.slice(0, 20).map((member, index) => el("span", { class: "key" }, swatch(index), el("span", { title: member.name }, (member.client ? member.client + " · " : "") + brief(member.name)))))]
    : [el("h3", {}, "Members"), el("p", { class: "empty" }, "The log has no member of this group: only its progress was read.")];
  if (!share.partitions.length) return { draw, parts: [...members, el("h3", {}, "Progress"), el("p", { class: "empty" }, "Nothing in __share_group_state was read about this group.")] };
  const drawn = share.lines_left_out ? ` Drawn are the ${share.lines.length} with most records that were archived or came back; ${number(share.lines_left_out)} are not.` : "";
  const figures = share.lines.map((line) => el("figure", {}, el("figcaption", {}, el("b", { title: `${line.topic}-${line.partition}` }, el("span", {}, line.topic), `-${line.partition}`), el("span", {}, plural(line.updates, "update")), line.archived ? el("i", {}, `${number(line.archived)} archived`) : null), shareProgress(line)));
  const heads = [{ name: "Partition", class: "who" }, n("Members"), n("Start offset"), n("Finished"), n("Waiting"), n("Deliveries"), n("Accepted"), n("Archived"), n("Came back"), n("Timeouts"), { name: "Last update", class: "t" }];
  const rows = share.partitions.map(([place, count, start, accepted, archived, returned, timeouts, finished, waiting, deliveries, last]) =>
    [el("span", { class: "mono" }, place), number(count), number(start), number(finished), number(waiting), number(deliveries), number(accepted), number(archived), number(returned), timeouts === null ? "not told" : number(timeouts), moment(last)]);
  return { draw, parts: [...members, el("h3", {}, "Progress"), el("p", { class: "about" }, `The line is the start offset: everything before it is finished. The area above it reaches to the last record that was delivered.${drawn}`),
    el("div", { class: "legend" }, key("var(--accent)", "start offset"), key("var(--warning)", "came back"), key("var(--error)", "archived: rejected, or given up")),
    el("div", { class: "multiples" }, figures), el("h3", {}, "In figures"), el("p", { class: "about" }, "Finished, waiting for another delivery, and the most deliveries of one of these: of the records from the start offset on. Accepted, archived, came back: sums over the updates in these tables; timeouts: how often it was because a lock had expired."), table(heads, rows),
    share.partitions_left_out ? el("p", { class: "note" }, `${number(share.partitions_left_out)} further partitions are in the table "share_partitions".`) : ""] };
}
