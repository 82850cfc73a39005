// The drawings of a group. Drawings over generations share one axis, so that they can be compared from top to bottom.

const GUTTER = 64;

// The horizontal positions of generations and times: one slot per generation, or proportional to time.
function makeAxis(mode, detail, width) {
  const count = detail.generations.length;
  const from = count ? detail.generations[0].time : detail.from;
  const to = Math.max(detail.to, from + 1);
  const room = width - GUTTER - 8;
  const slot = Math.min(72, room / Math.max(1, count));
  const ofTime = (ms) => GUTTER + (Math.min(Math.max(ms, from), to) - from) / (to - from) * room;
  if (mode === "time") {
    return { mode, width, from, to, end: GUTTER + room, slot: Math.max(2, Math.min(9, room / Math.max(1, count) * 0.7)),
      of: (index) => ofTime(detail.generations[index].time), span: (row) => [ofTime(row.start), ofTime(row.end ?? to)], ofTime };
  }
  const at = (index) => GUTTER + Math.min(Math.max(index, 0), count) * slot;
  const indexOf = (ms) => {
    let index = detail.generations.findIndex((generation) => generation.time > ms);
    if (index < 0) index = count;
    return Math.max(0, index - 1) + 0.5;
  };
  return { mode, width, from, to, end: at(count), slot, of: at, span: (row) => [at(row.first), at(row.last ?? count)], ofTime: (ms) => at(indexOf(ms)) };
}

function timeLabel(ms, span) {
  if (span > 3 * 86400e3) return iso(ms).slice(5, 10);
  return span > 86400e3 ? iso(ms).slice(5, 16).replace("T", " ") : span > 900e3 ? iso(ms).slice(11, 16) : span > 10e3 ? iso(ms).slice(11, 19) : iso(ms).slice(11, 23);
}

// Labels below a drawing: generation numbers, or times.
function axisLabels(axis, detail, y) {
  const labels = [];
  const room = axis.end - GUTTER;
  if (axis.mode === "time") {
    const steps = Math.max(1, Math.min(7, Math.floor(room / 90)));
    for (let step = 0; step <= steps; step++) {
      const ms = axis.from + (axis.to - axis.from) * step / steps;
      const anchor = step === 0 ? "start" : step === steps ? "end" : "middle";
      labels.push(svg("text", { x: axis.ofTime(ms), y, "text-anchor": anchor }, timeLabel(ms, axis.to - axis.from)));
    }
    return labels;
  }
  const every = Math.max(1, Math.ceil(44 / axis.slot));
  detail.generations.forEach((generation, index) => {
    if (index % every) return;
    labels.push(svg("text", { x: axis.of(index) + axis.slot / 2, y, "text-anchor": "middle" }, generation.generation));
  });
  return labels;
}

function generationTip(row) {
  const name = row.type === "consumer" ? "Epoch" : "Generation";
  const lines = [`${name} ${row.generation} · ${precise(row.time)}`, `${plural(row.members, "member")}, ${row.protocol || (row.type === "consumer" ? "the broker's assignor" : "assignor unknown")}`];
  if (row.cause) lines.push(`cause: ${row.cause}${row.trigger ? " by " + brief(row.trigger) : ""}`);
  if (row.joined || row.left) lines.push(`joined ${row.joined}, left ${row.left}`);
  return lines.join("\n");
}

// A line where the group changed to the other protocol, with the name of the new one.
function migrations(detail, axis, top, bottom) {
  const changed = detail.generations.map((row, index) => index).filter((index) => index && detail.generations[index].type !== detail.generations[index - 1].type);
  return changed.flatMap((index) => [svg("line", { class: "migration", x1: axis.of(index), x2: axis.of(index), y1: top - 9, y2: bottom }),
    svg("text", { class: "strong", x: axis.of(index) + 4, y: top }, detail.generations[index].type + " protocol")]);
}

// In a drawing by time: a tick for each generation below the axis, with its number where there is room.
function generationTicks(detail, axis, y) {
  if (axis.mode !== "time") return [];
  let free = GUTTER - 99;
  return detail.generations.flatMap((row, index) => {
    const x = axis.of(index);
    const parts = [svg("line", { class: "tick", x1: x, x2: x, y1: y, y2: y + 5 })];
    if (x - free >= 22) {
      parts.push(svg("text", { x, y: y + 16, "text-anchor": "middle" }, row.generation));
      free = x;
    }
    parts.push(svg("rect", { class: "hit", x: x - 4, width: 8, y: y - 2, height: 20, "data-tip": generationTip(row) }));
    return parts;
  }).concat(svg("text", { x: GUTTER - 8, y: y + 16, "text-anchor": "end" }, numberName(detail).toLowerCase()));
}

// A mark for each finding, above its generation or time. Findings close to each other share the mark of the worst.
function findingMarks(detail, axis) {
  const near = [];
  for (const mark of detail.marks) {
    const x = mark.index === null || axis.mode === "time" ? axis.ofTime(mark.time) : axis.of(mark.index) + axis.slot / 2;
    const cluster = near.find((other) => Math.abs(other.x - x) < 13);
    if (cluster) cluster.marks.push(mark);
    else near.push({ x, marks: [mark] });
  }
  return near.map(({ x, marks }) => {
    const tip = marks.slice(0, 4).map((mark) => `${sentence(mark.check)}: ${brief(mark.message)}`).join("\n") + (marks.length > 4 ? `\nand ${marks.length - 4} more` : "");
    return svg("g", { class: marks[0].severity, transform: `translate(${x - 5} 3)`, "data-tip": tip },
      svg("rect", { x: -3, y: -3, width: 16, height: 16, fill: "transparent" }), svg("path", { d: SHAPES[marks[0].severity], style: "fill: var(--sev)" }));
  });
}

// Who owned what: a row per partition, a bar per ownership in the colour of its owner.
function ownership(detail, axis, prefix) {
  const rows = detail.partitions.length;
  const height = rows <= 16 ? 18 : rows <= 32 ? 12 : 8;
  const heading = 19;
  const top = detail.marks.length ? 20 : 2;
  const tops = [];
  let bottom = top;
  detail.partitions.forEach(([topic], row) => {
    if (!row || topic !== detail.partitions[row - 1][0]) bottom += heading + (row ? 4 : 0);
    tops.push(bottom);
    bottom += height;
  });
  const lane = axis.mode === "time" && detail.generations.length ? 20 : 0;
  const drawing = svg("svg", { class: "chart", viewBox: `0 0 ${axis.width} ${bottom + lane + 20}`, role: "img",
    "aria-label": `Owners of ${rows} partitions over ${detail.generations.length} generations` }, patternDefs(prefix));
  const every = Math.ceil(11 / height);
  detail.partitions.forEach(([topic, partition], row) => {
    const first = !row || topic !== detail.partitions[row - 1][0];
    if (first) drawing.append(svg("text", { class: "strong", x: GUTTER, y: tops[row] - 6 }, topic));
    if (partition % every === 0) drawing.append(svg("text", { x: GUTTER - 8, y: tops[row] + height / 2 + 4, "text-anchor": "end" }, partition));
  });
  for (const owned of detail.intervals) {
    const [start, end] = axis.span(owned);
    const who = detail.members[owned.member];
    const [topic, partition] = detail.partitions[owned.row];
    const tip = `${topic}-${partition}\n${who.name}${who.host ? " at " + who.host : ""}\nfrom ${precise(owned.start)}${owned.end ? " to " + precise(owned.end) + " (" + owned.by + ")" : ", still at the end"}`;
    const box = { x: start, y: tops[owned.row] + 1, width: Math.max(1, end - start - (end - start > 3 ? 1 : 0)), height: height - 2, rx: height > 10 ? 2 : 0 };
    drawing.append(...memberRects(owned.member, box, prefix, { class: "own m" + owned.member, "data-tip": tip }));
    if (owned.revoking !== null && axis.mode === "time") {
      const from = Math.max(start, axis.ofTime(owned.revoking));
      drawing.append(svg("rect", { ...box, x: from, width: Math.max(1, box.x + box.width - from), class: "revoking", "data-tip": `${tip}\nto be given up since ${precise(owned.revoking)}` }));
    }
  }
  drawing.append(...migrations(detail, axis, tops[0] - 6, bottom), ...findingMarks(detail, axis));
  drawing.append(svg("line", { class: "axis", x1: GUTTER, x2: axis.end, y1: bottom + 2, y2: bottom + 2 }), ...generationTicks(detail, axis, bottom + 2), ...axisLabels(axis, detail, bottom + lane + 16));
  return drawing;
}

function niceMax(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
  return [1, 2, 2.5, 5, 10].map((step) => step * power).find((step) => step >= value) || value;
}

// The frame of a bar chart over generations: grid lines with labels, and the height of a value.
function barFrame(axis, detail, most, format, label, height) {
  const top = 8;
  const max = niceMax(most);
  const y = (value) => top + height - value / max * height;
  const drawing = svg("svg", { class: "chart", viewBox: `0 0 ${axis.width} ${top + height + 34}`, role: "img", "aria-label": label });
  for (const part of [0, 0.5, 1]) {
    const value = max * part;
    if (part === 0.5 && format(value) === format(max)) continue;
    drawing.append(svg("line", { class: part ? "grid" : "axis", x1: GUTTER, x2: axis.end, y1: y(value), y2: y(value) }),
      svg("text", { x: GUTTER - 8, y: y(value) + 4, "text-anchor": "end" }, format(value)));
  }
  return { drawing, y, max, base: top + height };
}

function barBox(axis, index) {
  if (axis.mode === "time") return { x: axis.of(index) - axis.slot / 2, width: axis.slot };
  const gap = axis.slot > 6 ? axis.slot * 0.16 : axis.slot > 3 ? 1 : 0;
  const width = Math.max(1, Math.min(32, axis.slot - 2 * gap));
  return { x: axis.of(index) + (axis.slot - width) / 2, width };
}

function howLong(row) {
  if (row.type === "consumer") return row.duration === null ? "not every member had its partitions before the next epoch, or the end of the log" : `every member had its partitions after ${duration(row.duration)}`;
  return row.duration === null ? "the log does not say how long it took" : `took ${duration(row.duration)}: waited ${duration(row.join)} for members, ${duration(row.sync)} for the leader`;
}

// How long each rebalance took, with a lane of causes below.
function durations(detail, axis, causes) {
  const known = detail.generations.filter((row) => row.duration !== null);
  const { drawing, y, base, max } = barFrame(axis, detail, Math.max(1, ...known.map((row) => row.duration)), duration, "How long each rebalance took", 92);
  detail.generations.forEach((row, index) => {
    const box = barBox(axis, index);
    const tip = `${generationTip(row)}\n${howLong(row)}`;
    if (row.duration !== null && row.type === "consumer") {
      drawing.append(svg("rect", { ...box, y: y(row.duration), height: base - y(row.duration), style: "fill: var(--reconcile)" }));
    } else if (row.duration !== null) {
      const join = Math.min(row.join ?? row.duration, row.duration);
      drawing.append(svg("rect", { ...box, y: y(join), height: base - y(join), style: "fill: var(--join)" }),
        svg("rect", { ...box, y: y(row.duration), height: y(join) - y(row.duration), style: "fill: var(--sync)" }));
      if (row.timeout !== null && row.duration > row.timeout) drawing.append(svg("path", { d: SHAPES.warning, class: "warning", transform: `translate(${box.x + box.width / 2 - 4} ${y(row.duration) - 10}) scale(0.8)`, style: "fill: var(--sev)" }));
    } else {
      drawing.append(svg("line", { class: "axis", x1: box.x, x2: box.x + box.width, y1: base - 2, y2: base - 2, "stroke-dasharray": "2 2" }));
    }
    const cause = row.cause === null ? -1 : causes.indexOf(row.cause);
    if (cause >= 0) drawing.append(svg("rect", { ...box, y: base + 4, height: 6, rx: 1, style: `fill: ${CAUSE_COLOURS[Math.min(cause, CAUSE_COLOURS.length - 1)]}` }));
    drawing.append(svg("rect", { class: "hit", ...box, y: 8, height: base + 4, "data-tip": tip }));
  });
  const timeout = Math.min(...detail.generations.map((row) => row.timeout ?? Infinity));
  if (timeout <= max) drawing.append(svg("line", { x1: GUTTER, x2: axis.end, y1: y(timeout), y2: y(timeout), style: "stroke: var(--error); stroke-dasharray: 4 3" }),
    svg("text", { x: axis.end, y: y(timeout) - 4, "text-anchor": "end", style: "fill: var(--error)" }, "rebalance timeout " + duration(timeout)));
  drawing.append(...axisLabels(axis, detail, base + 24));
  return drawing;
}

// What each rebalance moved as a bar, and what another assignor would have moved as a dash across it.
function moves(detail, axis, assignor) {
  const would = assignor ? detail.what_if.per[assignor] : [];
  const most = Math.max(1, ...detail.generations.map((row) => row.moved ?? 0), ...would.map((value) => value ?? 0));
  const { drawing, y, base } = barFrame(axis, detail, most, (value) => number(Math.round(value * 10) / 10), "Partitions moved by each rebalance", 92);
  detail.generations.forEach((row, index) => {
    const box = barBox(axis, index);
    const needed = (row.moved ?? 0) - (row.forced ?? 0) - (row.avoidable ?? 0);
    let below = 0;
    for (const [count, colour] of [[row.forced ?? 0, "forced"], [needed, "needed"], [row.avoidable ?? 0, "avoidable"]]) {
      if (count > 0) drawing.append(svg("rect", { ...box, y: y(below + count), height: y(below) - y(below + count), style: `fill: var(--${colour})` }));
      below += Math.max(0, count);
    }
    const value = would[index];
    if (value !== null && value !== undefined) drawing.append(svg("line", { x1: box.x - 1, x2: box.x + box.width + 1, y1: y(value), y2: y(value), style: "stroke: var(--ink); stroke-width: 2" }));
    const tip = [generationTip(row), row.moved === null ? "moves unknown" : `moved ${row.moved}: ${row.forced} forced, ${needed} for balance, ${row.avoidable} avoidable`,
      ...Object.entries(detail.what_if.per).filter(([, values]) => values[index] !== null).map(([name, values]) => `${name} would have moved ${values[index]}`)].join("\n");
    drawing.append(svg("rect", { class: "hit", ...box, y: 8, height: base - 8, "data-tip": tip }));
  });
  drawing.append(...axisLabels(axis, detail, base + 16));
  return drawing;
}

// The committed offset of one partition over time; each rewind is marked.
function progress(line) {
  const [width, height] = [300, 92];
  const all = line.points.concat(line.rewinds.flatMap(([ms, from, to]) => [[ms, from], [ms, to]]));
  const [t0, t1] = [Math.min(...all.map((p) => p[0])), Math.max(...all.map((p) => p[0]))];
  const [low, high] = [Math.min(...all.map((p) => p[1])), Math.max(...all.map((p) => p[1]))];
  const x = (ms) => 3 + (t1 > t0 ? (ms - t0) / (t1 - t0) : 0.5) * (width - 6);
  const y = (offset) => 8 + (high > low ? (high - offset) / (high - low) : 0.5) * (height - 28);
  const path = [];
  let back = 0;
  for (const [ms, offset] of line.points) {
    while (back < line.rewinds.length && line.rewinds[back][0] <= ms) {
      const [at, from, to] = line.rewinds[back++];
      path.push([x(at), y(from)], [x(at), y(to)]);
    }
    path.push([x(ms), y(offset)]);
  }
  const d = "M" + path.map((p) => p.map((v) => v.toFixed(1)).join(" ")).join("L");
  const drawing = svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Committed offsets of ${line.topic}-${line.partition}: from ${low} to ${high}, ${plural(line.rewound, "rewind")}` },
    svg("line", { class: "grid", x1: 0, x2: width, y1: y(high), y2: y(high) }), svg("line", { class: "axis", x1: 0, x2: width, y1: height - 18, y2: height - 18 }),
    path.length > 1 && svg("path", { class: "area", d: `${d}L${path.at(-1)[0].toFixed(1)} ${height - 18}L${path[0][0].toFixed(1)} ${height - 18}Z` }),
    path.length > 1 ? svg("path", { class: "line", d }) : path.map(([cx, cy]) => svg("circle", { cx, cy, r: 3, style: "fill: var(--accent)" })),
    svg("text", { x: 2, y: height - 5 }, timeLabel(t0, t1 - t0)), svg("text", { x: width - 2, y: height - 5, "text-anchor": "end" }, timeLabel(t1, t1 - t0)),
    svg("text", { x: 2, y: Math.max(18, y(high) - 3 + 14) }, short(high)));
  for (const [at, from, to] of line.rewinds) {
    drawing.append(svg("g", { class: "rewind", "data-tip": `Rewind at ${precise(at)}\nfrom ${number(from)} back to ${number(to)} (${number(to - from)})` },
      svg("rect", { x: x(at) - 7, y: y(from) - 2, width: 14, height: Math.max(16, y(to) - y(from) + 8), fill: "transparent", stroke: "none" }),
      svg("line", { x1: x(at), x2: x(at), y1: y(from), y2: y(to) }), svg("path", { d: `M${x(at) - 4} ${y(to) - 4}h8l-4 7z`, stroke: "none" })));
  }
  return drawing;
}

// Findings over time, stacked by severity.
function findingsOverTime(histogram, width) {
  const { from, to, bins } = histogram;
  const [height, top] = [96, 6];
  const most = Math.max(1, ...bins.map((bin) => bin.reduce((a, b) => a + b, 0)));
  const step = (width - 4) / bins.length;
  const drawing = svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height + 24}`, role: "img", "aria-label": "Findings over time" });
  bins.forEach((bin, index) => {
    let below = 0;
    const start = from + (to - from) * index / bins.length;
    [3, 2, 1, 0].forEach((severity) => {
      if (!bin[severity]) return;
      const tall = bin[severity] / most * (height - top);
      drawing.append(svg("rect", { x: 2 + index * step, y: height - below - tall, width: Math.max(1.5, step - 1), height: tall, style: `fill: var(--${SEVERITIES[severity]})` }));
      below += tall;
    });
    const tip = `${moment(start)}\n` + SEVERITIES.map((name, s) => bin[s] ? `${bin[s]} ${name}\n` : "").join("");
    if (below) drawing.append(svg("rect", { class: "hit", x: 2 + index * step, y: top, width: step, height: height - top, "data-tip": tip.trim() }));
  });
  drawing.append(svg("line", { class: "axis", x1: 0, x2: width, y1: height + 0.5, y2: height + 0.5 }),
    svg("text", { x: 2, y: height + 16 }, moment(from)), svg("text", { x: width - 2, y: height + 16, "text-anchor": "end" }, moment(to)));
  return drawing;
}
