"""How far share groups have come: the tables share_steps and share_partitions, from the records of share_states.

A share partition is a group and a partition of a topic. All its records are in one log partition. numpy compares all
records with the ones before them; the final state of each share partition is put together in share_window.py.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kohort.audit.derive.commits import codes, paired
from kohort.audit.derive.share_window import Window, window_of
from kohort.coordinator.share_state.headers import Cause
from kohort.protocol.share_state_records import SHARE_SNAPSHOT

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4  # states of records, as they are written
NONE: Final = -1
NOT_DECIDED: Final = -1  # a start offset that is not known yet, or as it was before


class ShareRows(NamedTuple):
    """Rows of share_states, sorted by share partition and log offset."""

    rows: pa.Table
    place: Any  # the share partition as a number
    first: Any  # whether it is the first row of its share partition
    snapshot: Any
    tombstone: Any
    start: Any  # the start offset from this row on; NONE: not decided
    batch_row: Any  # of each batch: the row
    batches: Any  # numpy columns: first, last, state, deliveries


def share_rows(states: pa.Table) -> ShareRows:
    group, _ = codes(states["group_id"].combine_chunks())
    topic, _ = codes(states["topic_id"].combine_chunks())
    partition = states["partition"].to_numpy().astype(np.int64)
    of_group, _ = codes(pa.array(paired(group, topic)))
    place, _ = codes(pa.array(paired(of_group, partition)))
    order = np.lexsort((states["log_offset"].to_numpy(), place))
    rows, place = states.take(pa.array(order)).combine_chunks(), place[order]
    first = np.diff(place, prepend=NONE) != 0
    snapshot = rows["record_type"].to_numpy() == SHARE_SNAPSHOT
    tombstone = rows["tombstone"].to_numpy(zero_copy_only=False)
    batch_row, batches = _batches(rows["batches"])
    said = rows["start_offset"].fill_null(NOT_DECIDED).to_numpy()
    start = _in_force(said, first | tombstone | snapshot)
    return ShareRows(rows, place, first, snapshot, tombstone, start, batch_row, batches)


def _batches(column: pa.ChunkedArray) -> tuple[Any, dict[str, Any]]:
    lists = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    items = lists.flatten()
    names = ("first", "last", "state", "deliveries")
    told = {name: items.field(name).to_numpy(zero_copy_only=False).astype(np.int64) for name in names}
    return pc.list_parent_indices(lists).to_numpy(zero_copy_only=False).astype(np.int64), told


def _in_force(said: Any, anew: Any) -> Any:
    """What was said last, in rows that say nothing themselves. `anew`: rows that do not go on from those before."""
    rows = np.arange(len(said))
    last = np.maximum.accumulate(np.where((said != NOT_DECIDED) | anew, rows, 0)) if len(said) else rows
    return said[last]


# --- share_steps -----------------------------------------------------------------------------------


def share_steps(share: ShareRows) -> pa.Table:
    """share_steps, without log_partition."""
    rows, count = share.rows, len(share.place)
    before = np.roll(share.start, 1)
    known = ~share.first & (share.start != NONE) & (before != NONE)
    told = {name: rows[name] for name in ("log_offset", "group_id", "topic", "topic_id", "partition")}
    ends = _greatest(share, share.batches["last"] + 1, NONE)
    deliveries = _greatest(share, share.batches["deliveries"], NONE)
    return pa.table(
        {
            **told,
            "time": rows["record_time"],
            "snapshot": share.snapshot,
            "tombstone": share.tombstone,
            "start_offset": pa.array(share.start, mask=share.start == NONE),
            "step": pa.array(share.start - before, mask=~known),
            "end_offset": pa.array(ends, mask=ends == NONE),
            **{name: _sizes(share, state, count) for name, state in COUNTED.items()},
            "deliveries": pa.array(deliveries.astype(np.int32), mask=deliveries == NONE),
            "cause": rows["cause"],
            "member_id": rows["member_id"],
        }
    )


COUNTED = {"accepted": ACKNOWLEDGED, "archived": ARCHIVED, "returned": AVAILABLE}


def _sizes(share: ShareRows, state: int, count: int) -> Any:
    """How many records each update gives this state; 0 for snapshots."""
    which = (share.batches["state"] == state) & ~share.snapshot[share.batch_row]
    sizes = np.maximum(share.batches["last"] - share.batches["first"] + 1, 0)
    found = np.zeros(count, np.int64)
    np.add.at(found, share.batch_row[which], sizes[which])
    return found


def _greatest(share: ShareRows, values: Any, if_none: int) -> Any:
    found = np.full(len(share.place), if_none, np.int64)
    np.maximum.at(found, share.batch_row, values)
    return found


# --- share_partitions ------------------------------------------------------------------------------


def share_partitions(share: ShareRows, steps: pa.Table) -> pa.Table:
    """share_partitions, without log_partition."""
    starts = np.flatnonzero(share.first)
    ends = np.append(starts[1:], len(share.place))[: len(starts)] - 1
    windows = _windows(share, starts, ends)
    rows = share.rows
    updates = ~share.snapshot & ~share.tombstone
    timeouts = pc.fill_null(pc.equal(rows["cause"], Cause.LOCK_TIMEOUT.value), False).to_numpy(zero_copy_only=False)
    tells = _each(np.add, rows["cause"].is_valid().to_numpy(zero_copy_only=False).astype(np.int64), starts)
    last_update = _last(updates, starts)
    decided = _first(share.start != NONE, starts)
    epochs = _last(rows["state_epoch"].is_valid().to_numpy(zero_copy_only=False), starts)
    leaders = _last(rows["leader_epoch"].is_valid().to_numpy(zero_copy_only=False), starts)
    finals = share.start[ends]
    facts = {name: rows[name].take(pa.array(ends)) for name in ("group_id", "topic", "topic_id", "partition")}
    facts |= {
        "deleted": share.tombstone[ends],
        "first_time": rows["record_time"].take(pa.array(starts)),
        "last_time": rows["record_time"].take(pa.array(ends)),
        "last_update": _taken(rows["record_time"], last_update),
        "updates": _each(np.add, updates.astype(np.int64), starts),
        "snapshots": _each(np.add, (share.snapshot & ~share.tombstone).astype(np.int64), starts),
        "first_start": _taken(pa.chunked_array([pa.array(share.start)]), decided),
        "start_offset": pa.array(finals, mask=finals == NONE),
        "state_epoch": _taken(rows["state_epoch"], epochs),
        "leader_epoch": _taken(rows["leader_epoch"], leaders),
        **{name: _each(np.add, steps[name].to_numpy(), starts) for name in COUNTED},
        "timeouts": pa.array(_each(np.add, timeouts.astype(np.int64), starts), mask=tells == 0),
        "finished": [window.finished for window in windows],
        "waiting": [window.waiting for window in windows],
        "deliveries": pa.array([window.deliveries for window in windows], pa.int32()),
        "most_delivered": pa.array([window.most_delivered for window in windows], pa.int64()),
        "start_deliveries": pa.array([window.start_deliveries for window in windows], pa.int32()),
    }
    return pa.table(facts)


def _windows(share: ShareRows, starts: Any, ends: Any) -> list[Window]:
    """The final state of each share partition: its last snapshot, with the updates since."""
    rows = np.arange(len(share.place))
    complete = np.where(share.snapshot | share.tombstone, rows, np.repeat(starts, ends - starts + 1))
    first_rows = np.maximum.accumulate(complete)[ends] if len(starts) else starts
    from_batch = np.searchsorted(share.batch_row, first_rows, "left")
    to_batch = np.searchsorted(share.batch_row, ends, "right")
    columns = [share.batches[name] for name in ("first", "last", "state", "deliveries")]
    return [
        window_of(start, list(zip(*(column[a:b].tolist() for column in columns), strict=True)))
        for start, a, b in zip(share.start[ends].tolist(), from_batch.tolist(), to_batch.tolist(), strict=True)
    ]


def _each(function: np.ufunc, values: Any, starts: Any) -> Any:
    return function.reduceat(values, starts) if len(starts) else values


def _last(which: Any, starts: Any) -> Any:
    """The last of these rows in each share partition; NONE if it has none."""
    return _each(np.maximum, np.where(which, np.arange(len(which)), NONE), starts)


def _first(which: Any, starts: Any) -> Any:
    found = _each(np.minimum, np.where(which, np.arange(len(which)), len(which)), starts)
    return np.where(found == len(which), NONE, found)


def _taken(column: pa.ChunkedArray, rows: Any) -> Any:
    return column.take(pa.array(rows, mask=rows == NONE))
