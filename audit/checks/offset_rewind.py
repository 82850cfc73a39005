"""Commits of a lower offset than the one before: records are read again."""

from __future__ import annotations

from collections.abc import Iterator

from kohort.audit.checks.kit.check import ERROR, HISTORY, WARNING, Check, Limits, Row, finding
from kohort.audit.checks.kit.gather import gather_steps
from kohort.audit.checks.kit.part import Part
from kohort.audit.checks.kit.words import count

CHECK = Check(
    "offset_rewind",
    ERROR,
    "Commits of a lower offset than the one before, and whether the old one was regained since.",
    "Someone reset the offsets, or two consumers commit for one partition: see who committed, and expect that records"
    " were processed twice.",
    {"records": 1},
    needs=(HISTORY,),
)


def find(part: Part, limits: Limits) -> Iterator[Row]:
    """Topics that were deleted and created again begin at offset 0; topic_recreated reports them."""
    steps = part.steps
    back = (steps.step <= -limits["records"]) & ~steps.differ("topic_id", "previous_topic_id")
    for hit in gather_steps(steps, back, -steps.step):
        lost = part.facts[hit.first["group_id"], hit.first["topic"], hit.first["partition"]]["unregained"]
        yield finding(
            CHECK,
            f"{count(hit.rows, 'commit')} went back, at most by {count(hit.value, 'record')} (from"
            f" {hit.worst['previous_offset']} to {hit.worst['offset']});"
            f" {'not regained where the log ends' if lost else 'regained since'}",
            severity=ERROR if lost else WARNING,
            **hit.place,
            member_id=hit.first["member_id"],
            generation=hit.first["group_generation"],
            value=hit.value,
        )
