"""The join phase: how it begins, how long it waits, how it ends.

prepare_rebalance     a reason came up: everyone has to join again
InitialDelayedJoin    the wait of a group that was empty: for others to arrive, longer while they keep arriving
DelayedJoin           the wait of a group that had members: until all have rejoined, or the rebalance timeout
complete_join_phase   a new generation: the leader gets the member list, everyone else waits for SyncGroup
DelayedSync           who does not send SyncGroup in time is gone
"""

from __future__ import annotations

from kohort.coordinator.classic import session
from kohort.coordinator.classic.events import rebalanced
from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.member import Member
from kohort.coordinator.classic.state import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE, STABLE
from kohort.coordinator.outcome import Outcome
from kohort.coordinator.purgatory import Key
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from kohort.protocol.messages.sync_group import SyncGroupResponse

MAX_TOLD = 1_000  # characters of a cause, which clients give, and of the names of thousands of members at once
LEAST_WAIT_AGAIN_MS = 100  # a rebalance timeout of 0 is allowed, and waiting again for 0 ms would never end


def join_key(group: ClassicGroup) -> Key:
    return ("join", group.group_id)


def sync_key(group: ClassicGroup) -> Key:
    return ("sync", group.group_id)


# --- how it begins


def prepare_rebalance(shard: ShardState, group: ClassicGroup, now: int, cause: str, trigger: str, out: Outcome) -> None:
    if group.state is COMPLETING_REBALANCE:
        for member in group.members.values():
            member.assignment = b""
            if member.awaiting_sync is not None:
                answer_sync(member, ErrorCode.REBALANCE_IN_PROGRESS, out)
                session.heard_from(shard, group, member, now)  # while it was parked, nobody watched it
    shard.purgatory.cancel(sync_key(group))
    group.pending_syncs.clear()
    was_empty = group.state is EMPTY
    group.transition_to(PREPARING_REBALANCE, now)
    group.join_phase_started, group.cause, group.trigger = now, cause[:MAX_TOLD], trigger[:MAX_TOLD]
    if was_empty:
        delay = shard.config.initial_rebalance_delay_ms
        remaining = max(group.max_rebalance_timeout_ms() - delay, 0)
        shard.purgatory.watch(join_key(group), InitialDelayedJoin(shard, group, delay, remaining), now + delay)
    else:
        wait_for_members(shard, group, now, out)


def wait_for_members(shard: ShardState, group: ClassicGroup, now: int, out: Outcome) -> None:
    _watch_joins(shard, group, now + group.max_rebalance_timeout_ms())
    shard.purgatory.check(join_key(group), now, out)


def _watch_joins(shard: ShardState, group: ClassicGroup, deadline: int) -> None:
    shard.purgatory.watch(join_key(group), DelayedJoin(shard, group), deadline)


def rebalance_or_go_on(
    shard: ShardState, group: ClassicGroup, now: int, cause: str, trigger: str, out: Outcome
) -> None:
    """Somebody came or went: begin a join phase, or see whether the one in progress is complete now."""
    if group.state is PREPARING_REBALANCE:
        shard.purgatory.check(join_key(group), now, out)
    else:
        prepare_rebalance(shard, group, now, cause, trigger, out)


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

    def complete(self, now: int, out: Outcome) -> None:
        complete_join_phase(self._shard, self._group, now, out)

    def expire(self, now: int, out: Outcome) -> None:
        group, shard = self._group, self._shard
        if group.new_member_added and self._remaining_ms:
            group.new_member_added = False
            delay = min(shard.config.initial_rebalance_delay_ms, self._remaining_ms)
            remaining = max(self._remaining_ms - self._delay_ms, 0)
            longer = InitialDelayedJoin(shard, group, delay, remaining)
            shard.purgatory.watch(join_key(group), longer, now + delay)
        else:
            complete_join_phase(shard, group, now, out)


class DelayedJoin:
    """Waits until every member has rejoined, at most for the longest rebalance timeout among them."""

    __slots__ = ("_group", "_shard")

    def __init__(self, shard: ShardState, group: ClassicGroup) -> None:
        self._shard = shard
        self._group = group

    def can_complete(self) -> bool:
        return self._group.all_have_joined()

    def complete(self, now: int, out: Outcome) -> None:
        complete_join_phase(self._shard, self._group, now, out)

    expire = complete


# --- how it ends


def complete_join_phase(shard: ShardState, group: ClassicGroup, now: int, out: Outcome) -> None:
    shard.purgatory.cancel(join_key(group))
    for member in list(group.members.values()):
        if member.awaiting_join is None and not member.is_static:
            group.remove(member.member_id)
            session.stop_watching(shard, group, member)
    if group.members and not _leader_has_joined(group):
        # Only silent static members: wait for one of them.
        _watch_joins(shard, group, now + max(group.max_rebalance_timeout_ms(), LEAST_WAIT_AGAIN_MS))
        return
    group.generation += 1
    if not group.members:
        become_empty(shard, group, now, out)
        return
    group.protocol_name = group.select_protocol()
    group.transition_to(COMPLETING_REBALANCE, now)
    group.learn_subscriptions()
    for member in list(group.members.values()):
        if member.awaiting_join is not None:
            out.reply(member.awaiting_join, join_response(group, member))
            member.awaiting_join = None
        session.heard_from(shard, group, member, now)
        member.is_new = False
        group.pending_syncs[member.member_id] = None
    deadline = now + group.max_rebalance_timeout_ms()
    shard.purgatory.watch(sync_key(group), DelayedSync(shard, group, group.generation), deadline)


def _leader_has_joined(group: ClassicGroup) -> bool:
    """Elects another leader if the present one is silent. False if everybody is."""
    leader = group.members.get(group.leader_id or "")
    if leader is not None and leader.awaiting_join is not None:
        return True
    for member in group.members.values():
        if member.awaiting_join is not None:
            group.leader_id = member.member_id
            return True
    return False


def become_empty(shard: ShardState, group: ClassicGroup, now: int, out: Outcome) -> None:
    group.protocol_name = None
    group.leader_id = None
    out.records.append(group.to_record({}, now, shard.config.audit_headers))
    out.events.append(rebalanced(group, {}, now))


def join_response(group: ClassicGroup, member: Member) -> JoinGroupResponse:
    """The current generation, with the member list for the leader."""
    members = []
    if member.member_id == group.leader_id:
        members = [
            JoinGroupResponseMember(each.member_id, each.instance_id, each.metadata(group.protocol_name))
            for each in group.members.values()
        ]
    return JoinGroupResponse(
        0, 0, group.generation, group.protocol_type, group.protocol_name, group.leader_id or "", False,
        member.member_id, members,
    )  # fmt: skip


# --- those who do not come


class DelayedSync:
    """Waits for every member's SyncGroup of one generation."""

    __slots__ = ("_generation", "_group", "_shard")

    def __init__(self, shard: ShardState, group: ClassicGroup, generation: int) -> None:
        self._shard = shard
        self._group = group
        self._generation = generation

    def can_complete(self) -> bool:
        return not self._group.pending_syncs

    def complete(self, now: int, out: Outcome) -> None:
        """Everyone has sent it: nothing more to wait for."""

    def expire(self, now: int, out: Outcome) -> None:
        group, shard = self._group, self._shard
        if group.generation != self._generation or group.state not in (COMPLETING_REBALANCE, STABLE):
            return
        late = [group.members[member_id] for member_id in group.pending_syncs if member_id in group.members]
        if not late:
            return
        for member in late:
            group.remove(member.member_id)
            session.stop_watching(shard, group, member)
        names = ", ".join(member.member_id for member in late)
        prepare_rebalance(shard, group, now, "no SyncGroup within the rebalance timeout", names, out)


def member_gone(shard: ShardState, group: ClassicGroup, member: Member, now: int, cause: str, out: Outcome) -> None:
    """A member's session is over."""
    drop_member(shard, group, member, out)
    if group.state is PREPARING_REBALANCE:
        _complete_if_all_joined(shard, group, now, out)
    elif group.state in (COMPLETING_REBALANCE, STABLE):
        prepare_rebalance(shard, group, now, cause, member.member_id, out)


def pending_join_gone(shard: ShardState, group: ClassicGroup, member_id: str, now: int, out: Outcome) -> None:
    group.pending_joins.pop(member_id, None)
    if group.state is PREPARING_REBALANCE:
        _complete_if_all_joined(shard, group, now, out)


def _complete_if_all_joined(shard: ShardState, group: ClassicGroup, now: int, out: Outcome) -> None:
    """Unlike a join or a leave, an expiry ends even the first wait of a new group (as measured on Kafka 4.3.1)."""
    if group.all_have_joined():
        complete_join_phase(shard, group, now, out)


def drop_member(shard: ShardState, group: ClassicGroup, member: Member, out: Outcome) -> None:
    """Out of the group; its parked JoinGroup learns that it is unknown."""
    group.remove(member.member_id)
    session.stop_watching(shard, group, member)
    if member.awaiting_join is not None:
        out.reply(member.awaiting_join, join_error(member.awaiting_join.version, ErrorCode.UNKNOWN_MEMBER_ID, ""))
        member.awaiting_join = None
    answer_sync(member, ErrorCode.UNKNOWN_MEMBER_ID, out)


def answer_sync(member: Member, error: ErrorCode, out: Outcome) -> None:
    if member.awaiting_sync is not None:
        out.reply(member.awaiting_sync, SyncGroupResponse(0, error))
        member.awaiting_sync = None


def join_error(version: int, error: ErrorCode, member_id: str) -> JoinGroupResponse:
    protocol_name = None if version >= 7 else ""
    return JoinGroupResponse(0, error, -1, None, protocol_name, "", False, member_id, ())
