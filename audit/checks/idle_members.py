"""Members that have nothing to do."""

from __future__ import annotations

from collections.abc import Iterator

from kohort.audit.checks.kit.check import HISTORY, INFO, Check, Limits, Row, finding
from kohort.audit.checks.kit.gather import gather_rows
from kohort.audit.checks.kit.part import Part
from kohort.audit.checks.kit.words import count, duration

CHECK = Check(
    "idle_members",
    INFO,
    "Generations with members that got no partition.",
    "Run fewer members, or give the topics more partitions, unless these stand by on purpose.",
    {"members": 1, "seconds": 60},
    needs=(HISTORY,),
)


def find(part: Part, limits: Limits) -> Iterator[Row]:
    idle = [
        row
        for row in part.rebalances
        if (row["idle_members"] or 0) >= limits["members"] and row["in_force_s"] >= limits["seconds"]
    ]
    for hit in gather_rows(idle, lambda row: float(row["idle_members"])):
        worst = hit.worst
        yield finding(
            CHECK,
            f"{count(hit.rows, 'generation')} with idle members; at most {worst['idle_members']} of"
            f" {worst['member_count']} had no partition, for {duration(worst['in_force_s'])}",
            **hit.place,
            generation=hit.first["generation"],
            value=hit.value,
        )
