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
from typing import NamedTuple

from audit.derive.records import Member, Place


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
    moved = [place for place, owner in owners.items() if before.get(place, owner) != owner]
    if moved and len(owners) != sum(len(member.assigned or ()) for member in members):
        moved = _without_kept(moved, before, members)
    if not moved:
        return Moves(owners, 0, 0, 0)
    subscriptions = {member.identity: member.topics for member in members}
    unforced = [place for place in moved if _could_stay(place, before, subscriptions)]
    forced = len(moved) - len(unforced)
    if not unforced:
        return Moves(owners, len(moved), forced, 0)
    needed = _needed(owners, before, members, subscriptions)
    return Moves(owners, len(moved), forced, max(0, len(unforced) - needed))


def _without_kept(moved: list[Place], before: Mapping[Place, str], members: Sequence[Member]) -> list[Place]:
    """Some partition has two owners: it stayed if one of them is the owner before."""
    kept = {place for member in members for place in member.assigned or () if before.get(place) == member.identity}
    return [place for place in moved if place not in kept]


def _could_stay(place: Place, before: Mapping[Place, str], subscriptions: Mapping[str, frozenset[str] | None]) -> bool:
    owner = before.get(place)
    if owner is None or owner not in subscriptions:
        return False
    topics = subscriptions[owner]
    return topics is None or place[0] in topics


def _needed(
    owners: Mapping[Place, str],
    before: Mapping[Place, str],
    members: Sequence[Member],
    subscriptions: Mapping[str, frozenset[str] | None],
) -> int:
    """The least number of unforced moves that leads to the loads there are now."""
    could_stay = [place for place in owners if _could_stay(place, before, subscriptions)]
    if len(set(subscriptions.values())) > 1:
        had_of_topic = Counter((before[place], place[0]) for place in could_stay)
        has_of_topic = Counter((member.identity, place[0]) for member in members for place in member.assigned or ())
        return sum(max(0, count - has_of_topic[key]) for key, count in had_of_topic.items())
    had = Counter(before[place] for place in could_stay)
    loads_before = sorted((had[member.identity] for member in members), reverse=True)
    loads_now = sorted((len(member.assigned or ()) for member in members), reverse=True)
    return sum(max(0, a - b) for a, b in zip(loads_before, loads_now, strict=True))
