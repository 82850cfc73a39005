"""Makes the data of the page from the gathered rows. The scripts in assets/ draw it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from kohort.audit.report.details import Details, finding_row, packed
from kohort.audit.report.limits import BINS, EXAMPLES, LISTED_GROUPS, LOG_PROBLEMS, RUN_ROWS
from kohort.audit.report.ranking import found_by_group, ranked
from kohort.audit.report.rows import SEVERITIES, Gathered, Row, severity_rank

GROUP = ("group_type", "rebalances", "members", "partitions", "commits", "rewinds", "last", "longest", "updates")
TITLE = "Kohort audit"
_NUMBER = re.compile(r"\b\d[\d,]*\b")


def payload(gathered: Gathered, about: Mapping[str, Any]) -> dict[str, Any]:
    found = found_by_group(gathered.finding_counts)
    groups = ranked(gathered.groups, found)
    details = Details(gathered)
    return {
        "title": str(about.get("title") or TITLE),
        "about": [[str(name), _told(value)] for name, value in about.items() if name != "title" and value is not None],
        "totals": _totals(gathered),
        "findings": _findings(gathered),
        "checks": _checks(gathered),
        "not_evaluable": _not_evaluable(gathered.check_results),
        "groups": {
            "rows": [_group(row, found) for row in groups[:LISTED_GROUPS]],
            "left_out": max(0, gathered.group_count - min(len(groups), LISTED_GROUPS)),
        },
        "details": {group_id: packed(details.of(group_id)) for group_id in gathered.detailed},
        "log": _log(gathered),
        "runs": _runs(gathered.runs),
    }


def _told(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _totals(gathered: Gathered) -> Row:
    return {
        "groups": gathered.group_count,
        "rebalances": sum(row["rebalances"] or 0 for row in gathered.groups),
        "commits": sum(row["commits"] or 0 for row in gathered.groups),
        "partitions": sum(row["partitions"] or 0 for row in gathered.groups),
        "bytes": sum(row["bytes"] or 0 for row in gathered.log_partitions),
        "batches": sum(row["batches"] or 0 for row in gathered.log_partitions),
        "log_partitions": len(gathered.log_partitions),
    }


def _group(row: Row, found: Mapping[str, Sequence[int]]) -> list[Any]:
    told = [row[name] for name in GROUP]
    return [row["group_id"], told[0], *found.get(row["group_id"], (0, 0, 0, 0)), *told[1:]]


# --- findings and checks --------------------------------------------------------------------------


def _findings(gathered: Gathered) -> dict[str, Any]:
    counts = Counter[str]()
    of_rule = Counter[str]()
    groups_of_rule: dict[str, set[str]] = {}
    for row in gathered.finding_counts:
        counts[row["severity"]] += row["found"]
        of_rule[row["check"]] += row["found"]
        if row["group_id"] is not None:
            groups_of_rule.setdefault(row["check"], set()).add(row["group_id"])
    rules: dict[str, list[Row]] = {}
    for row in sorted(gathered.findings, key=lambda row: (severity_rank(row), -(row["time"] or 0))):
        rules.setdefault(row["check"], []).append(row)
    return {
        "counts": {severity: counts[severity] for severity in SEVERITIES},
        "rules": [
            {"check": check, "severity": rows[0]["severity"], "count": of_rule[check], "advice": rows[0]["advice"],
             "groups": len(groups_of_rule.get(check, ())), "rows": [finding_row(row) for row in rows]}
            for check, rows in rules.items()
        ],
        "histogram": _histogram(gathered),
    }  # fmt: skip


def _histogram(gathered: Gathered) -> dict[str, Any] | None:
    if gathered.histogram_span is None:
        return None
    bins = [[0] * len(SEVERITIES) for _ in range(BINS)]
    for row in gathered.histogram:
        rank = severity_rank(row)
        if rank < len(SEVERITIES):
            bins[min(BINS - 1, max(0, row["bin"]))][rank] += row["found"]
    start, end = gathered.histogram_span
    return {"from": start, "to": end, "bins": bins}


def _checks(gathered: Gathered) -> list[Row]:
    """A row per check: what it found, or else whether it could be evaluated."""
    about = gathered.about_checks
    checks: dict[str, Row] = {}
    for row in gathered.check_results:
        if row["group_id"] is None:
            checks[row["check"]] = {
                "name": row["check"], "status": row["status"], "severity": row["severity"],
                "findings": row["findings"], "threshold": row["threshold"], "about": about.get(row["check"], ""),
            }  # fmt: skip
    order = ("found", "not evaluable", "clean")
    return sorted(
        checks.values(),
        key=lambda row: (order.index(row["status"]) if row["status"] in order else 3, severity_rank(row), row["name"]),
    )


def _not_evaluable(results: Sequence[Row]) -> list[Row]:
    """Groups whose reasons differ only in a number are listed together. The page of a group has its own reason."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in results:
        if row["status"] == "not evaluable":
            reason = row["reason"] or "no reason given"
            if row["group_id"] is None:
                reasons.setdefault((row["check"], reason), [])
            else:
                reasons.setdefault((row["check"], _NUMBER.sub("some", reason)), []).append(row["group_id"])
    return [
        {"check": check, "reason": reason, "groups": len(groups), "examples": sorted(groups)[:EXAMPLES]}
        for (check, reason), groups in sorted(reasons.items(), key=lambda item: (item[0][0], len(item[1])))
    ]


# --- the log and the runs -------------------------------------------------------------------------


def _log(gathered: Gathered) -> dict[str, Any]:
    latest = _latest_run(gathered.runs)
    cleaned = {row["log_partition"]: row["cleaned_to"] for row in latest}
    problems = sum(row["problems"] for row in gathered.log_partitions)
    columns = ("log_partition", "segment", "position", "log_offset", "size_bytes", "problem", "detail")
    shown = [[row[name] for name in columns] for row in gathered.log_problems[:LOG_PROBLEMS]]
    return {
        "partitions": [
            {**row, "cleaned_to": cleaned.get(row["log_partition"])}
            for row in sorted(gathered.log_partitions, key=lambda row: -row["bytes"])
        ],
        "problems": shown,
        "problems_left_out": max(0, problems - len(shown)),
    }


def _latest_run(runs: Sequence[Row]) -> list[Row]:
    last = max(runs, key=lambda row: row["started"] or 0, default=None)
    return [row for row in runs if last and row["run_id"] == last["run_id"]]


def _runs(runs: Sequence[Row]) -> dict[str, Any]:
    columns = (
        "path", "log_partition", "first_log_offset", "from_log_offset", "end_log_offset", "cleaned_to", "records",
        "problem",
    )  # fmt: skip
    latest = sorted(_latest_run(runs), key=lambda row: (row["problem"] is None, row["log_partition"] or 0))
    return {
        "runs": len({row["run_id"] for row in runs}),
        "rows": [[row[name] for name in columns] for row in latest[:RUN_ROWS]],
    }
