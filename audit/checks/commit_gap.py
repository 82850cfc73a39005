"""Owned partitions without a commit for far longer than usual."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kohort.audit.checks.kit.check import HISTORY, WARNING, Check, Limits, Row, finding
from kohort.audit.checks.kit.gather import gather_steps
from kohort.audit.checks.kit.part import Part
from kohort.audit.checks.kit.words import between, count, duration
from kohort.audit.tables import PARTITION_FACTS

CHECK = Check(
    "commit_gap",
    WARNING,
    "No commit for a partition for far longer than usual, though the same member owned it all the time.",
    "Unless the topic was silent: the owner is stuck, or commits fail; look at its log at that time.",
    {"minutes": 10, "factor": 20, "commits": 10},
    needs=(HISTORY,),
)


def find(part: Part, limits: Limits) -> Iterator[Row]:
    yield from _between_commits(part, limits)
    yield from _at_the_end(part, limits)


def _between_commits(part: Part, limits: Limits) -> Iterator[Row]:
    """Gaps between two commits. A partition with fewer commits than `commits` has no usual interval."""
    steps = part.steps
    silent = steps.owned & ~steps.tombstone & (steps.since_before_ms >= limits["minutes"] * 60_000)
    if silent.any():
        silent &= steps.usual("commits") >= limits["commits"]
        silent &= steps.since_before_ms >= limits["factor"] * steps.usual("median_interval_ms")
    suspects = np.flatnonzero(silent)
    for number, row in zip(suspects.tolist(), steps.table.take(suspects).to_pylist(), strict=True):
        silent[number] = _was_owned_throughout(part, row)
    for hit in gather_steps(steps, silent, steps.since_before_ms):
        owner = part.named(hit.worst["group_id"], hit.worst["owner"])
        usual_ms = part.facts[hit.first["group_id"], hit.first["topic"], hit.first["partition"]]["median_interval_ms"]
        yield finding(
            CHECK,
            f"{count(hit.rows, 'time')} no commit for up to {duration(hit.value / 1000)} though"
            f" {owner} owned the partition; usual are {duration(usual_ms / 1000)}",
            **hit.place | {"time": hit.first["previous_time"]},
            member_id=hit.first["owner"],
            generation=hit.first["group_generation"],
            value=hit.value / 1000,
        )


def _was_owned_throughout(part: Part, row: Row) -> bool:
    """Whether the same member owned the partition from the previous commit on."""
    return any(
        one["member_id"] == row["owner"]
        and one["start_log_offset"] <= row["log_offset"] < one["ends"]
        and one["start_time"] <= row["previous_time"]
        for one in part.intervals.of((row["group_id"], row["topic"], row["partition"]))
    )


def _at_the_end(part: Part, limits: Limits) -> Iterator[Row]:
    """Gaps from the last commit to the end of the log."""
    if (end_time := part.world.end_time) is None:
        return
    facts = part.table(PARTITION_FACTS.name)
    before = pa.scalar(end_time - timedelta(minutes=limits["minutes"]), facts["last_time"].type)
    owned = facts.filter(pc.and_(facts["owner"].is_valid(), pc.greater_equal(facts["commits"], limits["commits"])))
    for row in owned.filter(pc.less_equal(owned["last_time"], before)).to_pylist():
        silent_s = between(row["last_time"], end_time)
        usual_s = (row["median_interval_ms"] or 0) / 1000
        if silent_s >= limits["factor"] * usual_s and row["owner_since"] <= row["last_time"]:
            owner = part.named(row["group_id"], row["owner"])
            yield finding(
                CHECK,
                f"no commit in the last {duration(silent_s)} of the log though {owner} owns the partition;"
                f" usual are {duration(usual_s)}",
                group_id=row["group_id"],
                topic=row["topic"],
                partition=row["partition"],
                member_id=row["owner"],
                time=row["last_time"],
                value=silent_s,
            )
