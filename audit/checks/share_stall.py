"""Share partitions whose start offset stands still although their state changes: the group cannot get past a record.

With a broker to ask, also those in which many records wait and nothing happens, although the group has members.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kohort.audit.checks.kit.check import SHARE_HISTORY, WARNING, Check, Limits, Row, finding
from kohort.audit.checks.kit.part import Part
from kohort.audit.checks.kit.share import SET, ShareSteps, place_of
from kohort.audit.checks.kit.words import between, count, duration

STABLE = "Stable"  # state of a share group with members

CHECK = Check(
    "share_stall",
    WARNING,
    "Share partitions whose start offset stands still for a long time, while records behind it are delivered; with"
    " --baseline also those whose members do nothing while many records wait.",
    "A member holds the record at the start offset, or it comes back again and again: see which member that is, and why"
    " it neither accepts nor rejects the record; when the locks of the partition are used up, nobody gets anything.",
    {"minutes": 10, "updates": 10, "records": 1000},
    needs=(SHARE_HISTORY,),
)


def find(part: Part, limits: Limits) -> Iterator[Row]:
    """A group that is merely idle has no updates, and the start offset of one that works moves with nearly each."""
    yield from _nothing_happens(part, limits)
    steps = part.share_steps
    if not len(steps):
        return
    finals = {tuple(place_of(row).values()): row for row in part.share_partitions}
    for first, last, updates in _longest_of_each_place(steps, limits):
        begin, end = steps.rows(np.array([first, last]))
        where = place_of(begin)
        seconds = (steps.time_ms[last] - steps.time_ms[first]) / 1000
        final = finals.get(tuple(where.values()))
        is_last = final is not None and final["start_offset"] == begin["start_offset"]
        yield finding(
            CHECK,
            f"the start offset stood still at {begin['start_offset']} for {duration(seconds)}, while"
            f" {count(updates, 'update')} came{_about_the_window(final) if is_last and final else ''}",
            **where,
            log_offset=begin["log_offset"],
            time=begin["time"],
            until=end["time"],
            value=float(seconds),
        )


def _nothing_happens(part: Part, limits: Limits) -> Iterator[Row]:
    """Share partitions without updates, in which more records wait than arrive while the audit runs."""
    if part.world.baseline is None or part.world.end_time is None:
        return
    groups, ends = part.world.baseline.groups, part.world.baseline.partitions
    for row in part.share_partitions:
        group = groups.get(row["group_id"])
        _, end = ends.get((row["topic"], row["partition"]), (None, None))
        if group is None or group.state != STABLE or end is None or row["start_offset"] is None or row["deleted"]:
            continue
        since = row["last_update"] or row["first_time"]
        waiting, seconds = end - row["start_offset"] - row["finished"], between(since, part.world.end_time)
        if waiting >= max(1, limits["records"]) and seconds >= limits["minutes"] * 60:
            yield finding(
                CHECK,
                f"nothing happened for {duration(seconds)}, while {count(waiting, 'record')} wait from offset"
                f" {row['start_offset']} on and the group has members",
                **place_of(row),
                time=since,
                until=part.world.end_time,
                value=float(seconds),
            )


def _longest_of_each_place(steps: ShareSteps, limits: Limits) -> Iterator[tuple[int, int, int]]:
    """The first row, the last update, and the number of updates of the longest stall of each share partition."""
    worked = steps.is_update & (steps.numbers("accepted") + steps.numbers("archived") + steps.numbers("returned") > 0)
    starts = np.flatnonzero(_begins_anew(steps))
    ends = np.append(starts[1:], len(steps))
    updates = np.add.reduceat(worked.astype(np.int64), starts)
    last = np.maximum.reduceat(np.where(worked, np.arange(len(steps)), -1), starts)
    took_s = np.where(last >= starts, steps.time_ms[np.maximum(last, 0)] - steps.time_ms[starts], 0) / 1000
    long = (took_s >= limits["minutes"] * 60) & (updates >= max(1, limits["updates"])) & (ends > starts)
    some = np.flatnonzero(long & steps.known("start_offset")[starts])
    order = some[np.lexsort((took_s[some], steps.place[starts[some]]))]
    longest = order[np.diff(steps.place[starts[order]], append=-1) != 0]
    for run in longest.tolist():
        yield int(starts[run]), int(last[run]), int(updates[run])


def _begins_anew(steps: ShareSteps) -> Any:
    """Rows in which the start offset has moved, or was set."""
    still = (steps.numbers("step") == 0) & steps.known("step")
    return ~still | steps.is_first | steps.flags("tombstone") | steps.has_cause(*SET)


def _about_the_window(row: Row) -> str:
    """What the log says, at its end, of the record at the start offset and of those behind it."""
    told = []
    if row["start_deliveries"]:
        told.append(f"the record there was delivered {count(row['start_deliveries'], 'time')}")
    if row["finished"]:
        told.append(f"{count(row['finished'], 'record')} behind it are finished")
    return f"; {', and '.join(told)}" if told else ""
