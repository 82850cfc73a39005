// The sections about the log, about checks that could not be evaluated, and about what was read; then starts the page.

function logHealth() {
  const home = section("log");
  const log = payload.log;
  home.append(el("h2", {}, "Log health", el("small", {}, plural(log.partitions.length, "log partition"))));
  if (!log.partitions.length) { home.append(el("p", { class: "empty" }, "No log partition was read.")); return; }
  const compacted = log.partitions.filter((part) => part.cleaned_to > 0).length;
  const unknown = log.partitions.filter((part) => part.cleaned_to === null).length;
  const bad = log.partitions.filter((part) => part.problems).length;
  home.append(el("p", { class: "about" }, `${bytes(payload.totals.bytes)} in ${plural(payload.totals.batches, "batch", "batches")}. ${compacted ? `Compaction has run in ${number(compacted)} of them: what it removed before the first audit is lost.` : unknown === log.partitions.length ? "Nothing says whether compaction has run (there is no cleaner checkpoint beside the folders)." : "Compaction has not run."} ${bad ? `Damage or unreadable records in ${number(bad)}.` : "Every batch could be read and its checksum is right."}`));
  const most = Math.max(1, ...log.partitions.map((part) => part.bytes));
  home.append(el("div", { class: "heat", role: "img", "aria-label": "Size of each log partition" }, [...log.partitions].sort((a, b) => a.log_partition - b.log_partition).map((part) =>
    el("div", { class: part.problems ? "bad" : "", style: `background: color-mix(in oklab, var(--accent) ${(part.bytes / most * 55).toFixed(0)}%, var(--card))`, "data-tip": `${logName(part.log_partition)}\n${bytes(part.bytes)}, ${plural(part.batches, "batch", "batches")}, ${plural(part.records, "record")}${part.problems ? "\n" + plural(part.problems, "problem") : ""}` }, logNumber(part.log_partition)))))
  if (log.problems.length) {
    home.append(el("h3", {}, "Problems in the files"), table([{ name: "Log partition", class: "n" }, { name: "Segment", class: "n" }, { name: "At byte", class: "n" }, { name: "Offset", class: "n" }, { name: "Size", class: "n" }, { name: "Problem" }, { name: "In words", class: "wide" }],
      log.problems.map((row) => [logNumber(row[0]), el("span", { class: "mono" }, row[1] === null ? "–" : String(row[1]).padStart(20, "0")), number(row[2]), number(row[3]), bytes(row[4]), row[5], row[6] || ""])));
    if (log.problems_left_out) home.append(el("p", { class: "note" }, `${number(log.problems_left_out)} further problems are in the table "log_batches".`));
  }
  const n = (name) => ({ name, class: "n" });
  const holder = el("details", {}, el("summary", { class: "legend" }, "Log partitions as a table, largest first"));
  holder.addEventListener("toggle", () => {
    if (!holder.open || holder.children.length > 1) return;
    const rows = log.partitions.map((part) => [logNumber(part.log_partition), bytes(part.bytes), number(part.segments), number(part.batches), number(part.records), part.codecs || "–", number(part.first), number(part.end), part.cleaned_to === null ? "unknown" : part.cleaned_to ? number(part.cleaned_to) : "never", number(part.problems)]);
    holder.append(table([n("Log partition"), n("Size"), n("Segments"), n("Batches"), n("Records"), { name: "Compression" }, n("From offset"), n("To offset"), n("Cleaned to"), n("Problems")], rows));
  });
  home.append(holder);
}

function notEvaluable() {
  const home = section("open");
  home.append(el("h2", {}, "Not evaluable", el("small", {}, payload.not_evaluable.length ? "no verdict, neither good nor bad" : "")));
  if (!payload.not_evaluable.length) { home.append(el("p", { class: "empty" }, "Every check could be judged for every group.")); return; }
  home.append(table([{ name: "Check", class: "rule-name" }, { name: "Why", class: "wide" }, { name: "Groups", class: "n" }, { name: "Which", class: "wide" }], payload.not_evaluable.map((row) => [sentence(row.check), row.reason, row.groups ? number(row.groups) : "all",
    row.examples.length ? el("span", {}, row.examples.map((id, index) => [index ? ", " : "", link(id)]), row.groups > row.examples.length ? ` and ${number(row.groups - row.examples.length)} more` : "") : "–"])));
}

function whatWasRead() {
  const home = section("read");
  home.append(el("h2", {}, "What was read"));
  home.append(el("dl", { class: "kv" }, payload.about.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])));
  const n = (name) => ({ name, class: "n" });
  if (payload.runs.rows.length) {
    home.append(el("p", { class: "about" }, `${plural(payload.runs.runs, "run")} of the audit made these tables. The last one read:`));
    const rows = payload.runs.rows.map((row) => [el("span", { class: "mono" }, row[0]), logNumber(row[1]), number(row[2]), number(row[3]), number(row[4]), row[5] === null ? "unknown" : row[5] ? number(row[5]) : "never", number(row[6]), row[7] ? el("span", { class: "badge error" }, row[7]) : ""]);
    const heads = [{ name: "Folder" }, n("Log partition"), n("First offset"), n("New from"), n("To"), n("Cleaned to"), n("New records"), { name: "Problem" }];
    const problems = payload.runs.rows.filter((row) => row[7]).length;
    if (problems) home.append(el("h3", {}, "Could not be read"), table(heads, rows.slice(0, problems)));
    const holder = el("details", {}, el("summary", { class: "legend" }, plural(rows.length - problems, "folder")));
    if (rows.length > problems) home.append(holder);
    holder.addEventListener("toggle", () => { if (holder.open && holder.children.length < 2) holder.append(table(heads, rows.slice(problems))); });
  }
}

function themes() {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  const apply = () => { root.dataset.theme = chosen || (dark.matches ? "dark" : "light"); };
  dark.addEventListener("change", apply);
  document.getElementById("theme").addEventListener("click", () => { chosen = root.dataset.theme === "dark" ? "light" : "dark"; apply(); });
  apply();
}

themes();
followTips();
summary();
findings();
groupList();
logHealth();
notEvaluable();
whatWasRead();
followHash();
addEventListener("hashchange", followHash);
