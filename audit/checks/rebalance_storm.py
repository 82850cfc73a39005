"""Many rebalances within a short time: the group does little else."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from kohort.audit.checks.kit.check import ERROR, HISTORY, Check, Limits, Row, finding
from kohort.audit.checks.kit.part import Part
from kohort.audit.checks.kit.words import between, count, duration
from kohort.audit.tables import REBALANCES

CHECK = Check(
    "rebalance_storm",
    ERROR,
    "Many rebalances of a group in a short time, and who came and went.",
    "Look at the members named first: crashes, session timeouts, long processing between polls; static membership"
    " (group.instance.id) and cooperative-sticky make restarts cheaper.",
    {"rebalances": 6, "minutes": 10},
    needs=(HISTORY,),
)

UUID = re.compile(r"-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")  # client id + this = member id
NAMES_TOLD = 3


def find(part: Part, limits: Limits) -> Iterator[Row]:
    groups: dict[str, list[Row]] = {}
    for row in part.rebalances:
        groups.setdefault(row["group_id"], []).append(row)
    for group_id, rows in groups.items():
        for storm in _storms(rows, max(1, int(limits["rebalances"])), limits["minutes"] * 60):
            first, last = storm[0], storm[-1]
            yield finding(
                CHECK,
                f"{count(len(storm), 'rebalance')} in {duration(between(first['time'], last['time']))}"
                f"{_who_and_why(part, storm)}",
                group_id=group_id,
                generation=first["generation"],
                log_offset=first["log_offset"],
                time=first["time"],
                until=last["time"],
                value=float(len(storm)),
            )


def _storms(rows: list[Row], many: int, time_s: float) -> Iterator[list[Row]]:
    """A storm has `many` rebalances within `time_s`. It ends when there is no rebalance for `time_s`."""
    stormy = [False] * len(rows)
    for last in range(many - 1, len(rows)):
        if _apart_s(rows[last - many + 1], rows[last]) <= time_s:
            stormy[last - many + 1 : last + 1] = [True] * many
    members = [row for row, is_stormy in zip(rows, stormy, strict=True) if is_stormy]
    if not members:
        return
    storm = [members[0]]
    for before, row in pairwise(members):
        if _apart_s(before, row) > time_s:
            yield storm
            storm = []
        storm.append(row)
    yield storm


def _apart_s(one: Row, other: Row) -> float:
    """Never negative: the clock may have been set back between the two. Then nobody knows how long it really was."""
    return abs(between(one["time"], other["time"]))


def _who_and_why(part: Part, storm: list[Row]) -> str:
    """The clients that joined and left most often, by client id: a member that comes back has a new member id."""
    rebalances = part.table(REBALANCES.name)
    mine = rebalances.filter(pc.is_in(rebalances["log_offset"], pa.array([row["log_offset"] for row in storm])))
    member_ids = [*pc.list_flatten(mine["joined"]).to_pylist(), *pc.list_flatten(mine["left"]).to_pylist()]
    moves = Counter(UUID.sub("", member_id) for member_id in member_ids)
    names = [f"{name} ({count(times, 'time')})" for name, times in moves.most_common(NAMES_TOLD)]
    causes = Counter(row["cause"] for row in storm if row["cause"])
    why = [f"{cause} ({count(times, 'time')})" for cause, times in causes.most_common(NAMES_TOLD)]
    return "".join([f"; came and went: {', '.join(names)}" if names else "", f"; {', '.join(why)}" if why else ""])
