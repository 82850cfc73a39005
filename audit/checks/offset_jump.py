"""Commits that leap ahead: records may have been skipped."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kohort.audit.checks.kit.check import HISTORY, WARNING, Check, Limits, Row, finding
from kohort.audit.checks.kit.gather import gather_steps
from kohort.audit.checks.kit.part import Part
from kohort.audit.checks.kit.words import count

CHECK = Check(
    "offset_jump",
    WARNING,
    "Commits far further ahead than the usual step, beyond all that was committed before.",
    "Someone skipped records (a seek, a reset to the latest), or the group was far behind: see who committed then.",
    {"records": 10_000, "factor": 100, "commits": 10},
    needs=(HISTORY,),
)


def find(part: Part, limits: Limits) -> Iterator[Row]:
    """Regaining an offset from before a rewind is no jump. After a long pause, a longer step is no jump either."""
    steps = part.steps
    ahead = steps.numbers("offset") - np.maximum(steps.numbers("high"), steps.numbers("previous_offset"))
    leaps = (steps.step > 0) & (ahead >= limits["records"]) & ~steps.differ("topic_id", "previous_topic_id")
    if leaps.any():
        pauses = np.maximum(steps.since_before_ms / np.maximum(steps.usual("median_interval_ms"), 1), 1)
        leaps &= steps.usual("commits") >= limits["commits"]
        leaps &= ahead > limits["factor"] * np.maximum(steps.usual("median_step"), 1) * pauses
    for hit in gather_steps(steps, leaps, ahead):
        usual = part.facts[hit.first["group_id"], hit.first["topic"], hit.first["partition"]]["median_step"]
        yield finding(
            CHECK,
            f"{count(hit.rows, 'commit')} leapt ahead, at most by {count(hit.value, 'record')} (from"
            f" {hit.worst['previous_offset']} to {hit.worst['offset']}); the usual step is {usual:,}",
            **hit.place,
            member_id=hit.first["member_id"],
            generation=hit.first["group_generation"],
            value=hit.value,
        )
