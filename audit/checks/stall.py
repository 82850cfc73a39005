"""Partitions whose committed offset stays the same while other partitions of the topic go on."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kohort.audit.checks.kit.check import HISTORY, WARNING, Check, Limits, Row, finding
from kohort.audit.checks.kit.part import Part
from kohort.audit.checks.kit.steps import Array, Steps
from kohort.audit.checks.kit.words import count, duration

CHECK = Check(
    "stall",
    WARNING,
    "The same offset committed again and again for a long time, while other partitions of the topic went on.",
    "Either no records arrive in this partition, or the consumer cannot get past one: compare with the end of the"
    " partition (--baseline), and look at the owner's log.",
    {"minutes": 10, "commits": 5},
    needs=(HISTORY,),
)


def find(part: Part, limits: Limits) -> Iterator[Row]:
    """The rows of a place are together and in the order of the log, so a stall is a run of steps of 0."""
    steps = part.steps
    still = (steps.step == 0) & steps.known("previous_offset") & ~steps.tombstone
    if not still.any():
        return
    new_place = np.diff(steps.place, prepend=-1) != 0
    starts = np.flatnonzero(still & (new_place | ~np.roll(still, 1)))
    ends = np.flatnonzero(still & np.append(new_place[1:] | ~still[1:], True))  # the last row of each run
    took_s = (steps.time_ms[ends] - steps.time_ms[starts] + steps.since_before_ms[starts]) / 1000
    long = (took_s >= limits["minutes"] * 60) & (ends - starts + 1 >= limits["commits"])
    worst = _longest_of_each_place(steps.place[starts], took_s, long)
    rows = steps.table.take(starts[worst]).to_pylist()
    movement = _Movement(steps)
    for row, first, last, seconds in zip(rows, starts[worst], ends[worst], took_s[worst].tolist(), strict=True):
        waiting = _waiting(part, row)
        since_ms = steps.time_ms[first] - steps.since_before_ms[first]
        others_went_on = movement.went_on(steps.topic_of_group[first], since_ms, steps.time_ms[last], limits)
        if waiting is not None and others_went_on:
            yield finding(
                CHECK,
                f"offset {row['offset']} was committed {count(last - first + 1, 'more time')} over {duration(seconds)}"
                f" while other partitions of {row['topic']} went on{waiting}",
                group_id=row["group_id"],
                topic=row["topic"],
                partition=row["partition"],
                member_id=row["owner"],
                generation=row["group_generation"],
                log_offset=row["log_offset"],
                time=row["previous_time"],
                until=steps.table["time"][int(last)].as_py(),
                value=seconds,
            )


def _longest_of_each_place(place: Array, took_s: Array, long: Array) -> Array:
    """The index of the longest run of each place that has a long one."""
    some = np.flatnonzero(long)
    order = some[np.lexsort((took_s[some], place[some]))]
    return order[np.diff(place[order], append=-1) != 0]


class _Movement:
    """When partitions of each topic went on, for all groups."""

    def __init__(self, steps: Steps) -> None:
        forward = np.flatnonzero(steps.step > 0)
        order = forward[np.lexsort((steps.time_ms[forward], steps.topic_of_group[forward]))]
        self._topic, self._time_ms = steps.topic_of_group[order], steps.time_ms[order]

    def went_on(self, topic: int, since_ms: int, until_ms: int, limits: Limits) -> bool:
        """Whether other partitions of the topic went on meanwhile. If the whole topic is silent, it is no stall."""
        start, end = np.searchsorted(self._topic, topic, "left"), np.searchsorted(self._topic, topic, "right")
        times = self._time_ms[start:end]
        times = times[np.searchsorted(times, since_ms, "right") : np.searchsorted(times, until_ms, "left")]
        return len(times) >= max(1, limits["commits"]) and (times[-1] - times[0]) / 1000 >= limits["minutes"] * 60


def _waiting(part: Part, row: Row) -> str | None:
    """Words for the message: how many records the broker says are unread. None: there are none, so it is no stall."""
    answers = part.world.baseline.partitions if part.world.baseline is not None else {}
    _, end = answers.get((row["topic"], row["partition"]), (None, None))
    if end is None:
        return ""
    return f"; {count(end - row['offset'], 'record')} wait there" if end > row["offset"] else None
