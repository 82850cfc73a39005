"""ownership_intervals by place. There may be many; only those that a check looks at become Python rows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import cached_property
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from kohort.audit.checks.kit.check import Row
from kohort.audit.checks.kit.steps import Array
from kohort.audit.derive.commits import codes, paired

FOREVER = np.iinfo(np.int64).max
RANK_BITS = 32

Place: TypeAlias = tuple[str, str, int]  # group, topic, partition


class Intervals:
    def __init__(self, table: pa.Table) -> None:
        self._unsorted = table

    def of(self, place: Place) -> list[Row]:
        """The intervals of a place, by beginning. `ends`: log offset of the end, very great if it has not ended."""
        if place not in self._ranges:
            return []
        start, end = self._ranges[place]
        rows: list[Row] = self._sorted.slice(start, end - start).to_pylist()
        for row in rows:
            row["ends"] = FOREVER if row["end_log_offset"] is None else row["end_log_offset"]
        return rows

    def has_owner(self, place: Place, log_offset: int) -> bool:
        """Whether any member owned the place at this log offset."""
        if place not in self._ranges:
            return False
        start, end = self._ranges[place]
        begun = int(np.searchsorted(self._begins[start:end], log_offset, "right"))
        return begun > 0 and bool(self._latest_ends[start + begun - 1] > log_offset)

    def first_times(self) -> Iterator[tuple[Place, datetime]]:
        """When each place first had an owner."""
        firsts = self._sorted["start_time"].take(pa.array(self._starts)).to_pylist()
        return zip(self._ranges, firsts, strict=True)

    def open(self) -> list[Row]:
        """The intervals that have not ended at the end of the log."""
        rows = self._sorted.filter(self._sorted["end_log_offset"].is_null())
        made: list[Row] = rows.select(["group_id", "topic", "partition", "member_id"]).to_pylist()
        return made

    def shared(self) -> list[Place]:
        """Places with an interval that begins before all earlier ones of the place have ended."""
        overlaps = ~self._is_first & (self._begins < np.roll(self._latest_ends, 1))
        places = list(self._ranges)
        return [places[number] for number in np.unique((np.cumsum(self._is_first) - 1)[overlaps]).tolist()]

    @cached_property
    def _begins(self) -> Array:
        return self._sorted["start_log_offset"].to_numpy()

    @cached_property
    def _latest_ends(self) -> Array:
        """For each interval: the greatest end so far in its place. Ends are ranks, to fit beside the place."""
        values, rank = np.unique(self._sorted["end_log_offset"].fill_null(FOREVER).to_numpy(), return_inverse=True)
        place = np.cumsum(self._is_first) - 1
        return values[np.maximum.accumulate(place << RANK_BITS | rank) & (1 << RANK_BITS) - 1]

    @cached_property
    def _codes(self) -> Array:
        group, _ = codes(self._unsorted["group_id"].combine_chunks())
        topic, _ = codes(self._unsorted["topic"].combine_chunks())
        both, _ = codes(pa.array(paired(group, topic)))
        return paired(both, self._unsorted["partition"].to_numpy().astype(np.int64))

    @cached_property
    def _order(self) -> Array:
        member, _ = codes(self._unsorted["member_id"].combine_chunks())
        return np.lexsort((member, self._unsorted["start_log_offset"].to_numpy(), self._codes))

    @cached_property
    def _sorted(self) -> pa.Table:
        return self._unsorted.take(pa.array(self._order)) if len(self._unsorted) else self._unsorted

    @cached_property
    def _is_first(self) -> Array:
        """Whether each interval is the first of its place."""
        return np.diff(self._codes[self._order], prepend=-1) != 0 if len(self._unsorted) else np.zeros(0, bool)

    @cached_property
    def _starts(self) -> Array:
        return np.flatnonzero(self._is_first)

    @cached_property
    def _ranges(self) -> dict[Place, tuple[int, int]]:
        firsts = self._sorted.select(["group_id", "topic", "partition"]).take(pa.array(self._starts, pa.int64()))
        places = zip(*(column.to_pylist() for column in firsts.columns), strict=True)
        ends = np.append(self._starts[1:], len(self._sorted))[: len(self._starts)]
        return dict(zip(places, zip(self._starts.tolist(), ends.tolist(), strict=True), strict=True))
