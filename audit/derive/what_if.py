"""What each of Kafka's assignors would have done at each rebalance of a classic group.

Every rebalance is judged on its own. Each assignor gets the real owners before the rebalance, and the members, their
subscriptions and the partitions of the new generation. Owners and previous owners are defined as in moves.py, so the
figures can be compared with `rebalances.moved`.

A cooperative rebalance takes two generations: the first revokes partitions, the second assigns them to new owners.
There are no rows for the first. The rows of the second say what the assignors would have done with the group as it was
before the first. For cooperative-sticky itself, the assignment counts that it reaches when all is handed over.

The number of partitions of a topic is taken from the generation: the highest partition that was assigned, plus one.
There are no rows if a subscription or an assignment cannot be decoded or names an impossible partition.

Cost: range and roundrobin depend only on the order of the members, not on their names. So the answer for one group is
good for all groups with the same subscriptions in the same order. The number of partitions that sticky keeps is a sum
over loads if all members subscribe to the same topics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from operator import ne
from typing import NamedTuple

from kohort.audit.derive.conversion import to_classic
from kohort.audit.derive.records import (
    CLASSIC_GENERATION,
    MEMBER,
    TARGET,
    TARGET_EPOCH,
    AnyRecord,
    GroupLog,
    GroupRecord,
    Member,
    MemberRecord,
    Place,
)
from kohort.coordinator.assignors import ASSIGNORS, Assignment, GroupSpec
from kohort.coordinator.assignors.cooperative_sticky import settled

Counts = tuple[tuple[str, int], ...]  # topics in order, each with its number of partitions

MAX_PARTITIONS = 200_000  # of a group; a client may write an assignment with partition 2,147,483,647

RANGE, ROUNDROBIN, STICKY, COOPERATIVE_STICKY = ASSIGNORS


class WhatIf(NamedTuple):
    """A row of what_if, without the columns that all of the group share."""

    generation: int | None
    log_offset: int
    assignor: str
    moved: int
    interrupted: int
    max_load: int
    min_load: int
    actual: bool


class Outcome(NamedTuple):
    moved: int
    interrupted: int
    max_load: int
    min_load: int


class _Before(NamedTuple):
    """The group's topics and who owned their partitions, by the rank of the member."""

    counts: Counts
    owners: list[int | None]  # of each partition, in the order of _places; None: nobody, or a member that has left
    new: int  # number of partitions without a previous owner


def what_if_rows(log: GroupLog) -> Iterator[WhatIf]:
    """`log`: the records of one group, ordered by log offset."""
    owners: dict[Place, str] = {}  # the last owner of each partition before this rebalance
    counts: Counts = ()
    last: GroupRecord | None = None
    server_side = _ServerSide()
    for before, record in pairwise([None, *log]):
        if not isinstance(record, GroupRecord) or record.record_type != CLASSIC_GENERATION:
            if record is not None and server_side.is_told_by(record):
                owners.update(server_side.owners())
            continue
        if record.tombstone or not record.members:
            owners.clear()
        elif before is not None and to_classic(before, record):  # the coordinator's doing; no assignor has run
            owners.update(_owners(record.members))
        elif _is_known(record) and not _repeats(record, last) and not _takes_away(record, last):
            now = _owners(record.members)
            found = _counts(now, record.members, counts)
            if sum(count for _, count in found) <= MAX_PARTITIONS:
                counts = found
                for assignor, outcome in _outcomes(record.members, counts, owners):
                    own = assignor == record.protocol
                    yield WhatIf(record.generation, record.log_offset, assignor, *outcome, own)
            owners.update(now)
        last = record


class _ServerSide:
    """The owners by the targets of a group while it is a consumer group: it may become classic again."""

    def __init__(self) -> None:
        self._identities: dict[str, str] = {}
        self._targets: dict[str, Sequence[Place]] = {}

    def is_told_by(self, record: AnyRecord) -> bool:
        """Whether the record completes a new target."""
        if isinstance(record, MemberRecord):
            member = record.member
            if record.record_type == MEMBER and not record.tombstone:
                self._identities[member.member_id] = member.identity
            elif record.record_type == TARGET:
                self._targets[member.member_id] = () if record.tombstone else member.assigned or ()
        return record.record_type == TARGET_EPOCH and not record.tombstone

    def owners(self) -> dict[Place, str]:
        return {
            place: self._identities.get(member_id, member_id)
            for member_id, places in self._targets.items()
            for place in places
        }


def _is_known(record: GroupRecord) -> bool:
    return all(member.topics is not None and member.assigned is not None for member in record.members)


def _repeats(record: GroupRecord, last: GroupRecord | None) -> bool:
    """Whether this is no rebalance: a static member came back with a new member id and went on."""
    return last is not None and record.generation == last.generation and _holdings(record) == _holdings(last)


def _holdings(record: GroupRecord) -> dict[str, frozenset[Place]]:
    return {member.identity: frozenset(member.assigned or ()) for member in record.members}


def _takes_away(record: GroupRecord, last: GroupRecord | None) -> bool:
    """Whether members must revoke partitions that no member gets yet: the first half of a cooperative rebalance."""
    if record.protocol != COOPERATIVE_STICKY or last is None:
        return False
    now = {place for member in record.members for place in member.assigned or ()}
    wishes = {member.identity: member.topics or () for member in record.members}
    return any(
        place not in now and place[0] in wishes[member.identity]
        for member in last.members
        if member.identity in wishes
        for place in member.assigned or ()
    )


def _owners(members: Iterable[Member]) -> dict[Place, str]:
    owners: dict[Place, str] = {}
    for member in members:
        owners.update(dict.fromkeys(member.assigned or (), member.identity))
    return owners


def _outcomes(members: Sequence[Member], counts: Counts, owners: Mapping[Place, str]) -> Iterator[tuple[str, Outcome]]:
    by_id = sorted(members, key=_member_id)
    wishes = _wishes(by_id)
    before = _before(by_id, counts, owners)
    yield from _dealt_outcomes(by_id, wishes, before, owners)
    if len(set(wishes)) == 1:
        kept = _kept_by_quota(before, len(members))
        yield from _sticky_outcomes(before, kept, len(members))
    else:
        yield STICKY, _unequal(STICKY, wishes, before.counts, tuple(before.owners), before.new)
        yield COOPERATIVE_STICKY, _unequal(COOPERATIVE_STICKY, wishes, before.counts, tuple(before.owners), before.new)


def _wishes(members: Iterable[Member]) -> tuple[frozenset[str], ...]:
    return tuple(member.topics or frozenset() for member in members)


def _counts(assigned: Mapping[Place, str], members: Iterable[Member], last: Counts) -> Counts:
    """Partitions of each topic that is subscribed to and assigned. Most often the same as at the `last` rebalance."""
    wanted = frozenset[str]().union(*_wishes(members))
    if assigned.keys() == _place_set(last) and all(topic in wanted for topic, _ in last):
        return last
    highest: dict[str, int] = {}
    for topic, partition in assigned:
        if topic in wanted:
            highest[topic] = max(partition, highest.get(topic, 0))
    return tuple(sorted((topic, partition + 1) for topic, partition in highest.items()))


@lru_cache(256)
def _places(counts: Counts) -> tuple[Place, ...]:
    return tuple((topic, partition) for topic, count in counts for partition in range(count))


def _before(members: Sequence[Member], counts: Counts, owners: Mapping[Place, str]) -> _Before:
    ranks = {member.identity: rank for rank, member in enumerate(members)}
    names = list(map(owners.get, _places(counts)))
    return _Before(counts, list(map(ranks.get, names)), names.count(None))  # type: ignore[arg-type]


@lru_cache(256)
def _place_set(counts: Counts) -> frozenset[Place]:
    return frozenset(_places(counts))


# --- range and roundrobin -------------------------------------------------------------------------


def _dealt_outcomes(
    by_id: list[Member], wishes: tuple[frozenset[str], ...], before: _Before, owners: Mapping[Place, str]
) -> Iterator[tuple[str, Outcome]]:
    """The outcomes of range and roundrobin, which put static members first, by instance id."""
    if any(member.instance_id is not None for member in by_id):
        static_first = sorted(by_id, key=_static_first)
        wishes, before = _wishes(static_first), _before(static_first, before.counts, owners)
    yield RANGE, _dealt(RANGE, wishes, before)
    yield ROUNDROBIN, _dealt(ROUNDROBIN, wishes, before)


def _member_id(member: Member) -> str:
    return member.member_id


def _static_first(member: Member) -> tuple[bool, str]:
    return (True, member.member_id) if member.instance_id is None else (False, member.instance_id)


def _dealt(assignor: str, wishes: tuple[frozenset[str], ...], before: _Before) -> Outcome:
    owners, max_load, min_load = _layout(assignor, wishes, before.counts)
    moved = sum(map(ne, before.owners, owners)) - before.new
    return Outcome(moved, _eager(before), max_load, min_load)


def _eager(before: _Before) -> int:
    """Interrupted partitions of an eager rebalance: all that members owned, since everybody revokes everything."""
    return len(before.owners) - before.owners.count(None)


@lru_cache(4096)
def _layout(assignor: str, wishes: tuple[frozenset[str], ...], counts: Counts) -> tuple[list[int | None], int, int]:
    """The rank of each partition's owner, the greatest load and the least."""
    group = _ranked_group(wishes, counts, {})
    return _by_place(ASSIGNORS[assignor](group), counts)


def _ranked_group(wishes: Sequence[frozenset[str]], counts: Counts, owned: Mapping[str, list[Place]]) -> GroupSpec:
    return GroupSpec({_name(rank): topics for rank, topics in enumerate(wishes)}, dict(counts), owned)


def _name(rank: int) -> str:
    return f"{rank:09}"


def _by_place(assigned: Assignment, counts: Counts) -> tuple[list[int | None], int, int]:
    ranks = {place: int(member) for member, places in assigned.items() for place in places}
    loads = [len(places) for places in assigned.values()]
    return [ranks.get(place) for place in _places(counts)], max(loads), min(loads)


# --- the sticky ones ------------------------------------------------------------------------------


def _kept_by_quota(before: _Before, size: int) -> int:
    """Partitions that stay: each member keeps its own up to the quota, and some members with more keep one more."""
    quota, larger = divmod(len(before.owners), size)
    had = Counter(before.owners)
    del had[None]
    kept = with_more = 0
    for load in had.values():
        kept += load if load < quota else quota
        with_more += load > quota
    return kept + min(larger, with_more)


def _sticky_outcomes(before: _Before, kept: int, size: int) -> Iterator[tuple[str, Outcome]]:
    total = len(before.owners)
    moved = total - before.new - kept
    of_members = _eager(before)
    min_load = total // size
    max_load = min_load + (total % size > 0)
    yield STICKY, Outcome(moved, of_members, max_load, min_load)
    yield COOPERATIVE_STICKY, Outcome(moved, of_members - kept, max_load, min_load)


@lru_cache(1024)
def _unequal(
    assignor: str,
    wishes: tuple[frozenset[str], ...],
    counts: Counts,
    owners: tuple[int | None, ...],
    new: int,
) -> Outcome:
    owned: dict[str, list[Place]] = {}
    for place, rank in zip(_places(counts), owners, strict=True):
        if rank is not None:
            owned.setdefault(_name(rank), []).append(place)
    group = _ranked_group(wishes, counts, owned)
    assigned = settled(group) if assignor == COOPERATIVE_STICKY else ASSIGNORS[assignor](group)
    after, max_load, min_load = _by_place(assigned, counts)
    moved = sum(map(ne, owners, after)) - new
    of_members = len(owners) - owners.count(None)
    left_by_others = len(owners) - new - of_members
    return Outcome(moved, of_members if assignor == STICKY else moved - left_by_others, max_load, min_load)
