"""Committed offsets that are not in the topic."""

from __future__ import annotations

from collections.abc import Iterator

from kohort.audit.checks.kit.check import BASELINE, ERROR, Check, Limits, Row, finding
from kohort.audit.checks.kit.part import Part

CHECK = Check(
    "committed_beyond_end_or_below_start",
    ERROR,
    "Committed offsets above the end or below the start of their partition, as the broker tells them.",
    "The consumer will be out of range and start at auto.offset.reset: reset the group's offsets on purpose, and see"
    " whether the topic lost records or is not the one that was committed for.",
    needs=(BASELINE,),
)


def find(part: Part, _: Limits) -> Iterator[Row]:
    if part.world.baseline is None:
        return
    partitions = part.world.baseline.partitions
    for (group_id, topic, partition), row in part.facts.items():
        start, end = partitions.get((topic, partition), (None, None))
        offset = row["last_offset"]
        if offset is None or start is None or end is None or start <= offset <= end:
            continue
        where = f"ends at {end}" if offset > end else f"starts at {start}"
        yield finding(
            CHECK,
            f"offset {offset} is committed; {topic}-{partition} {where}",
            group_id=group_id,
            topic=topic,
            partition=partition,
            time=row["last_time"],
            value=float(offset - end if offset > end else start - offset),
        )
