"""How much an assignment moved, and how much of that it could have done without.

An owner is an identity (see Member.identity), and the owner before is the last one that the partition had since the
group was last empty, however many generations ago. So a partition that a cooperative rebalance takes away in one
generation and gives to somebody else in a later one has moved once, in the one that gives it; given back to the same
owner it has not moved at all.

moved       had an owner before, and has others now. A partition with two owners has moved if both are new.
forced      of these: the owner before is no longer a member, or no longer wants the topic.
avoidable   the rest, less what had to move to reach the balance that was reached: with the owners before and just as
            many partitions for the member with most, the one with second most, and so on, fewer would have been
            enough. If all members want the same topics, the member that had most may keep most, so the loads before
            and after are compared in order of size: each gives up what exceeds its new load, no more. If they want
            different topics, not every exchange is possible; then the bar is what moves if every member gets exactly
            as many partitions of each topic as it got. That may be more than the least, so moves of such groups are
            called avoidable only when they surely were. Racks are not considered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from operator import eq
from typing import NamedTuple

from kohort.audit.derive.records import Member, Place


class Moves(NamedTuple):
    owners: dict[Place, str]  # by identity; of two, the later in the record
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
    """All want the same topics, as in nearly every group: it is enough to count."""
    had = Counter(map(before.get, owners))  # None: partitions that nobody had
    kept = sum(map(eq, map(before.get, owners), owners.values()))
    moved = len(owners) - had[None] - kept
    loads_before = [had[member.identity] for member in members]
    unforced = sum(loads_before) - kept
    needed = _least(loads_before, [len(member.assigned or ()) for member in members]) if unforced else 0
    return Moves(owners, moved, moved - unforced, max(0, unforced - needed))


def _least(loads_before: list[int], loads_now: list[int]) -> int:
    """How many have to move: the member that had most gets most, and so on."""
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
