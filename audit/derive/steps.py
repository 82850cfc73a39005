"""The table commit_steps: each visible commit with the one before it, the owner of the partition, and the generation.

numpy handles all commits of a log partition at once, because commits are nearly all of the log.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kohort.audit.derive.commits import RANK_BITS, Commits, codes, joined, timestamps

IN_FORCE = (2, 3, 11)  # types of records with the generation or epoch of a group


def steps_of(commits: Commits, generations: pa.Table, intervals: pa.Table, owned: Any) -> pa.Table:
    """commit_steps, without log_partition. `owned`: the place of each interval."""
    rows, offset = commits.rows, commits.offset
    alone = commits.first | np.concatenate([[True], commits.tombstone[:-1]])[: len(offset)]
    previous, previous_time = np.roll(offset, 1), np.roll(commits.time, 1)
    high = _greatest_before(commits)
    before = pa.array(np.arange(-1, len(offset) - 1), mask=alone)
    generation, group_type = _in_force(commits, generations)
    return pa.table(
        {
            "log_offset": rows["log_offset"],
            "group_id": rows["group_id"],
            "topic": rows["topic"],
            "partition": rows["partition"],
            "time": timestamps(commits.time),
            "tombstone": rows["tombstone"],
            "offset": rows["offset"],
            "previous_offset": pa.array(previous, mask=alone),
            "previous_time": timestamps(previous_time, alone),
            "previous_topic_id": rows["topic_id"].take(before),
            "topic_id": rows["topic_id"],
            "step": pa.array(offset - previous, mask=alone | commits.tombstone),
            "high": pa.array(high, mask=high < 0),
            "metadata": rows["metadata"],
            "member_id": rows["member_id"],
            "generation": rows["generation"],
            "owner": _owners(commits, intervals, owned),
            "group_generation": generation,
            "group_type": group_type,
        }
    )


def _greatest_before(commits: Commits) -> Any:
    """The greatest offset committed for the place before each commit; -1 if there is none.

    Offsets are replaced by their ranks, so that place and rank fit into one number.
    """
    if not len(commits.place):
        return commits.offset
    values, rank = np.unique(commits.offset, return_inverse=True)
    greatest = np.maximum.accumulate(commits.place << RANK_BITS | rank)
    before = values[np.roll(greatest, 1) & (1 << RANK_BITS) - 1]
    return np.where(commits.first, -1, before)


# --- who owned it ---------------------------------------------------------------------------------


def _owners(commits: Commits, intervals: pa.Table, owned: Any) -> pa.Array:
    """The owner's member id at each commit. If there are two: the committer if it is one of them, else the later."""
    count = len(commits.place)
    if not len(intervals) or not count:
        return pa.nulls(count, pa.string())
    member, names = codes(joined(commits.rows["member_id"], intervals["member_id"]).fill_null(""))
    by_start = np.argsort(intervals["start_log_offset"].to_numpy(), kind="stable")
    low, high = _stretches(commits, intervals, owned)
    rows, which = _ranges(low[by_start], high[by_start])
    owner = member[count:][by_start][which]
    painted = np.full(count, -1, np.int64)
    painted[rows] = owner
    own = member[:count][rows] == owner
    painted[rows[own]] = owner[own]
    return names.take(pa.array(painted, mask=painted < 0))


def _stretches(commits: Commits, intervals: pa.Table, owned: Any) -> tuple[Any, Any]:
    """The first and the last row of the commits that each interval covers."""
    starts = intervals["start_log_offset"].to_numpy()
    ends = intervals["end_log_offset"].fill_null(np.iinfo(np.int64).max).to_numpy()
    key, place = commits.key, owned << RANK_BITS
    low = np.searchsorted(key, place | np.searchsorted(commits.by_offset, starts))
    return low, np.searchsorted(key, place | np.searchsorted(commits.by_offset, ends))


def _ranges(low: Any, high: Any) -> tuple[Any, Any]:
    """All numbers of all ranges from `low` to `high`, and the index of each number's range."""
    counts = np.maximum(high - low, 0)
    which = np.repeat(np.arange(len(low)), counts)
    begins = np.cumsum(counts) - counts
    return np.arange(counts.sum()) - begins[which] + low[which], which


# --- in which generation --------------------------------------------------------------------------


def _in_force(commits: Commits, generations: pa.Table) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Generation and type of the group by its last record before each commit; null if that record deleted the group."""
    said = generations.filter(pc.is_in(generations["record_type"], pa.array(IN_FORCE, pa.int32())))
    number = pc.index_in(said["group_id"].cast(commits.groups.type), commits.groups)
    said = said.append_column("number", number).filter(pc.is_valid(number))
    said = said.sort_by([("number", "ascending"), ("log_offset", "ascending")])
    rank = np.searchsorted(commits.by_offset, said["log_offset"].to_numpy())
    key = said["number"].to_numpy().astype(np.int64) << RANK_BITS | rank
    found = np.searchsorted(key, commits.group << RANK_BITS | commits.rank, side="right") - 1
    valid = found >= 0
    valid[valid] = key[found[valid]] >> RANK_BITS == commits.group[valid]
    valid[valid] = ~said["tombstone"].to_numpy()[found[valid]]
    rows = pa.array(found, mask=~valid)
    return said["generation"].take(rows), said["group_type"].take(rows)
