"""What the time machine asks about share groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

Row = Mapping[str, Any]


def assigned_at(members: Iterable[Row], at: datetime) -> Iterator[tuple[str, int, Row]]:
    """Topic, partition and row of share_members, for each partition that a member was assigned at that moment."""
    for row in members:
        if row["start_time"] <= at and (row["end_time"] is None or row["end_time"] > at):
            for one in row["partitions"]:
                yield one["topic"] or one["topic_id"], one["partition"], row


def progress_of(steps: Iterable[Row]) -> list[Row]:
    """Rows of share_steps that say where the start offset was: the first with each start offset, and tombstones."""
    found: list[Row] = []
    last: dict[tuple[str, int], int | None] = {}
    for row in sorted(steps, key=lambda row: row["log_offset"]):
        topic, start = row["topic"] or row["topic_id"], row["start_offset"]
        if row["tombstone"] or (topic, row["partition"]) not in last or last[topic, row["partition"]] != start:
            found.append({**row, "topic": topic})
        last[topic, row["partition"]] = start
    return found
