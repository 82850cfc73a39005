"""Visible commits of one log partition as numpy columns, sorted by place and log offset.

A place is a group and a partition of a topic, given as one number. In place of its log offset a commit has its rank
among all commits by log offset. So place and rank fit into one number, and the commits of a place between two log
offsets are a range of rows.

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
    group: Any  # index into `groups`
    groups: pa.Array
    rank: Any  # rank by log offset among all commits
    by_offset: Any  # all log offsets in order: by_offset[rank] is the log offset
    first: Any  # whether it is the first commit of its place
    tombstone: Any
    offset: Any  # -1: a tombstone
    time: Any  # in microseconds

    @property
    def key(self) -> Any:
        return self.place << RANK_BITS | self.rank


def visible_commits(commits: pa.Table, intervals: pa.Table) -> tuple[Commits, Any]:
    """The visible commits, and the place of each ownership interval, numbered in the same way."""
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
    """Two numbers of 32 bits as one of 64 bits. A partition may be negative: clients write assignments as they like."""
    return first << 32 | second & 0xFFFFFFFF


def joined(first: pa.ChunkedArray, second: pa.ChunkedArray) -> pa.Array:
    """Both columns, one after the other, in one array."""
    kind = first.type.value_type if pa.types.is_dictionary(first.type) else first.type
    return pa.chunked_array([*first.cast(kind).chunks, *second.cast(kind).chunks], kind).combine_chunks()


def timestamps(us: Any, mask: Any = None) -> pa.Array:
    return pa.array(us, mask=mask).cast(pa.timestamp("us", "UTC"))
