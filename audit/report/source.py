"""Scans the tables for the report, with Arrow: it takes a tenth of the time that Spark takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

Place = tuple[str, str, int]  # group, topic, partition
Windows = Mapping[str, tuple[int, int]]
SEPARATOR = "\x00"
SUMS = {
    "bytes": ("size_bytes", "sum"), "batches": ([], "count_all"), "records": ("record_count", "sum"),
    "first": ("log_offset", "min"), "last": ("last_log_offset", "max"), "problems": ("problem", "count"),
}  # fmt: skip
TOGETHER = {"first": "min", "last": "max"}  # how the numbers of two batches of rows become one; all others are added
FRUGAL: Any = {"batch_readahead": 2, "fragment_readahead": 2}  # Arrow would read ahead by hundreds of MB
SEGMENT = ["log_partition", "segment", "codec"]


class Source:
    """The tables, by name."""

    def __init__(self, datasets: Mapping[str, ds.Dataset]) -> None:
        self._datasets = datasets

    def table(self, name: str, columns: Sequence[str], groups: Sequence[str] | None = None) -> pa.Table:
        """Whole columns, or only the rows of some groups."""
        wanted = None if groups is None else pc.field("group_id").isin(list(groups))
        return self._datasets[name].to_table(columns=list(columns), filter=wanted, **FRUGAL)

    def intervals(self, columns: Sequence[str], windows: Windows) -> pa.Table:
        """Ownership intervals that overlap the window of their group, the part of the log that is drawn."""
        table = self.table("ownership_intervals", columns, list(windows))
        which = pc.index_in(table["group_id"], pa.array(list(windows), pa.string()))
        first, last = (pa.array([bounds[end] for bounds in windows.values()], pa.int64()).take(which) for end in (0, 1))
        began = pc.less_equal(table["start_log_offset"], last)
        goes_on = pc.fill_null(pc.greater(table["end_log_offset"], first), True)
        return table.filter(pc.and_(began, goes_on))

    def steps(self, columns: Sequence[str], places: Sequence[Place], one_in: int) -> pa.Table:
        """Commits for these partitions: all rewinds, and about one in `one_in` of the others.

        The table is read batch by batch, because it may be very large.
        """
        dataset = self._datasets["commit_steps"]
        wanted = pa.array([SEPARATOR.join(map(str, place)) for place in places], pa.string())
        groups = sorted({group_id for group_id, _, _ in places})
        in_groups = pc.field("group_id").isin(groups) & ~pc.field("tombstone") & pc.field("offset").is_valid()
        kept = [
            batch.filter(_of_places(batch, wanted) & _sampled(batch, one_in))
            for batch in dataset.to_batches(columns=list(columns), filter=in_groups, **FRUGAL)
        ]
        return pa.Table.from_batches(kept, pa.schema([dataset.schema.field(name) for name in columns]))

    def segments(self) -> pa.Table:
        """Sums over the batches of each segment and codec."""
        columns = [*SEGMENT, *(column for column, _ in SUMS.values() if column)]
        names = [*SEGMENT, *SUMS]
        sums = [
            pa.Table.from_batches([batch]).group_by(SEGMENT).aggregate(list(SUMS.values())).rename_columns(names)
            for batch in self._datasets["log_batches"].to_batches(columns=columns, **FRUGAL)
            if len(batch)
        ]
        if not sums:
            sums = [self._datasets["log_batches"].schema.empty_table().group_by(SEGMENT).aggregate(list(SUMS.values()))]
            sums = [sums[0].rename_columns(names)]
        whole = pa.concat_tables(sums).group_by(SEGMENT).aggregate([(name, TOGETHER.get(name, "sum")) for name in SUMS])
        return whole.rename_columns(names)

    def problems(self, columns: Sequence[str], limit: int) -> pa.Table:
        """Batches that could not be read."""
        damaged = self._datasets["log_batches"].scanner(columns=list(columns), filter=pc.field("problem").is_valid())
        return damaged.head(limit)


def _of_places(batch: pa.RecordBatch, wanted: pa.Array) -> Any:
    parts = (batch["group_id"], batch["topic"], batch["partition"].cast(pa.string()))
    return pc.is_in(pc.binary_join_element_wise(*parts, SEPARATOR), wanted).to_numpy(zero_copy_only=False)


def _sampled(batch: pa.RecordBatch, one_in: int) -> Any:
    """A sample by a hash of the log offset. Every n-th commit may always be for the same partition."""
    back = pc.fill_null(pc.less(batch["step"], 0), False).to_numpy(zero_copy_only=False)
    mixed = (batch["log_offset"].to_numpy().astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)
    return back | (mixed % np.uint64(one_in) == 0)
