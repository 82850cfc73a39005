"""Members with far more partitions than others."""

from __future__ import annotations

from collections.abc import Iterator

from kohort.audit.checks.kit.check import HISTORY, WARNING, Check, Limits, Row, finding
from kohort.audit.checks.kit.gather import gather_rows
from kohort.audit.checks.kit.part import Part
from kohort.audit.checks.kit.words import count, duration

CHECK = Check(
    "imbalance",
    WARNING,
    "Generations in which the member with most partitions has far more than its share.",
    "With several topics the range assignor gives most to the first members: see what others would do in the report's"
    " what-if, and try cooperative-sticky, or uniform where the broker assigns (group.remote.assignor); members with"
    " different subscriptions cannot always be balanced.",
    {"factor": 1.5, "partitions": 2, "seconds": 60},
    needs=(HISTORY,),
)


def find(part: Part, limits: Limits) -> Iterator[Row]:
    """A generation that is soon followed by the next one, as in a cooperative rebalance, does not count."""
    lopsided = [
        row
        for row in part.rebalances
        if row["max_load"] is not None
        and row["in_force_s"] >= limits["seconds"]
        and row["max_load"] - row["min_load"] >= limits["partitions"]
        and _times_its_share(row) >= limits["factor"]
    ]
    for hit in gather_rows(lopsided, _times_its_share):
        worst = hit.worst
        yield finding(
            CHECK,
            f"{count(hit.rows, 'generation')} out of balance; at worst one member of {worst['member_count']} had"
            f" {worst['max_load']} of {worst['partition_count']} partitions and another {worst['min_load']}, for"
            f" {duration(worst['in_force_s'])}{_by_assignor(worst)}",
            **hit.place,
            generation=hit.first["generation"],
            value=hit.value,
        )


def _times_its_share(row: Row) -> float:
    return float(row["max_load"] * row["member_count"] / max(row["partition_count"], 1))


def _by_assignor(row: Row) -> str:
    """A KIP-848 group whose members do not agree on an assignor, or name none, has none in the log."""
    return f" ({row['protocol']})" if row["protocol"] else ""
