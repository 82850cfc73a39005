"""Gathers the rows for the page. Scans run in parallel; wide columns are read only for groups that get drawings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kohort.audit.report import ranking, shrink
from kohort.audit.report.details import by_group, offset_lines
from kohort.audit.report.limits import (
    FEWEST_POINTS_OF_LINE,
    FINDINGS_PER_GROUP,
    FINDINGS_PER_RULE,
    LOG_PROBLEMS,
    POINTS,
    POINTS_OF_LINE,
    STEPS,
)
from kohort.audit.report.rows import Gathered, Row
from kohort.audit.report.share import share_details, share_groups
from kohort.audit.report.source import Source

FINDING = (
    "check", "severity", "group_id", "topic", "partition", "member_id", "generation", "log_partition", "log_offset",
    "time", "until", "message", "advice",
)  # fmt: skip
CHECK_RESULT = ("check", "status", "severity", "findings", "threshold", "group_id", "reason")
FACT = ("group_id", "topic", "partition", "commits", "rewinds", "first_time", "last_time", "last_offset")
REBALANCE = (
    "group_id", "group_type", "generation", "log_offset", "time", "protocol", "cause", "trigger", "member_count",
    "joined", "left", "join_ms", "sync_ms", "duration_ms", "timeout_ms", "moved", "forced_moves", "avoidable_moves",
    "max_load", "min_load", "idle_members",
)  # fmt: skip
INTERVAL = (
    "group_id", "topic", "partition", "member_id", "instance_id", "client_id", "client_host", "start_log_offset",
    "end_log_offset", "start_time", "end_time", "ended_by", "revoking_since",
)  # fmt: skip
WHAT_IF = ("group_id", "log_offset", "assignor", "moved", "interrupted", "max_load", "min_load", "actual")
STEP = ("group_id", "topic", "partition", "log_offset", "time", "offset", "previous_offset", "step")
RUN = (
    "run_id", "started", "path", "log_partition", "first_log_offset", "from_log_offset", "end_log_offset", "cleaned_to",
    "records", "problem",
)  # fmt: skip
PROBLEM = ("log_partition", "segment", "position", "log_offset", "size_bytes", "problem", "detail")

Scan = Callable[[], pa.Table]


def gather(source: Source, about_checks: Mapping[str, str]) -> Gathered:
    """`about_checks`: check -> what it looks for."""
    gathered = Gathered(about_checks=dict(about_checks))
    with ThreadPoolExecutor(4) as pool:
        facts = _overview(source, gathered, pool)
        _histories(source, gathered, facts, pool)
    return gathered


def _read(pool: ThreadPoolExecutor, scans: Mapping[str, Scan]) -> dict[str, pa.Table]:
    started = {name: pool.submit(scan) for name, scan in scans.items()}
    return {name: scan.result() for name, scan in started.items()}


def _overview(source: Source, gathered: Gathered, pool: ThreadPoolExecutor) -> pa.Table:
    """Gather all groups, findings and log partitions, in few columns. Returns the facts about partitions."""
    summary = ("group_id", "group_type", "log_offset", "member_count", "duration_ms")
    read = _read(pool, {
        "segments": source.segments,
        "facts": lambda: source.table("partition_facts", FACT),
        "rebalances": lambda: source.table("rebalances", summary),
        "findings": lambda: source.table("findings", FINDING),
        "check_results": lambda: source.table("check_results", CHECK_RESULT),
        "runs": lambda: source.table("audit_runs", RUN),
        "problems": lambda: source.problems(PROBLEM, LOG_PROBLEMS),
    })  # fmt: skip
    share = share_groups(source)
    findings = shrink.worst_first(shrink.ms(read["findings"], "time", "until"))
    facts = shrink.ms(read["facts"], "first_time", "last_time")
    gathered.finding_counts = shrink.finding_counts(findings)
    gathered.findings = shrink.rows(shrink.first_of_each(findings, "check", FINDINGS_PER_RULE))
    gathered.histogram, gathered.histogram_span = shrink.histogram(findings)
    gathered.check_results = shrink.rows(read["check_results"])
    of_share = {row["group_id"] for row in share}
    others = [row for row in shrink.groups(facts, read["rebalances"]) if row["group_id"] not in of_share]
    gathered.groups = [*others, *share]
    gathered.group_count = len(gathered.groups)
    gathered.log_partitions = shrink.log_partitions(read["segments"])
    gathered.log_problems = sorted(shrink.rows(read["problems"]), key=_place_in_log)
    gathered.runs = shrink.rows(shrink.ms(read["runs"], "started"))
    found = ranking.found_by_group(gathered.finding_counts)
    gathered.detailed = ranking.detailed(ranking.ranked(gathered.groups, found))
    mine = findings.filter(pc.is_in(findings["group_id"], pa.array(gathered.detailed, pa.string())))
    gathered.group_findings = shrink.rows(shrink.first_of_each(mine, "group_id", FINDINGS_PER_GROUP))
    return facts.filter(pc.is_in(facts["group_id"], pa.array(gathered.detailed, pa.string())))


def _place_in_log(row: Row) -> tuple[int, int, int]:
    return row["log_partition"], row["segment"] or 0, row["position"] or 0


def _histories(source: Source, gathered: Gathered, facts: pa.Table, pool: ThreadPoolExecutor) -> None:
    """Gather what is drawn for the worst groups."""
    gathered.facts = shrink.rows(facts)
    lines = [line for rows in by_group(gathered.facts).values() for line in offset_lines(rows)]
    one_in = max(1, round(sum(line["commits"] for line in lines) / STEPS))
    places = [(line["group_id"], line["topic"], line["partition"]) for line in lines]
    steps = pool.submit(source.steps, STEP, places, one_in) if lines else None
    balanced = [row["group_id"] for row in gathered.groups if row["rebalances"]]
    groups = sorted(set(gathered.detailed).intersection(balanced))
    if groups:
        read = _read(pool, {
            "rebalances": lambda: source.table("rebalances", REBALANCE, groups),
            "what_if": lambda: source.table("what_if", WHAT_IF, groups),
        })  # fmt: skip
        _draw_windows(gathered, read["rebalances"], read["what_if"])
        intervals = source.intervals(INTERVAL, gathered.windows)
        gathered.intervals = shrink.latest_intervals(shrink.ms(intervals, "start_time", "end_time", "revoking_since"))
    of_share = {row["group_id"] for row in gathered.groups if row["group_type"] == "share"}
    if drawn := [group_id for group_id in gathered.detailed if group_id in of_share]:
        gathered.share = share_details(source, drawn)
    if steps is not None:
        points = max(FEWEST_POINTS_OF_LINE, min(POINTS_OF_LINE, POINTS // len(lines)))
        gathered.lines = shrink.offset_points(shrink.ms(steps.result(), "time"), lines, points)


def _draw_windows(gathered: Gathered, rebalances: pa.Table, what_if: pa.Table) -> None:
    gathered.what_if_totals = shrink.what_if_totals(what_if, rebalances)
    places = rebalances.select(["group_id", "log_offset"]).sort_by("log_offset")
    findings_of = by_group(gathered.group_findings)
    for group_id, rows in by_group(shrink.rows(places)).items():
        drawn = ranking.window(rows, findings_of.get(group_id, []))
        if drawn:
            gathered.windows[group_id] = drawn
            if drawn[1] == ranking.THE_END:
                gathered.to_the_end.add(group_id)
    gathered.what_if = shrink.within(what_if.select(["group_id", "log_offset", "assignor", "moved"]), gathered.windows)
    gathered.rebalances = [_counted(row) for row in shrink.within(shrink.ms(rebalances, "time"), gathered.windows)]
    gathered.rebalances.sort(key=lambda row: row["log_offset"])


def _counted(row: dict[str, Any]) -> Row:
    return {**row, "joined": len(row["joined"] or ()), "left": len(row["left"] or ())}
