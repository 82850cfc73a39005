"""The join phase: how it begins, how long it waits, how it ends, and what happens to members that do not come.

prepare_rebalance     there is a reason to rebalance: everyone has to join again
InitialDelayedJoin    the wait of a group that was empty: for others to arrive, longer while they keep arriving
DelayedJoin           the wait of a group that had members: until all have rejoined, or the rebalance timeout
complete_join_phase   a new generation: the leader gets the member list, everyone else waits for SyncGroup
DelayedSync           members that do not send SyncGroup in time are removed
DelayedHeartbeat      members that are silent for longer than their session are removed
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kohort.coordinator.api import in_slices
from kohort.coordinator.classic.answers import join_response, refuse_join, refuse_sync
from kohort.coordinator.classic.events import MAX_TOLD, rebalanced
from kohort.coordinator.classic.session import Session, session_key
from kohort.coordinator.classic.state import COMPLETING_REBALANCE, DEAD, EMPTY, PREPARING_REBALANCE, STABLE
from kohort.coordinator.outcome import InPieces, Outcome
from kohort.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kohort.coordinator.classic.group import ClassicGroup
    from kohort.coordinator.classic.member import Member
    from kohort.coordinator.purgatory import Key
    from kohort.coordinator.shard_state import ShardState

MAX_GENERATION = 2**31 - 1
MAX_NAMED = 100  # at most so many members are named as the cause of one rebalance
FEW_MEMBERS = 500  # the sessions of so many members begin at once, in some 2 ms
LEAST_WAIT_AGAIN_MS = 100  # a rebalance timeout of 0 is allowed, and waiting again for 0 ms would never end


def join_key(group: ClassicGroup) -> Key:
    return ("join", group.group_id)


def sync_key(group: ClassicGroup) -> Key:
    return ("sync", group.group_id)


# --- how it begins


def prepare_rebalance(shard: ShardState, group: ClassicGroup, cause: str, trigger: str, out: Outcome) -> None:
    if group.state is COMPLETING_REBALANCE:
        for member in group.members.values():
            member.assignment = b""
            if member.awaiting_sync is not None:
                refuse_sync(member, ErrorCode.REBALANCE_IN_PROGRESS, out)
                member.session.heard()  # while its SyncGroup was parked, nobody watched the session
    shard.purgatory.cancel(sync_key(group))
    group.pending_syncs.clear()
    was_empty = group.state is EMPTY
    group.begin_join_phase(shard.clock, cause[:MAX_TOLD], trigger[:MAX_TOLD])
    if was_empty:
        delay = shard.config.initial_rebalance_delay_ms
        remaining = max(group.max_rebalance_timeout_ms() - delay, 0)
        first_wait = InitialDelayedJoin(shard, group, delay, remaining)
        shard.purgatory.watch(join_key(group), first_wait, shard.clock.now + delay)
    else:
        _watch_joins(shard, group, group.max_rebalance_timeout_ms())
        shard.purgatory.check(join_key(group), out)


def _watch_joins(shard: ShardState, group: ClassicGroup, wait_ms: int) -> None:
    shard.purgatory.watch(join_key(group), DelayedJoin(shard, group), shard.clock.now + wait_ms)


def rebalance_or_go_on(shard: ShardState, group: ClassicGroup, cause: str, trigger: str, out: Outcome) -> None:
    """A member came or went: begin a join phase, or see whether the one in progress is complete now."""
    if group.state is PREPARING_REBALANCE:
        shard.purgatory.check(join_key(group), out)
    else:
        prepare_rebalance(shard, group, cause, trigger, out)


# --- how long it waits


class InitialDelayedJoin:
    """Waits a little for a new group's first members, longer while more keep arriving."""

    __slots__ = ("_delay_ms", "_group", "_remaining_ms", "_shard")

    def __init__(self, shard: ShardState, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
        self._shard = shard
        self._group = group
        self._delay_ms = delay_ms
        self._remaining_ms = remaining_ms

    def can_complete(self) -> bool:
        return False  # only the deadline ends the first wait

    def complete(self, out: Outcome) -> None:
        raise AssertionError("only the deadline ends the first wait")

    def expire(self, out: Outcome) -> None:
        group, shard = self._group, self._shard
        if group.state is DEAD:
            return
        if group.new_member_added and self._remaining_ms:
            group.new_member_added = False
            delay = min(shard.config.initial_rebalance_delay_ms, self._remaining_ms)
            remaining = max(self._remaining_ms - self._delay_ms, 0)
            longer = InitialDelayedJoin(shard, group, delay, remaining)
            shard.purgatory.watch(join_key(group), longer, shard.clock.now + delay)
        else:
            complete_join_phase(shard, group, out)


class DelayedJoin:
    """Waits until every member has rejoined, at most for the longest rebalance timeout among them."""

    __slots__ = ("_group", "_shard")

    def __init__(self, shard: ShardState, group: ClassicGroup) -> None:
        self._shard = shard
        self._group = group

    def can_complete(self) -> bool:
        return self._group.all_have_joined()

    def complete(self, out: Outcome) -> None:
        if self._group.state is not DEAD:
            complete_join_phase(self._shard, self._group, out)

    expire = complete


def stop_waiting(shard: ShardState, group: ClassicGroup, error: ErrorCode, out: Outcome) -> None:
    """Another group takes the place of this one: requests that are parked get the error, and deadlines end.

    The sessions of members end when the other group begins its own, for they are watched under the same keys.
    """
    for member in group.members.values():
        if member.waits_for_answer:
            refuse_join(member, error, out, member.member_id)
            refuse_sync(member, error, out)
    shard.purgatory.cancel(join_key(group))
    shard.purgatory.cancel(sync_key(group))
    for member_id in group.pending_joins:
        shard.purgatory.cancel(session_key(group.group_id, member_id))


# --- how it ends


def complete_join_phase(shard: ShardState, group: ClassicGroup, out: Outcome) -> None:
    shard.purgatory.cancel(join_key(group))
    for member in list(group.members.values()):
        if member.awaiting_join is None and not member.is_static:
            group.remove(member.member_id)
            member.session.stop()
    if group.members and not _leader_has_joined(group):
        # Only static members are left, and none of them has joined: wait again until one of them joins.
        _watch_joins(shard, group, max(group.max_rebalance_timeout_ms(), LEAST_WAIT_AGAIN_MS))
        return
    group.generation = next_generation(group.generation)
    if not group.members:
        become_empty(shard, group, out)
        return
    group.protocol_name = group.select_protocol()
    group.transition_to(COMPLETING_REBALANCE, shard.clock.wall)
    group.learn_subscriptions()
    for member in group.members.values():
        if member.awaiting_join is not None:
            out.reply(member.awaiting_join, join_response(group, member))
            member.awaiting_join = None
        member.session.extend()
        member.is_new = False
        group.pending_syncs[member.member_id] = None
    begin_sessions(group, out)
    deadline = shard.clock.now + group.max_rebalance_timeout_ms()
    shard.purgatory.watch(sync_key(group), DelayedSync(shard, group, group.generation), deadline)


def begin_sessions(group: ClassicGroup, out: Outcome) -> None:
    """Begin the sessions of all members, which were extended before: at once, or in pieces if the group is large."""
    if len(group.members) <= FEW_MEMBERS:
        _begin_sessions(group, group.members)
    else:
        out.jobs = [*out.jobs, InPieces(_begin_sessions_in_pieces(group))]


def _begin_sessions(group: ClassicGroup, member_ids: Iterable[str]) -> None:
    for member_id in member_ids:
        if (member := group.members.get(member_id)) is not None:
            member.session.heard()


def _begin_sessions_in_pieces(group: ClassicGroup) -> Iterator[Outcome]:
    """Begin the sessions of a large group in pieces. A member whose session has not begun may be silent for longer."""
    for some in in_slices(list(group.members)):
        if group.state is not DEAD:
            _begin_sessions(group, some)
        yield Outcome()


def next_generation(generation: int) -> int:
    """1 follows the largest number. Kafka goes on with a negative number, which clients read as "no generation"."""
    return generation + 1 if 0 <= generation < MAX_GENERATION else 1


def _leader_has_joined(group: ClassicGroup) -> bool:
    """Elect another leader if the present one has not joined. False: no member has joined."""
    leader = group.members.get(group.leader_id or "")
    if leader is not None and leader.awaiting_join is not None:
        return True
    for member in group.members.values():
        if member.awaiting_join is not None:
            group.leader_id = member.member_id
            return True
    return False


def become_empty(shard: ShardState, group: ClassicGroup, out: Outcome) -> None:
    group.protocol_name = None
    group.leader_id = None
    out.records.append(group.to_record({}, shard.clock.wall, shard.config.audit_headers))
    out.events.append(rebalanced(group, {}, shard.clock.now))


# --- members that do not come


class DelayedSync:
    """Waits for every member's SyncGroup of one generation."""

    __slots__ = ("_generation", "_group", "_shard")

    def __init__(self, shard: ShardState, group: ClassicGroup, generation: int) -> None:
        self._shard = shard
        self._group = group
        self._generation = generation

    def can_complete(self) -> bool:
        return not self._group.pending_syncs

    def complete(self, out: Outcome) -> None:
        """Every member has sent its SyncGroup: nothing has to be done."""

    def expire(self, out: Outcome) -> None:
        group, shard = self._group, self._shard
        if group.generation != self._generation or group.state not in (COMPLETING_REBALANCE, STABLE):
            return
        late = [group.members[member_id] for member_id in group.pending_syncs if member_id in group.members]
        if not late:
            return
        for member in late:
            group.remove(member.member_id)
            member.session.stop()
        names = ", ".join(member.member_id for member in late[:MAX_NAMED])
        prepare_rebalance(shard, group, "no SyncGroup within the rebalance timeout", names, out)


class DelayedHeartbeat(Session):
    """A session whose end removes the member, and makes the others rebalance."""

    __slots__ = ()

    def end(self, out: Outcome) -> None:
        shard, group, member = self._shard, self._group, self._member
        drop_member(group, member, out)
        if group.state is PREPARING_REBALANCE:
            _complete_if_all_joined(shard, group, out)
        elif group.state in (COMPLETING_REBALANCE, STABLE):
            prepare_rebalance(shard, group, "session expired", member.member_id, out)


class PendingJoinExpiry:
    """Waits for the JoinGroup with an id that was handed out with MEMBER_ID_REQUIRED."""

    __slots__ = ("_group", "_member_id", "_shard")

    def __init__(self, shard: ShardState, group: ClassicGroup, member_id: str) -> None:
        self._shard = shard
        self._group = group
        self._member_id = member_id

    def can_complete(self) -> bool:
        return False

    def complete(self, out: Outcome) -> None:
        raise AssertionError("a pending id joins or leaves, it does not complete")

    def expire(self, out: Outcome) -> None:
        group = self._group
        if self._member_id in group.pending_joins:
            del group.pending_joins[self._member_id]
            if group.state is PREPARING_REBALANCE:
                _complete_if_all_joined(self._shard, group, out)


def begin_session(shard: ShardState, group: ClassicGroup, member: Member) -> Session:
    member.session = DelayedHeartbeat(shard, group, member)
    return member.session


def expect_pending_join(shard: ShardState, group: ClassicGroup, member_id: str, wait_ms: int) -> None:
    expiry = PendingJoinExpiry(shard, group, member_id)
    shard.purgatory.watch(session_key(group.group_id, member_id), expiry, shard.clock.now + wait_ms)


def _complete_if_all_joined(shard: ShardState, group: ClassicGroup, out: Outcome) -> None:
    """Unlike a join or a leave, an expiry ends even the first wait of a new group (as measured on Kafka 4.3.1)."""
    if group.all_have_joined():
        complete_join_phase(shard, group, out)


def drop_member(group: ClassicGroup, member: Member, out: Outcome) -> None:
    """Remove the member; its parked requests learn that it is unknown."""
    group.remove(member.member_id)
    member.session.stop()
    refuse_join(member, ErrorCode.UNKNOWN_MEMBER_ID, out)
    refuse_sync(member, ErrorCode.UNKNOWN_MEMBER_ID, out)
