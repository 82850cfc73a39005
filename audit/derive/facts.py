"""The table partition_facts: a row about each partition that a group has committed to or owned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kohort.audit.derive.commits import Commits, timestamps

NONE = -1


def facts_of(commits: Commits, steps: pa.Table, intervals: pa.Table, owned: Any) -> pa.Table:
    """partition_facts, without log_partition: first the places with commits, then the places that were only owned."""
    starts = np.flatnonzero(commits.first)
    places = pa.array(commits.place[starts])
    owners, owned_places = _last_owners(intervals, owned)
    at = pc.index_in(places, owned_places)
    facts = {name: commits.rows[name].take(starts) for name in ("group_id", "topic", "partition")}
    facts |= _offset_facts(commits, starts) | _step_facts(commits, steps, starts)
    facts |= {name: owners[name].take(at) for name in ("owner", "owner_since")}
    only_owned = owners.filter(pc.invert(pc.is_in(owned_places, places)))
    zero = np.zeros(len(only_owned), np.int64)
    rest = {name: only_owned[name] for name in only_owned.column_names}
    rest |= {"commits": zero, "tombstones": zero, "rewinds": zero, "unregained": zero.astype(bool)}
    return pa.concat_tables([pa.table(facts), pa.table(rest)], promote_options="permissive")


def _offset_facts(commits: Commits, starts: Any) -> dict[str, Any]:
    rows, real = np.arange(len(commits.place)), ~commits.tombstone
    first = _each(np.minimum, np.where(real, rows, len(rows)), starts)
    last = _each(np.maximum, np.where(real, rows, NONE), starts)
    none = last == NONE
    first, last = np.where(none, 0, first), np.where(none, 0, last)
    deleted = commits.tombstone[np.append(starts[1:], len(rows))[: len(starts)] - 1]  # empty if there are no commits
    greatest = _each(np.maximum, commits.offset, starts)
    known = commits.rows["topic_id"].is_valid().to_numpy()
    told = _each(np.maximum, np.where(known, rows, NONE), starts)
    return {
        "topic_id": commits.rows["topic_id"].take(pa.array(told, mask=told == NONE)),
        "commits": _each(np.add, real.astype(np.int64), starts),
        "tombstones": _each(np.add, commits.tombstone.astype(np.int64), starts),
        "first_time": timestamps(commits.time[first], none),
        "last_time": timestamps(commits.time[last], none),
        "first_offset": pa.array(commits.offset[first], mask=none),
        "last_offset": pa.array(commits.offset[last], mask=deleted),
        "max_offset": pa.array(greatest, mask=none),
        "unregained": ~deleted & (commits.offset[last] < greatest),
    }


def _step_facts(commits: Commits, steps: pa.Table, starts: Any) -> dict[str, Any]:
    place = np.cumsum(commits.first) - 1
    step = steps["step"].fill_null(0).to_numpy()
    back, forward = step < 0, step > 0
    rewinds = _each(np.add, back.astype(np.int64), starts)
    largest = -_each(np.minimum, step, starts)
    beside = steps["previous_time"].is_valid().to_numpy() & ~commits.tombstone
    passed_ms = (commits.time[beside] - np.roll(commits.time, 1)[beside]) // 1000
    return {
        "rewinds": rewinds,
        "largest_rewind": pa.array(largest, mask=rewinds == 0),
        "median_step": _medians(step[forward], place[forward], len(starts)),
        "median_interval_ms": _medians(passed_ms, place[beside], len(starts)),
    }


def _each(function: np.ufunc, values: Any, starts: Any) -> Any:
    """Apply the function to the rows of each place."""
    return function.reduceat(values, starts) if len(starts) else values


def _medians(values: Any, place: Any, count: int) -> pa.Array:
    """The median of each of `count` places, the lower of two middle values; null for a place without values."""
    ordered = values[np.lexsort((values, place))]
    counts = np.bincount(place, minlength=count)
    middle = np.cumsum(counts) - counts + (counts - 1) // 2
    some = counts > 0
    medians = np.zeros(count, np.int64)
    medians[some] = ordered[middle[some]]
    return pa.array(medians, mask=~some)


def _last_owners(intervals: pa.Table, owned: Any) -> tuple[pa.Table, pa.Array]:
    """For every place that was ever owned: its last owner at the end of the log, or nobody."""
    ended = intervals["end_log_offset"].is_valid().to_numpy()
    order = np.lexsort(
        (intervals["start_log_offset"].to_numpy(), ~ended, owned)
    )  # an interval that has not ended comes last
    last = order[np.diff(owned[order], append=NONE) != 0]
    rows, nobody = intervals.take(last), pa.array(ended[last])
    columns = {name: rows[name] for name in ("group_id", "topic", "partition")}
    columns["owner"] = pc.if_else(nobody, None, rows["member_id"])
    columns["owner_since"] = pc.if_else(nobody, None, rows["start_time"])
    return pa.table(columns), pa.array(owned[last])
