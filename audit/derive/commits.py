"""Visible commits of one log partition as numpy columns, sorted so that what a place went through lies together.

A place is a group and a partition of a topic, as a number. A log offset counts by its rank among the commits: then
place and rank fit into one number, and a stretch of the log is a range of rows.

A commit is visible if it was made outside of a transaction, or in one that was committed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

VISIBLE = ("none", "committed")
RANK_BITS = 32


class Commits(NamedTuple):
    """Sorted by place and log offset."""

    rows: pa.Table
    place: Any
    group: Any  # as a number, the index into `groups`
    groups: pa.Array
    rank: Any  # by log offset, among all of them
    by_offset: Any  # their log offsets in order
    first: Any  # of its place
    tombstone: Any
    offset: Any  # -1 in tombstones
    time: Any  # in microseconds

    @property
    def key(self) -> Any:
        return self.place << RANK_BITS | self.rank


def visible_commits(commits: pa.Table, intervals: pa.Table) -> tuple[Commits, Any]:
    """And the places of the intervals, numbered alike."""
    visible = commits.filter(pc.is_in(commits["transaction"], pa.array(VISIBLE)))
    group, groups = codes(joined(visible["group_id"], intervals["group_id"]))
    topic, _ = codes(joined(visible["topic"], intervals["topic"]))
    partition = joined(visible["partition"], intervals["partition"]).to_numpy().astype(np.int64)
    of_group, _ = codes(pa.array(paired(group, topic)))
    place, _ = codes(pa.array(paired(of_group, partition)))
    count = len(visible)
    return _sorted(visible, place[:count], group[:count], groups), place[count:]


def _sorted(visible: pa.Table, place: Any, group: Any, groups: pa.Array) -> Commits:
    log_offset = visible["log_offset"].to_numpy()
    if np.all(log_offset[1:] >= log_offset[:-1]):
        order, rank, by_offset = np.argsort(place, kind="stable"), np.arange(len(place)), log_offset
    else:
        in_order = np.argsort(log_offset, kind="stable")
        rank = np.empty(len(place), np.int64)
        rank[in_order] = np.arange(len(place))
        order, by_offset = np.lexsort((rank, place)), log_offset[in_order]
    rows, place = visible.take(order), place[order]
    time = pc.if_else(rows["tombstone"], rows["record_time"], pc.coalesce(rows["commit_time"], rows["record_time"]))
    return Commits(
        rows, place, group[order], groups, rank[order], by_offset, np.diff(place, prepend=-1) != 0,
        rows["tombstone"].to_numpy(), rows["offset"].fill_null(-1).to_numpy(),
        time.cast(pa.timestamp("us")).cast(pa.int64()).to_numpy(),
    )  # fmt: skip


def codes(column: pa.Array) -> tuple[Any, pa.Array]:
    """Equal values as equal numbers, and the values by number. There must be no nulls."""
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), encoded.dictionary


def paired(first: Any, second: Any) -> Any:
    """Two numbers of 32 bits as one. A partition may be negative: assignments are bytes that some client wrote."""
    return first << 32 | second & 0xFFFFFFFF


def joined(first: pa.ChunkedArray, second: pa.ChunkedArray) -> pa.Array:
    """One after the other, in one array."""
    kind = first.type.value_type if pa.types.is_dictionary(first.type) else first.type
    return pa.chunked_array([*first.cast(kind).chunks, *second.cast(kind).chunks], kind).combine_chunks()


def timestamps(us: Any, mask: Any = None) -> pa.Array:
    return pa.array(us, mask=mask).cast(pa.timestamp("us", "UTC"))
