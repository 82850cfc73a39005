"""The data for the drawings of one group, in a compact form. The page unpacks it when a reader opens the group."""

from __future__ import annotations

import base64
import json
import re
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kohort.audit.report.limits import FINDINGS_PER_GROUP, OFFSET_LINES, PARTITIONS
from kohort.audit.report.rows import Gathered, Row

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")
FINDING = (
    "check", "severity", "group_id", "topic", "partition", "member_id", "generation", "log_partition", "log_offset",
    "time", "until", "message",
)  # fmt: skip
GENERATION = (
    "generation", "time", "protocol", "cause", "trigger", "member_count", "joined", "left", "join_ms", "sync_ms",
    "duration_ms", "timeout_ms", "moved", "forced_moves", "avoidable_moves", "max_load", "min_load", "idle_members",
    "group_type",
)  # fmt: skip


def packed(detail: Mapping[str, Any]) -> str:
    return base64.b64encode(zlib.compress(compact(detail).encode(), 6)).decode()


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def by_group(rows: Iterable[Row]) -> dict[str, list[Row]]:
    grouped: dict[str, list[Row]] = {}
    for row in rows:
        grouped.setdefault(row["group_id"], []).append(row)
    return grouped


def finding_row(row: Row) -> list[Any]:
    return [row[name] for name in FINDING]


class Details:
    """The gathered rows by group."""

    def __init__(self, gathered: Gathered) -> None:
        self._groups = {row["group_id"]: row for row in gathered.groups}
        self._rebalances = by_group(gathered.rebalances)
        self._intervals = by_group(gathered.intervals)
        self._what_if = by_group(gathered.what_if)
        self._totals = by_group(gathered.what_if_totals)
        self._facts = by_group(gathered.facts)
        self._lines = by_group(gathered.lines)
        self._to_the_end = gathered.to_the_end
        self._findings = by_group(gathered.group_findings)
        self._counts = by_group(row for row in gathered.finding_counts if row["group_id"] is not None)
        self._share = gathered.share
        self._open = by_group(row for row in gathered.check_results if row["group_id"] is not None)

    def of(self, group_id: str) -> dict[str, Any]:
        drawn = self._rebalances.get(group_id, [])
        facts = self._facts.get(group_id, [])
        intervals = self._intervals.get(group_id, [])
        to_the_end = group_id in self._to_the_end
        findings = self._findings.get(group_id, [])[:FINDINGS_PER_GROUP]
        strip = _strip(intervals, drawn)
        found = sum(row["found"] for row in self._counts.get(group_id, []))
        return {
            "type": self._groups[group_id]["group_type"],
            "from": drawn[0]["time"] if drawn else 0,
            "to": _end(drawn, intervals, facts, to_the_end or not drawn),
            "generations": [[row[name] for name in GENERATION] for row in drawn],
            "generations_total": self._groups[group_id]["rebalances"],
            "centred": bool(drawn) and not to_the_end,
            **strip,
            "marks": _marks(findings, drawn),
            "findings": [finding_row(row) for row in findings],
            "findings_left_out": found - len(findings),
            "not_evaluable": [[row["check"], row["reason"]] for row in self._open.get(group_id, [])],
            "what_if": _what_if(self._totals.get(group_id, []), self._what_if.get(group_id, []), drawn),
            "share": self._share.get(group_id),
            **_offsets(facts, self._lines.get(group_id, [])),
        }


def _end(drawn: Sequence[Row], intervals: Sequence[Row], facts: Sequence[Row], to_the_end: bool) -> int:
    """The end of the time axis: the latest time in what is drawn."""
    times = [row["time"] for row in drawn] + [row["start_time"] for row in intervals]
    if to_the_end:
        times += [row["last_time"] for row in facts if row["last_time"] is not None]
        times += [row["end_time"] for row in intervals if row["end_time"] is not None]
    return max(times, default=0)


# --- owners ---------------------------------------------------------------------------------------


def _strip(intervals: Sequence[Row], drawn: Sequence[Row]) -> dict[str, Any]:
    """Bars of ownership. A bar reaches from the generation in which it began to the first one without it."""
    places = sorted({(row["topic"], row["partition"]) for row in intervals})
    rows = {place: index for index, place in enumerate(places[:PARTITIONS])}
    members: dict[str, int] = {}
    named: list[Row] = []
    bars = []
    starts = [row["log_offset"] for row in drawn]
    for row in sorted(intervals, key=lambda row: (row["start_log_offset"], row["topic"], row["partition"])):
        who = row["instance_id"] or row["member_id"]
        if who not in members:
            members[who] = len(members)
            named.append(_named(row))
        place = rows.get((row["topic"], row["partition"]))
        if place is not None:
            bars.append(
                [place, members[who], max(0, bisect_right(starts, row["start_log_offset"]) - 1),
                 None if row["end_log_offset"] is None else bisect_left(starts, row["end_log_offset"]),
                 row["start_time"], row["end_time"], row["ended_by"], row["revoking_since"]]
            )  # fmt: skip
    return {
        "partitions": places[:PARTITIONS],
        "partitions_left_out": max(0, len(places) - PARTITIONS),
        "members": named,
        "intervals": bars,
        "intervals_left_out": max((row["of"] for row in intervals), default=0) - len(intervals),
    }


def _named(row: Row) -> Row:
    name = row["instance_id"] or row["member_id"]
    client = row["client_id"]
    label = name if not client or name.startswith(client) else f"{client} · {name}"
    return {"name": label, "label": _shortened(label), "host": row["client_host"]}


def _shortened(name: str) -> str:
    """A member id with only the first digits of the UUID at its end; they are enough to tell members apart."""
    if uuid := _UUID.search(name):
        name = f"{name[: uuid.start()]}{uuid[0][:8]}"
    return name if len(name) <= 48 else f"{name[:30]}…{name[-12:]}"


def _marks(findings: Sequence[Row], drawn: Sequence[Row]) -> list[Row]:
    """Marks for findings that lie in the generations that are drawn."""
    numbers = {row["generation"]: index for index, row in enumerate(drawn)}
    if not drawn:
        return []
    marks = []
    for row in findings:
        index = numbers.get(row["generation"])
        time = row["time"]
        if index is None and (time is None or time < drawn[0]["time"]):
            continue
        marks.append(
            {"check": row["check"], "severity": row["severity"], "message": row["message"], "index": index,
             "time": time if time is not None else drawn[index or 0]["time"]}
        )  # fmt: skip
    return marks


# --- moves and offsets ----------------------------------------------------------------------------


def _what_if(totals: Sequence[Row], rows: Sequence[Row], drawn: Sequence[Row]) -> dict[str, Any]:
    moved = {(row["log_offset"], row["assignor"]): row["moved"] for row in rows}
    own = [row for row in totals if row["assignor"] is None]
    return {
        "moved": own[0]["moved"] if own else 0,
        "gap": own[0]["gap"] if own else None,
        "rebalances": max((row["rebalances"] for row in totals if row["assignor"] is not None), default=0),
        "totals": [
            {name: row[name] for name in ("assignor", "moved", "interrupted", "gap", "own")}
            for assignor in ASSIGNORS
            for row in totals
            if row["assignor"] == assignor
        ],
        "per": {name: [moved.get((row["log_offset"], name)) for row in drawn] for name in ASSIGNORS} if totals else {},
    }


def offset_lines(facts: Iterable[Row]) -> list[Row]:
    """The partitions whose offsets are drawn: those with most rewinds, then those with most commits."""
    committed = [row for row in facts if row["commits"]]
    return sorted(committed, key=lambda row: (-row["rewinds"], -row["commits"], row["topic"], row["partition"]))[
        :OFFSET_LINES
    ]


def _offsets(facts: Sequence[Row], lines: Sequence[Row]) -> dict[str, Any]:
    return {
        "offsets": [
            {"topic": line["topic"], "partition": line["partition"], "commits": line["commits"],
             "rewound": line["rewinds"], "points": line["points"], "rewinds": line["back"]}
            for line in lines
        ],
        "offsets_left_out": sum(bool(row["commits"]) for row in facts) - len(lines),
    }  # fmt: skip
