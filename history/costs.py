"""What a rebalance cost, and what the other ways of rebalancing would have cost for the same event.

stopped            partitions that members must stop reading, although they stay in the group
moved              partitions that get another owner than before
partition-seconds  for how long partitions are without an owner, added up. It rests on how long the slowest member took:

    eager          every partition waits until the last member has rejoined
    cooperative    only those that move or whose owner has gone wait: for the second round, in which the slowest member
                   is waited for once more
    KIP-848        nobody waits for others; only what the slowest member itself has to give up waits for it. Of a group
                   that is one of KIP-848 the log has the times themselves, which are longer: a member takes what
                   others gave up with its next heartbeat

How long a member was silent before it was found to be gone is the same in all three ways, and is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kohort.coordinator.assignors import ASSIGNORS, Assignment, GroupSpec
from kohort.coordinator.assignors.cooperative_sticky import settled
from kohort.history.members import Member, Place, by_identity
from kohort.history.moves import count_moves
from kohort.history.rebalance import CONSUMER, COOPERATIVE, SHARE, Rebalance

EAGER, COOPERATIVE_WAY, SERVER_SIDE = "eager", "cooperative", "KIP-848"
EAGER_ASSIGNORS = ("range", "roundrobin", "sticky")
MAX_PARTITIONS = 20_000  # larger groups are not computed: an assignor would take seconds
MAX_MEMBERS = 5_000
MAX_EXAMPLES = 10


class Move(NamedTuple):
    place: Place
    before: str  # identities
    after: str


class Moved(NamedTuple):
    moved: int
    forced: int  # the owner before is gone, or does not want the topic any more
    needless: int
    examples: list[Move]  # moves that were not forced


class Way(NamedTuple):
    """What one way of rebalancing costs."""

    way: str
    assignor: str
    stopped: int
    moved: int
    partition_seconds: float | None  # None: nobody knows how long the slowest member took
    is_actual: bool


def moves_of(rebalance: Rebalance, names: Mapping[str, str]) -> Moved | None:
    """None: an assignment cannot be read, or the group is a share group, where partitions have several members."""
    members = list(rebalance.members.values())
    if rebalance.group_type == SHARE or any(member.assigned is None for member in members):
        return None
    if rebalance.group_type == CONSUMER:
        members = _with_keys_as_topics(members, rebalance, names)
    counted = count_moves(rebalance.owners, members)
    examples: list[Move] = []
    if counted.avoidable:
        wanted = {member.identity: member.topics for member in members}
        for place, owner in sorted(counted.owners.items()):
            before = rebalance.owners.get(place)
            if before is not None and before != owner and before in wanted and _wants(wanted[before], place):
                examples.append(Move(place, before, owner))
    return Moved(counted.moved, counted.forced, counted.avoidable, examples[:MAX_EXAMPLES])


def _with_keys_as_topics(members: list[Member], rebalance: Rebalance, names: Mapping[str, str]) -> list[Member]:
    """Members of KIP-848 subscribe to names, and the broker assigns ids. A topic whose name nobody knows is taken to be
    wanted by everybody."""
    keys = {key for key, _ in rebalance.owners}.union(key for each in members for key, _ in each.assigned or ())
    return [
        each
        if each.topics is None
        else each._replace(topics=frozenset(key for key in keys if key not in names or names[key] in each.topics))
        for each in members
    ]


def _wants(topics: frozenset[str] | None, place: Place) -> bool:
    return topics is None or place[0] in topics


def ways_of(rebalance: Rebalance, names: Mapping[str, str], wait_ms: int | None, slowest: str | None) -> list[Way]:
    """`wait_ms`: how long the slowest member took; `slowest`: its identity."""
    members = by_identity(rebalance.members)
    group = _spec(rebalance, members, names)
    if group is None:
        return []
    own = rebalance.protocol
    eager = own if own in EAGER_ASSIGNORS else "range"
    stays = {(names.get(key, key), number): who for (key, number), who in rebalance.owners.items() if who in members}
    left = len(rebalance.owners) - len(stays)
    wait_s = None if wait_ms is None else wait_ms / 1000
    assert eager is not None
    dealt = _changed(stays, ASSIGNORS[eager](group))
    sticky = _changed(stays, settled(group))
    of_slowest = sum(stays[place] == slowest for place in sticky)
    gone = sum(1 for place in _flat(settled(group)) if place not in stays) if left else 0
    return [
        Way(EAGER, eager, len(stays), len(dealt) + gone, _times(wait_s, len(stays) + gone), own in EAGER_ASSIGNORS),
        Way(COOPERATIVE_WAY, COOPERATIVE, len(sticky), len(sticky) + gone, _times(wait_s, len(sticky) + gone),
            own == COOPERATIVE),
        Way(SERVER_SIDE, "uniform", len(sticky), len(sticky) + gone,
            _measured(rebalance) if rebalance.bumps and wait_s is not None else _times(wait_s, of_slowest),
            bool(rebalance.bumps)),
    ]  # fmt: skip


def _measured(rebalance: Rebalance) -> float:
    return round(sum(gap.to_ms - gap.from_ms for gap in rebalance.gaps) / 1000, 1)


def _times(wait_s: float | None, partitions: int) -> float | None:
    return None if wait_s is None else round(wait_s * partitions, 1)


def _spec(rebalance: Rebalance, members: Mapping[str, Member], names: Mapping[str, str]) -> GroupSpec | None:
    if rebalance.group_type == SHARE or not rebalance.before or rebalance.is_end or len(members) > MAX_MEMBERS:
        return None
    if any(member.topics is None or member.assigned is None for member in members.values()):
        return None
    counts: dict[str, int] = {}
    assigned = {place for member in members.values() for place in member.assigned or ()}
    for key, number in assigned.union(rebalance.still_free):
        topic = names.get(key, key)
        counts[topic] = max(counts.get(topic, 0), number + 1)
    if sum(counts.values()) > MAX_PARTITIONS:
        return None
    owned: dict[str, list[Place]] = {}
    for (key, number), who in rebalance.owners.items():
        if who in members:
            owned.setdefault(who, []).append((names.get(key, key), number))
    instances = {who: member.instance_id for who, member in members.items() if member.instance_id is not None}
    return GroupSpec({who: member.topics or () for who, member in members.items()}, counts, owned, instances)


def _flat(assignment: Assignment) -> dict[Place, str]:
    return {place: who for who, places in assignment.items() for place in places}


def _changed(before: Mapping[Place, str], assignment: Assignment) -> set[Place]:
    """Partitions that members must give up."""
    after = _flat(assignment)
    return {place for place, who in before.items() if after.get(place) != who}
