"""Offsets that were deleted while a member owned the partition."""

from __future__ import annotations

from collections.abc import Iterator

from kohort.audit.checks.kit.check import WARNING, Check, Limits, Row, finding
from kohort.audit.checks.kit.gather import gather_steps
from kohort.audit.checks.kit.part import Part
from kohort.audit.checks.kit.words import count

CHECK = Check(
    "tombstone_for_owned_partition",
    WARNING,
    "Committed offsets that were deleted while a member owned the partition.",
    "If the topic was deleted, this is how it should be; else the owner will start at auto.offset.reset after its next"
    " rebalance: see who deletes offsets, and the retention of offsets.",
)


def find(part: Part, _: Limits) -> Iterator[Row]:
    steps = part.steps
    for hit in gather_steps(steps, steps.tombstone & steps.owned):
        owner = part.named(hit.first["group_id"], hit.first["owner"])
        was = hit.first["previous_offset"]
        yield finding(
            CHECK,
            f"{count(hit.rows, 'deletion')} of the committed offset while {owner} owned the partition"
            f"{'' if was is None else f'; it was {was}'}",
            **hit.place,
            member_id=hit.first["owner"],
            generation=hit.first["group_generation"],
            value=float(hit.rows),
        )
