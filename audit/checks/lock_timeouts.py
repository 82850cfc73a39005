"""Acquisition locks that expire again and again: members keep records for longer than they may.

A member that has died loses its locks once. One whose locks expire a second time is alive and too slow. So the locks of
a member count if they have expired at two different times; those of several members together are compared with the
threshold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta

import numpy as np

from kohort.audit.checks.kit.check import CAUSES, SHARE_HISTORY, WARNING, Check, Limits, Row, finding
from kohort.audit.checks.kit.part import Part
from kohort.audit.checks.kit.share import in_words, place_of
from kohort.audit.checks.kit.words import between, count, duration
from kohort.coordinator.share_state.headers import Cause

CHECK = Check(
    "lock_timeouts",
    WARNING,
    "Acquisition locks of a share partition that expire again and again, because members are too slow.",
    "Others get the same records while the slow member still works on them: give members more time"
    " (share.record.lock.duration.ms of the group), let them fetch fewer records at a time (max.poll.records), or renew"
    " their locks while they work.",
    {"timeouts": 5, "minutes": 10},
    needs=(SHARE_HISTORY, CAUSES),
)
SAME_TIME_S = 0.5  # locks of a member that expire so shortly after each other have expired at the same time


def find(part: Part, limits: Limits) -> Iterator[Row]:
    steps = part.share_steps
    if not len(steps):
        return
    expired = np.flatnonzero(steps.has_cause(Cause.LOCK_TIMEOUT.value) & steps.is_update)
    places: dict[int, list[Row]] = {}
    for place, row in zip(steps.place[expired].tolist(), steps.rows(expired), strict=True):
        places.setdefault(place, []).append(row)
    for rows in places.values():
        times = _again_and_again(rows)
        many = max(1, int(limits["timeouts"]))
        quick = [
            last
            for last in range(many - 1, len(times))
            if between(times[last - many + 1]["time"], times[last]["time"]) <= limits["minutes"] * 60
        ]
        if quick:
            yield _finding(times[quick[0] - many + 1 : quick[-1] + 1], rows)


def _again_and_again(rows: list[Row]) -> list[Row]:
    """The first row of each time at which locks of a member have expired, if there was more than one time."""
    last: dict[str | None, Row] = {}
    times: list[Row] = []
    for row in rows:
        before = last.get(row["member_id"])
        if before is None or abs(between(before["time"], row["time"])) > SAME_TIME_S:
            times.append(row)
        last[row["member_id"]] = row
    counts = Counter(row["member_id"] for row in times)
    return [row for row in times if counts[row["member_id"]] > 1]


def _finding(times: list[Row], rows: list[Row]) -> Row:
    first, last = times[0], times[-1]
    until = last["time"] + timedelta(seconds=SAME_TIME_S)
    mine = [row for row in rows if first["time"] <= row["time"] <= until]
    records = sum(row["returned"] + row["archived"] for row in mine)
    members = Counter(row["member_id"] for row in times if row["member_id"])
    return finding(
        CHECK,
        f"locks expired {count(len(times), 'time')} in {duration(between(first['time'], last['time']))}, and"
        f" {count(records, 'record')} came back{in_words(': ', members)}",
        **place_of(first),
        member_id=next(iter(members)) if len(members) == 1 else None,
        log_offset=first["log_offset"],
        time=first["time"],
        until=last["time"],
        value=float(len(times)),
    )
