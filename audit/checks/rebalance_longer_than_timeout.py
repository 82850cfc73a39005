"""Rebalances that took longer than their members were given to rejoin."""

from __future__ import annotations

from collections.abc import Iterator

from kohort.audit.checks.kit.check import HISTORY, JOIN_STARTS, WARNING, Check, Limits, Row, finding
from kohort.audit.checks.kit.gather import gather_rows
from kohort.audit.checks.kit.part import Part
from kohort.audit.checks.kit.words import count, duration

CHECK = Check(
    "rebalance_longer_than_timeout",
    WARNING,
    "Rebalances that took longer than the greatest rebalance timeout of their members.",
    "Nothing is read meanwhile: look for members that stay in their processing (max.poll.interval.ms) and for a leader"
    " that is slow to assign.",
    {"factor": 1},
    needs=(HISTORY, JOIN_STARTS),
)


def find(part: Part, limits: Limits) -> Iterator[Row]:
    slow = [row for row in part.rebalances if _took_ms(row) > limits["factor"] * (row["timeout_ms"] or 0) > 0]
    for hit in gather_rows(slow, _took_ms):
        worst = hit.worst
        trigger = part.named(worst["group_id"], worst["trigger"] or "")
        why = ", ".join(str(word) for word in (worst["cause"], trigger) if word)
        yield finding(
            CHECK,
            f"{count(hit.rows, 'rebalance')} over the timeout; the longest took {duration(hit.value / 1000)} of"
            f" {duration(worst['timeout_ms'] / 1000)} (generation {worst['generation']}{why and f', {why}'})",
            **hit.place,
            member_id=hit.first["trigger"] or None,
            generation=hit.first["generation"],
            value=hit.value,
        )


def _took_ms(row: Row) -> float:
    took = row["sync_ms"] if row["duration_ms"] is None else row["duration_ms"]
    return float(took or 0)
