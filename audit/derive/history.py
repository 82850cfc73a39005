"""Walks through the records of one group, in the order of the log: who owned what when, and what each rebalance did.

Classic groups: a record of type 2 is a generation with the assignments of all members. They own their partitions from
its time on. A generation without members, or a tombstone, ends all ownership. A record with the number, the members and
the partitions of the generation before is no rebalance: a static member came back with a new member id and went on.

Consumer groups (KIP-848): every member moves on its own. A member owns the partitions of its current assignment (type
8), and those that it still has to revoke, until a record no longer names them. A static member that is away for a while
(member epoch -2) owns nothing, although the coordinator keeps its partitions for it. A rebalance is a new target
assignment (type 6), compared with the target assignment before it. It begins with the first new epoch (type 3) since
the target before, and it is over when every member that is not away has what it shall have.

A group that is converted to the other protocol while it has members goes on: its members own what they owned, and the
records that only repeat this in the form of the other protocol are no rebalance. If the last member of the new protocol
leaves, the group is converted and has a rebalance of its own afterwards.

If two members own a partition at the same time, there is an interval for each of them.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from itertools import count
from typing import Any, NamedTuple

from kohort.audit.derive.conversion import without_conversions
from kohort.audit.derive.patterns import subscription
from kohort.audit.derive.records import (
    CLASSIC,
    CLASSIC_GENERATION,
    CONSUMER,
    CURRENT,
    GROUP_EPOCH,
    MEMBER,
    TARGET,
    TARGET_EPOCH,
    GroupLog,
    GroupRecord,
    Member,
    MemberRecord,
    PatternRecord,
    Place,
)
from kohort.history.moves import count_moves

MOVED, UNASSIGNED, LEFT, EMPTIED, DELETED = "moved", "unassigned", "left", "emptied", "deleted"
OwnerRecord = GroupRecord | MemberRecord
AWAY = -2  # member epoch of a static member that will come back
SETTLED = 0  # state of a member that has all that it shall have in its epoch, and nothing else


class Interval(NamedTuple):
    """A row of ownership_intervals, without the columns that all of the group share."""

    group_type: str
    member_id: str
    instance_id: str | None
    client_id: str | None
    client_host: str | None
    topic: str
    partition: int
    first_generation: int | None
    start_ms: int
    start_log_offset: int
    last_generation: int | None
    end_ms: int | None
    end_log_offset: int | None
    ended_by: str | None
    revoking_since_ms: int | None


class Rebalance(NamedTuple):
    """A row of rebalances, without these columns. Counts of partitions are None if an assignment cannot be decoded."""

    group_type: str
    generation: int | None
    previous_generation: int | None
    log_offset: int
    time_ms: int
    protocol: str | None
    leader: str | None
    cause: str | None
    trigger: str | None
    join_start_ms: int | None
    join_ms: int | None
    sync_ms: int | None
    duration_ms: int | None
    timeout_ms: int | None
    member_count: int
    joined: list[str]
    left: list[str]
    partition_count: int | None
    moved: int | None
    forced_moves: int | None
    avoidable_moves: int | None
    max_load: int | None
    min_load: int | None
    idle_members: int | None


class History(NamedTuple):
    intervals: list[Interval]
    rebalances: list[Rebalance]


def walk(log: GroupLog) -> History:
    """`log`: the records of one group, ordered by log offset."""
    group = _Group()
    for record in without_conversions(log):
        if isinstance(record, MemberRecord):
            group.member_record(record)
        elif isinstance(record, PatternRecord):
            group.pattern_record(record)
        elif record.record_type == CLASSIC_GENERATION:
            group.classic_record(record)
        else:
            group.epoch_record(record)
    return History(group.holdings.intervals(), group.rebalances)


class _Holdings:
    """Who holds which partitions. Beginnings and ends are kept as tuples; at the end they become intervals."""

    def __init__(self) -> None:
        self._begun: list[tuple[Any, ...]] = []
        self._ended: dict[int, tuple[Any, ...]] = {}  # index in _begun -> how it ended
        self._held: dict[str, dict[Place, int]] = {}  # member id -> place -> index in _begun
        self._confirmed: dict[str, int | None] = {}  # member id -> last generation with its partitions
        self._revoking: dict[int, int] = {}  # index in _begun -> since when it is to be revoked

    def intervals(self) -> list[Interval]:
        still_held = {
            index: (self._confirmed[member_id], None, None, None)
            for member_id, held in self._held.items()
            for index in held.values()
        }
        ends = self._ended | still_held
        return [
            Interval._make((*begun, *ends[index], self._revoking.get(index))) for index, begun in enumerate(self._begun)
        ]

    def of(self, member_id: str) -> dict[Place, int]:
        return self._held.get(member_id, {})

    def member_ids(self) -> list[str]:
        return list(self._held)

    def elsewhere(self, member_id: str) -> set[Place]:
        return {place for other, held in self._held.items() if other != member_id for place in held}

    def hold(self, kind: str, member: Member, places: Iterable[Place], by: OwnerRecord) -> None:
        """From this record on the member holds these places, too; those that it held before are confirmed."""
        held = self._held.setdefault(member.member_id, {})
        self._confirmed[member.member_id] = by.generation
        new = [place for place in places if place not in held]
        if new:
            new = list(dict.fromkeys(new))  # an assignor may assign a partition twice
            who = (kind, member.member_id, member.instance_id, member.client_id, member.client_host)
            when = (by.generation, by.time_ms, by.log_offset)
            held.update(zip(new, count(len(self._begun)), strict=False))
            self._begun += [who + place + when for place in new]

    def revoke(self, member_id: str, places: Sequence[Place], by: MemberRecord) -> None:
        """Of all that it holds, the member shall give up these places, and may keep the others."""
        to_go = set(places)
        for place, index in self._held[member_id].items():
            if place in to_go:
                self._revoking.setdefault(index, by.time_ms)
            else:
                self._revoking.pop(index, None)

    def end(self, member_id: str, places: Iterable[Place], by: OwnerRecord, why: str) -> None:
        held = self._held[member_id]
        end = (self._confirmed[member_id], by.time_ms, by.log_offset, why)
        self._ended.update(dict.fromkeys([held.pop(place) for place in places], end))

    def end_all(self, member_id: str, by: OwnerRecord, why: str) -> None:
        if member_id in self._held:
            self.end(member_id, list(self._held[member_id]), by, why)
            del self._held[member_id]

    def end_everything(self, by: OwnerRecord, why: str) -> None:
        for member_id in self.member_ids():
            self.end_all(member_id, by, why)


class _Group:
    def __init__(self) -> None:
        self.holdings = _Holdings()
        self.rebalances: list[Rebalance] = []
        self._forget()

    def _forget(self) -> None:
        """The group begins anew. What it holds is not changed."""
        self._kind: str | None = None
        self._generation: int | None = None  # of the last classic record or target epoch
        self._members: dict[str, Member] = {}  # of the generation or target before
        self._last_owner: dict[Place, str] = {}  # place -> identity, since the group was last empty
        self._forget_new_protocol()

    def _forget_new_protocol(self) -> None:
        self._present: dict[str, Member] = {}  # consumer groups: the members now,
        self._assignors: dict[str, str | None] = {}  # which assignor each asks for,
        self._targets: dict[str, Sequence[Place]] = {}  # the target assignment of each,
        self._behind: set[str] = set()  # the members that have not reached it,
        self._resolved: dict[str, frozenset[str]] = {}  # the topics of regular expressions,
        self._bump: GroupRecord | None = None  # the first epoch of the group since the last target,
        self._unconfirmed: list[str] | None = None  # and after a conversion, until the first target: the owners before

    def _is(self, kind: str, by: OwnerRecord) -> bool:
        """Note the group's type. If it changed, a group with members was converted, and True is returned. A group
        without members begins anew. Compaction may have removed the tombstones in between.
        """
        before, self._kind = self._kind, kind
        if before in (None, kind):
            return False
        has_members = bool(self._present if before == CONSUMER else self._members)
        if has_members:
            self._forget_new_protocol()
            self._unconfirmed = self.holdings.member_ids()
        else:
            self._delete(by)
            self._kind = kind
        return has_members

    def _delete(self, by: OwnerRecord) -> None:
        self.holdings.end_everything(by, DELETED)
        self._forget()

    # --- classic groups

    def classic_record(self, record: GroupRecord) -> None:
        if record.tombstone:
            if self._kind != CONSUMER:  # ignore the tombstone of the classic group that was converted
                self._delete(record)
            return
        if self._is(CLASSIC, record) and record.members:  # nobody has assigned anew; who left, the next generation says
            self._own(record)
            self._generation = record.generation
            return
        if not record.members:
            self.holdings.end_everything(record, EMPTIED)
            self._last_owner.clear()
        elif self._is_new(record, record.members):
            self._rebalanced(record, record.members, record.protocol, record)
        self._own(record)
        self._generation = record.generation
        self._members = {member.member_id: member for member in record.members}

    def _is_new(self, record: GroupRecord, members: Sequence[Member]) -> bool:
        """Whether a generation or target assignment differs from the one before."""
        if record.generation != self._generation:
            return True
        before = {member.identity: set(member.assigned or ()) for member in self._members.values()}
        return before != {member.identity: set(member.assigned or ()) for member in members}

    def _own(self, record: GroupRecord) -> None:
        members = {member.member_id: member for member in record.members}
        assigned = {place for each in record.members for place in each.assigned or ()}
        for member_id in self.holdings.member_ids():
            member = members.get(member_id)
            if member is None:
                self.holdings.end_all(member_id, record, LEFT)
            else:
                self._give_up(member_id, set(member.assigned or ()), assigned, record)
        for member in record.members:
            self.holdings.hold(CLASSIC, member, member.assigned or (), record)

    def _give_up(self, member_id: str, keeps: set[Place], wanted: Container[Place], record: OwnerRecord) -> None:
        """End all holdings of a member except `keeps`. `wanted`: places that another member has or will get."""
        gone = [place for place in self.holdings.of(member_id) if place not in keeps]
        if gone:
            self.holdings.end(member_id, [place for place in gone if place in wanted], record, MOVED)
            self.holdings.end(member_id, [place for place in gone if place not in wanted], record, UNASSIGNED)

    # --- consumer groups

    def epoch_record(self, record: GroupRecord) -> None:
        if record.tombstone:
            if record.record_type == GROUP_EPOCH and self._kind != CLASSIC:
                self._delete(record)
            return
        self._is(CONSUMER, record)
        if record.record_type == GROUP_EPOCH:
            self._bump = self._bump or record
        elif record.record_type == TARGET_EPOCH:
            self._targeted(record)

    def pattern_record(self, record: PatternRecord) -> None:
        self._resolved[record.pattern] = record.topics
        if record.tombstone:
            del self._resolved[record.pattern]

    def _targeted(self, record: GroupRecord) -> None:
        members = [
            member._replace(
                assigned=self._targets.get(member_id, ()),
                topics=subscription(member.topics, member.pattern, self._resolved),
            )
            for member_id, member in self._present.items()
        ]
        asked = {self._assignors.get(member.member_id) for member in members}
        protocol = asked.pop() if len(asked) == 1 else None
        if self._unconfirmed is not None and self._converted(record, self._unconfirmed):
            return
        if not members:
            self._last_owner.clear()
        elif self._is_new(record, members):
            self._rebalanced(record, members, protocol, self._bump or record)
            self._behind = set(self._present)
        self._bump = None
        self._generation = record.generation
        self._members = {member.member_id: member for member in members}

    def _converted(self, record: GroupRecord, owners: list[str]) -> bool:
        """The first target after a conversion. True if the conversion wrote it: then it is no rebalance.

        The next target says who left, and has the cause of the conversion.
        """
        for member_id in owners:
            if member_id not in self._present:
                self.holdings.end_all(member_id, record, LEFT)
        self._unconfirmed = None
        return record.generation == self._generation

    def _reconciled(self, record: MemberRecord) -> None:
        """Note how far the member is. If it was the last one behind the target, the rebalance is over."""
        is_there = not record.tombstone and record.generation != AWAY
        if is_there and not (record.state == SETTLED and record.generation == self._generation):
            return
        if record.member.member_id in self._behind:
            self._behind.remove(record.member.member_id)
            last = self.rebalances[-1]
            if not self._behind and last.join_start_ms is not None:
                self.rebalances[-1] = last._replace(duration_ms=_passed(last.join_start_ms, record.time_ms))

    def member_record(self, record: MemberRecord) -> None:
        if record.tombstone and self._kind == CLASSIC:
            return
        self._is(CONSUMER, record)
        member_id = record.member.member_id
        if record.record_type == MEMBER:
            self._present.pop(member_id, None)
            if not record.tombstone:
                self._present[member_id] = record.member
                self._assignors[member_id] = record.server_assignor
        elif record.record_type == TARGET:
            self._targets[member_id] = () if record.tombstone else record.member.assigned or ()
        elif record.record_type == CURRENT:
            self._current(record)
            self._reconciled(record)

    def _current(self, record: MemberRecord) -> None:
        member_id = record.member.member_id
        if record.tombstone or record.generation == AWAY:
            self.holdings.end_all(member_id, record, LEFT)
            return
        own = [*(record.member.assigned or ()), *record.revoking]
        self._give_up(member_id, set(own), self._wanted_elsewhere(member_id), record)
        self.holdings.hold(CONSUMER, self._present.get(member_id, record.member), own, record)
        self.holdings.revoke(member_id, record.revoking, record)

    def _wanted_elsewhere(self, member_id: str) -> set[Place]:
        """Places that other members hold, or have in their target assignment."""
        wanted = {place for other, places in self._targets.items() if other != member_id for place in places}
        return wanted | self.holdings.elsewhere(member_id)

    # --- both

    def _rebalanced(
        self, record: GroupRecord, members: Sequence[Member], protocol: str | None, told: GroupRecord
    ) -> None:
        """`told`: the record whose headers have cause and trigger. A consumer group's rebalance goes on after it."""
        ids = {member.member_id for member in members}
        timeouts = [each.rebalance_timeout_ms for each in members if each.rebalance_timeout_ms is not None]
        is_classic = record.record_type == CLASSIC_GENERATION
        start_ms = told.join_start_ms if is_classic else self._decided_ms(told)
        self.rebalances.append(
            Rebalance(
                CLASSIC if is_classic else CONSUMER,
                record.generation, self._generation, record.log_offset, record.time_ms, protocol, record.leader,
                told.cause, told.trigger, start_ms,
                _passed(start_ms, record.state_ms),
                _passed(record.state_ms, record.time_ms),
                _passed(start_ms, record.time_ms) if is_classic else None,
                max(timeouts, default=None),
                len(members),
                [member.member_id for member in members if member.member_id not in self._members],
                [member_id for member_id in self._members if member_id not in ids],
                *self._balance(members),
            )
        )  # fmt: skip

    def _decided_ms(self, told: GroupRecord) -> int:
        """When a consumer group's new epoch was decided. While members are still behind the target before, the header
        says when that earlier rebalance began."""
        start_ms = told.join_start_ms
        if start_ms is None or (self.rebalances and start_ms < self.rebalances[-1].time_ms):
            return told.time_ms
        return start_ms

    def _balance(self, members: Sequence[Member]) -> tuple[int | None, ...]:
        """partition_count, moved, forced_moves, avoidable_moves, max_load, min_load, idle_members."""
        loads = [len(member.assigned) for member in members if member.assigned is not None]
        if len(loads) != len(members):
            return (None,) * 7
        moves = count_moves(self._last_owner, members)
        self._last_owner.update(moves.owners)
        return (
            len(moves.owners), moves.moved, moves.forced, moves.avoidable, max(loads), min(loads), loads.count(0),
        )  # fmt: skip


def _passed(start_ms: int | None, end_ms: int | None) -> int | None:
    """Milliseconds between the two times; None if one is unknown, or if the clock was set back in between."""
    return end_ms - start_ms if start_ms is not None and end_ms is not None and end_ms >= start_ms else None
