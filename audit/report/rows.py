"""The gathered rows: what the scans find, and what the page is made from. Times are milliseconds since 1970."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]

SEVERITIES = ("critical", "error", "warning", "info")


@dataclass(slots=True)
class Gathered:
    """Rows have the column names of their tables. Columns that are counted or computed are named here."""

    finding_counts: list[Row] = field(default_factory=list)  # check, severity, group_id, found
    findings: list[Row] = field(default_factory=list)  # the worst of each rule
    group_findings: list[Row] = field(default_factory=list)  # the worst of each detailed group
    histogram: list[Row] = field(default_factory=list)  # bin, severity, found
    histogram_span: tuple[int, int] | None = None
    check_results: list[Row] = field(default_factory=list)
    about_checks: dict[str, str] = field(default_factory=dict)  # check: what it looks for
    groups: list[Row] = field(default_factory=list)  # group_id, group_type, rebalances, members, partitions, commits,
    # rewinds, last, longest, updates
    group_count: int = 0
    detailed: list[str] = field(default_factory=list)  # groups with drawings, worst first
    windows: dict[str, tuple[int, int]] = field(default_factory=dict)  # group: first and last log offset that is drawn
    to_the_end: set[str] = field(default_factory=set)  # groups whose last rebalance is drawn
    rebalances: list[Row] = field(default_factory=list)  # within the windows, in the order of the log
    intervals: list[Row] = field(default_factory=list)  # within the windows; `of` says how many there are
    what_if: list[Row] = field(default_factory=list)  # within the windows
    what_if_totals: list[Row] = field(
        default_factory=list
    )  # group_id, assignor, moved, interrupted, gap, own, rebalances
    facts: list[Row] = field(default_factory=list)  # of the detailed groups
    lines: list[Row] = field(default_factory=list)  # facts with points: [time, offset], and back: [time, from, to]
    share: dict[str, Row] = field(default_factory=dict)  # share group: the data of its drawings, see share.py
    log_partitions: list[Row] = field(default_factory=list)
    log_problems: list[Row] = field(default_factory=list)
    runs: list[Row] = field(default_factory=list)


def severity_rank(row: Row) -> int:
    severity = row["severity"]
    return SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES)
