"""DelayedHeartbeat: a member that is not heard from within its session is gone.

A heartbeat only moves `member.session_deadline`; the watcher compares when it fires, and watches again if it was early.
A new member has five minutes for its first join phase. One that waits for an answer of ours cannot be silent: its
watcher lets it be, and the answer starts the session anew.
"""

from __future__ import annotations

from kohort.coordinator.classic import delayed_join  # which needs us as well: the end of a session begins a join phase
from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.member import Member
from kohort.coordinator.classic.state import STABLE
from kohort.coordinator.config import NEW_MEMBER_JOIN_TIMEOUT_MS
from kohort.coordinator.outcome import Outcome
from kohort.coordinator.purgatory import Key
from kohort.coordinator.shard_state import ShardState


def session_key(group: ClassicGroup, member_id: str) -> Key:
    return ("session", group.group_id, member_id)


def heard_from(shard: ShardState, group: ClassicGroup, member: Member, now: int) -> None:
    """Start the member's session anew."""
    deadline = now + member.session_timeout_ms
    if 0 < member.watched_until <= deadline:
        member.session_deadline = deadline  # as nearly always: its watcher fires earlier, and will see this
    else:
        _watch_until(shard, group, member, deadline)


class Pulse:
    """The signs of life of one member while its group is stable: each moves its session, and that is all.

    Nobody has to tell a pulse that something has happened: at each beat it looks whether all is where it was.
    """

    __slots__ = ("_generation", "_group", "_member", "_member_id", "_shard")

    def __init__(self, shard: ShardState, group: ClassicGroup, member: Member) -> None:
        self._shard = shard
        self._group = group
        self._generation = group.generation
        self._member = member
        self._member_id = member.member_id

    def beats(self, now: int) -> bool:
        """False says nothing: then it is for the handler to look closely, and nothing was done."""
        group, member = self._group, self._member
        deadline = now + member.session_timeout_ms
        if (
            group.state is STABLE
            and group.members.get(self._member_id) is member
            and group.generation == self._generation
            and 0 < member.watched_until <= deadline  # else its watcher has to be set, which the host must hear of
            and not self._shard.is_abandoned
        ):
            member.session_deadline = deadline
            return True
        return False


def find_pulse(
    shard: ShardState, group_id: str, member_id: str, instance_id: str | None, generation: int
) -> Pulse | None:
    """Of a member of a stable group that speaks as itself, in its generation."""
    group = shard.groups.get(group_id)
    if group is None or group.state is not STABLE or generation != group.generation:
        return None
    member = group.members.get(member_id)
    if member is None or instance_id != member.instance_id:
        return None
    return Pulse(shard, group, member)


def expect_first_join(shard: ShardState, group: ClassicGroup, member: Member, now: int) -> None:
    _watch_until(shard, group, member, now + NEW_MEMBER_JOIN_TIMEOUT_MS)


def _watch_until(shard: ShardState, group: ClassicGroup, member: Member, deadline: int) -> None:
    member.session_deadline = deadline
    if not member.watched_until or deadline < member.watched_until:
        member.watched_until = deadline
        watcher = DelayedHeartbeat(shard, group, member)
        shard.purgatory.watch(session_key(group, member.member_id), watcher, deadline)


def move_deadline(member: Member, by_ms: int) -> None:
    """Its watcher has been moved, too."""
    member.session_deadline += by_ms
    if member.watched_until:
        member.watched_until += by_ms


def stop_watching(shard: ShardState, group: ClassicGroup, member: Member) -> None:
    member.watched_until = 0
    shard.purgatory.cancel(session_key(group, member.member_id))


class DelayedHeartbeat:
    __slots__ = ("_group", "_member", "_shard")

    def __init__(self, shard: ShardState, group: ClassicGroup, member: Member) -> None:
        self._shard = shard
        self._group = group
        self._member = member

    def can_complete(self) -> bool:
        return False

    def complete(self, now: int, out: Outcome) -> None:  # noqa: ARG002
        raise AssertionError("a session is never completed, only extended")

    def expire(self, now: int, out: Outcome) -> None:
        member, group = self._member, self._group
        member.watched_until = 0
        if group.members.get(member.member_id) is not member:
            return
        if member.session_deadline > now:
            _watch_until(self._shard, group, member, member.session_deadline)
        elif member.is_new or (member.awaiting_join is None and member.awaiting_sync is None):
            delayed_join.member_gone(self._shard, group, member, now, "session expired", out)


class PendingJoinExpiry:
    """An id that was handed out with MEMBER_ID_REQUIRED and never used."""

    __slots__ = ("_group", "_member_id", "_shard")

    def __init__(self, shard: ShardState, group: ClassicGroup, member_id: str) -> None:
        self._shard = shard
        self._group = group
        self._member_id = member_id

    def can_complete(self) -> bool:
        return False

    def complete(self, now: int, out: Outcome) -> None:  # noqa: ARG002
        raise AssertionError("a pending id joins or leaves, it does not complete")

    def expire(self, now: int, out: Outcome) -> None:
        if self._member_id in self._group.pending_joins:
            delayed_join.pending_join_gone(self._shard, self._group, self._member_id, now, out)


def expect_pending_join(shard: ShardState, group: ClassicGroup, member_id: str, deadline: int) -> None:
    expiry = PendingJoinExpiry(shard, group, member_id)
    shard.purgatory.watch(session_key(group, member_id), expiry, deadline)
