"""Counts the partitions that an assignment moved, and how many of these moves were avoidable.

An owner is an identity: the instance id of a static member, or else a member id. The previous owner of a partition is
the last one that it had since the group was last empty, even if that was many generations ago. So if a cooperative
rebalance revokes a partition in one generation and assigns it to another member in a later one, it has moved once, in
the later generation. If it is assigned to the same owner again, it has not moved.

moved       The partition had an owner before and has another one now. If it has two owners, both must be new.
forced      It has moved, and its previous owner has left the group or no longer subscribes to the topic.
avoidable   Moves that are not forced, minus those that were needed for the loads that the members have now:
            If all members subscribe to the same topics, the loads before and now are sorted by size and compared: the
            member that had most keeps the largest load, and so on; each gives up only what exceeds its new load.
            If subscriptions differ, not every exchange is possible. Then the moves are needed with which every member
            gets exactly as many partitions of each topic as it has now. That may be more than the minimum, so a move of
            such a group is called avoidable only if it certainly was. Racks are ignored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from operator import eq
from typing import NamedTuple, Protocol

Place = tuple[str, int]


class Member(Protocol):
    @property
    def identity(self) -> str: ...

    @property
    def topics(self) -> frozenset[str] | None: ...

    @property
    def assigned(self) -> Collection[Place] | None: ...


class Moves(NamedTuple):
    owners: dict[Place, str]  # place -> identity; the later in the record if there are two
    moved: int
    forced: int
    avoidable: int


def count_moves(before: Mapping[Place, str], members: Sequence[Member]) -> Moves:
    """`before`: the last owner of each partition, by identity. All assignments must be readable."""
    owners: dict[Place, str] = {}
    for member in members:
        owners.update(dict.fromkeys(member.assigned or (), member.identity))
    has_one_owner_each = len(owners) == sum(len(member.assigned or ()) for member in members)
    if has_one_owner_each and len({member.topics for member in members}) == 1:
        return _count_equal(before, owners, members)
    return _count_any(before, owners, members)


def _count_equal(before: Mapping[Place, str], owners: dict[Place, str], members: Sequence[Member]) -> Moves:
    """For members with equal subscriptions, as in nearly every group. Counting partitions is enough there."""
    had = Counter(map(before.get, owners))  # key None: partitions without a previous owner
    kept = sum(map(eq, map(before.get, owners), owners.values()))
    moved = len(owners) - had[None] - kept
    loads_before = [had[member.identity] for member in members]
    unforced = sum(loads_before) - kept
    needed = _least(loads_before, [len(member.assigned or ()) for member in members]) if unforced else 0
    return Moves(owners, moved, moved - unforced, max(0, unforced - needed))


def _least(loads_before: list[int], loads_now: list[int]) -> int:
    """The least number of moves: the member that had most gets the largest load, and so on."""
    pairs = zip(sorted(loads_before, reverse=True), sorted(loads_now, reverse=True), strict=True)
    return sum(max(0, had - has) for had, has in pairs)


def _count_any(before: Mapping[Place, str], owners: dict[Place, str], members: Sequence[Member]) -> Moves:
    kept = {place for member in members for place in member.assigned or () if before.get(place) == member.identity}
    moved = [place for place in owners if place in before and place not in kept]
    subscriptions = {member.identity: member.topics for member in members}
    could_stay = [place for place in owners if _could_stay(place, before, subscriptions)]
    unforced = len(could_stay) - len(kept.intersection(could_stay))
    if len(set(subscriptions.values())) == 1:
        had = Counter(before[place] for place in could_stay)
        loads_now = [len(member.assigned or ()) for member in members]
        needed = _least([had[member.identity] for member in members], loads_now)
    else:
        had_of_topic = Counter((before[place], place[0]) for place in could_stay)
        has_of_topic = Counter((member.identity, place[0]) for member in members for place in member.assigned or ())
        needed = sum(max(0, count - has_of_topic[key]) for key, count in had_of_topic.items())
    return Moves(owners, len(moved), len(moved) - unforced, max(0, unforced - needed))


def _could_stay(place: Place, before: Mapping[Place, str], subscriptions: Mapping[str, frozenset[str] | None]) -> bool:
    owner = before.get(place)
    if owner is None or owner not in subscriptions:
        return False
    topics = subscriptions[owner]
    return topics is None or place[0] in topics
