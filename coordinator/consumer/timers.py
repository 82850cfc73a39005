"""Members that do not give up partitions in time are removed; fast paths of members to whom there is nothing to say.

The end of a session is in coordinator/member_session.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.coordinator.consumer.removal import remove_members

JOIN, SYNC = "JoinGroup", "SyncGroup"  # what a classic member has to send in time

if TYPE_CHECKING:
    from kohort.coordinator.consumer.group import ConsumerGroup
    from kohort.coordinator.consumer.member import ConsumerMember
    from kohort.coordinator.member_session import Session
    from kohort.coordinator.outcome import Outcome
    from kohort.coordinator.purgatory import Key
    from kohort.coordinator.shard_state import ShardState


class Timeout:
    """A member has its rebalance timeout to do something."""

    __slots__ = ("_group", "_key", "_member_id", "_shard")

    def __init__(self, shard: ShardState, group: ConsumerGroup, member: ConsumerMember, what: str) -> None:
        self._shard = shard
        self._group = group
        self._member_id = member.member_id
        self._key: Key = (what, group.group_id, member.member_id)
        shard.purgatory.watch(self._key, self, shard.clock.now + member.rebalance_timeout_ms)

    def stop(self) -> None:
        self._shard.purgatory.cancel(self._key)

    def _remove(self, cause: str, out: Outcome) -> None:
        remove_members(self._shard, self._group, [self._member_id], cause, out)

    # --- in the purgatory

    def can_complete(self) -> bool:
        return False

    def complete(self, out: Outcome) -> None:
        raise AssertionError("it is stopped if the member is on time")

    def expire(self, out: Outcome) -> None:
        raise NotImplementedError


class RebalanceTimeout(Timeout):
    """A member has to give up partitions."""

    __slots__ = ("_epoch",)

    def __init__(self, shard: ShardState, group: ConsumerGroup, member: ConsumerMember) -> None:
        super().__init__(shard, group, member, "revocation")
        self._epoch = member.epoch

    def expire(self, out: Outcome) -> None:
        group = self._group
        if group.is_abandoned or group.rebalance_timeouts.get(self._member_id) is not self:
            return
        del group.rebalance_timeouts[self._member_id]
        member = group.members.get(self._member_id)
        if member is not None and member.epoch == self._epoch:
            self._remove("partitions not given up within the rebalance timeout", out)


class ClassicTimeout(Timeout):
    """A classic member has to send JoinGroup or SyncGroup."""

    __slots__ = ("_what",)

    def __init__(self, shard: ShardState, group: ConsumerGroup, member: ConsumerMember, what: str) -> None:
        super().__init__(shard, group, member, what)
        self._what = what

    def expire(self, out: Outcome) -> None:
        group = self._group
        if group.is_abandoned or group.classic_timeouts.get((self._what, self._member_id)) is not self:
            return
        del group.classic_timeouts[self._what, self._member_id]
        if self._member_id in group.members:
            self._remove(f"no {self._what} within the rebalance timeout", out)


class ClassicPulse:
    """As MemberPulse, for a member that speaks the classic protocol: its Heartbeat asks only whether to join again.

    A stable member need not join again until there is a target for a later epoch than its own.
    """

    __slots__ = ("_clock", "_epoch", "_group", "_member", "_member_id", "_session", "_timeout_ms")

    def __init__(self, shard: ShardState, group: ConsumerGroup, member: ConsumerMember, session: Session) -> None:
        assert member.classic is not None
        self._clock = shard.clock
        self._group = group
        self._epoch = member.epoch
        self._member = member
        self._member_id = member.member_id
        self._session = session
        self._timeout_ms = member.classic.session_timeout_ms

    def beats(self, steady_ms: int) -> bool:
        """False: the fast path does not apply, nothing was done, and the normal handler must decide."""
        group, session, clock = self._group, self._session, self._clock
        deadline = steady_ms - clock.stood_still_ms + self._timeout_ms
        if (
            group.assignment_epoch <= self._epoch
            and group.members.get(self._member_id) is self._member
            and not group.is_abandoned
            and 0 < session.watched_until <= deadline  # else the session must be watched anew
            and steady_ms < clock.stops_at
        ):
            session.deadline = deadline
            return True
        return False


class CommitPulse:
    """The commits of a member in one epoch. In a consumer group they are no signs of life."""

    __slots__ = ("_group", "_member", "_member_id")

    def __init__(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        self._group = group
        self._member = member
        self._member_id = member.member_id

    def beats(self, steady_ms: int) -> bool:
        """False: the member has changed, and the normal handler must decide whether it may commit."""
        return self._group.members.get(self._member_id) is self._member and not self._group.is_abandoned
