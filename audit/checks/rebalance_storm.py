"""Many rebalances within a short time: the group does little else.

A rolling restart, or a migration to the other protocol, has many rebalances, too. Each member comes once and leaves
once then, while in a storm the same few members come and go again and again, or nobody does. So a row of rebalances is
a storm in either of two cases:

some members   Members that came to stay or left for good do not explain a row of `rebalances`. The restart of one
               member explains three: it leaves, it comes back, and a cooperative group needs one more to share out.
all members    There are `rebalances` for each member of the group.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kohort.audit.checks.kit.check import ERROR, HISTORY, Check, Limits, Row, finding
from kohort.audit.checks.kit.part import Part
from kohort.audit.checks.kit.words import between, count, duration
from kohort.audit.tables import REBALANCES

CHECK = Check(
    "rebalance_storm",
    ERROR,
    "Many rebalances of a group in a short time that no rolling restart explains, and who came and went.",
    "Look at the members named first: crashes, session timeouts, long processing between polls; static membership"
    " (group.instance.id) and cooperative-sticky make restarts cheaper.",
    {"rebalances": 6, "minutes": 10},
    needs=(HISTORY,),
)

UUID = re.compile(r"-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")  # client id + this = member id
NAMES_TOLD = 3
REBALANCES_OF_RESTART = 3  # of one member: see above


def find(part: Part, limits: Limits) -> Iterator[Row]:
    groups: dict[str, list[Row]] = {}
    for row in part.rebalances:
        groups.setdefault(row["group_id"], []).append(row)
    for group_id, rows in groups.items():
        for storm in _storms(part, rows, max(1, int(limits["rebalances"])), limits["minutes"] * 60):
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


class Change(NamedTuple):
    """Member ids that came and went in a rebalance."""

    joined: frozenset[str]
    left: frozenset[str]


def _storms(part: Part, rows: list[Row], many: int, time_s: float) -> Iterator[list[Row]]:
    """A storm has `many` rebalances within `time_s`. It ends when there is no rebalance for `time_s`."""
    quick = [last for last in range(many - 1, len(rows)) if _apart_s(rows[last - many + 1], rows[last]) <= time_s]
    changes = _changes(part, rows) if quick else []
    stormy = [False] * len(rows)
    for last in quick:
        first = last - many + 1
        if not _is_explained(changes[first : last + 1]):
            stormy[first : last + 1] = [True] * many
        first = last - many * (rows[last]["member_count"] or 1) + 1
        if first >= 0 and _apart_s(rows[first], rows[last]) <= time_s:
            stormy[first : last + 1] = [True] * (last + 1 - first)
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


def _changes(part: Part, rows: list[Row]) -> list[Change]:
    found = _in_full(part, rows).select(["log_offset", "joined", "left"]).to_pylist()
    by_offset = {row["log_offset"]: Change(frozenset(row["joined"]), frozenset(row["left"])) for row in found}
    return [by_offset[row["log_offset"]] for row in rows]


def _is_explained(changes: Sequence[Change]) -> bool:
    """Whether members that came to stay, or left for good, are the reason for all of these rebalances."""
    came = frozenset().union(*(each.joined for each in changes))
    went = frozenset().union(*(each.left for each in changes))
    restless = came & went
    arrivals = sum(bool(each.joined - restless) for each in changes)
    departures = sum(bool(each.left - restless) for each in changes)
    return REBALANCES_OF_RESTART * max(arrivals, departures) >= len(changes)


def _in_full(part: Part, rows: list[Row]) -> pa.Table:
    """The rows with all their columns: part.rebalances has no lists."""
    rebalances = part.table(REBALANCES.name)
    return rebalances.filter(pc.is_in(rebalances["log_offset"], pa.array([row["log_offset"] for row in rows])))


def _apart_s(one: Row, other: Row) -> float:
    """Never negative: the clock may have been set back between the two. Then nobody knows how long it really was."""
    return abs(between(one["time"], other["time"]))


def _who_and_why(part: Part, storm: list[Row]) -> str:
    """The clients that joined and left most often, by client id: a member that comes back has a new member id."""
    mine = _in_full(part, storm)
    member_ids = [*pc.list_flatten(mine["joined"]).to_pylist(), *pc.list_flatten(mine["left"]).to_pylist()]
    clients = part.consumer_members.clients
    moves = Counter(clients.get((storm[0]["group_id"], each)) or UUID.sub("", each) for each in member_ids)
    names = [f"{name} ({count(times, 'time')})" for name, times in moves.most_common(NAMES_TOLD)]
    causes = Counter(row["cause"] for row in storm if row["cause"])
    why = [f"{cause} ({count(times, 'time')})" for cause, times in causes.most_common(NAMES_TOLD)]
    return "".join([f"; came and went: {', '.join(names)}" if names else "", f"; {', '.join(why)}" if why else ""])
