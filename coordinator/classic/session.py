"""A member's session: a member that is silent for longer is removed.

A sign of life only moves `deadline`. The session waits in the purgatory until `watched_until`, which is never later
than `deadline`. At that time the session looks at `deadline`, and waits again if it has moved. A new member has five
minutes for its first join phase. A member whose request is parked cannot send anything: its session is not watched
until the request is answered.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from kohort.coordinator.classic.state import DEAD, STABLE
from kohort.coordinator.config import NEW_MEMBER_JOIN_TIMEOUT_MS

if TYPE_CHECKING:
    from kohort.coordinator.classic.group import ClassicGroup
    from kohort.coordinator.classic.member import Member
    from kohort.coordinator.outcome import Outcome
    from kohort.coordinator.purgatory import Key
    from kohort.coordinator.shard_state import ShardState


def session_key(group_id: str, member_id: str) -> Key:
    return ("session", group_id, member_id)


class Session(ABC):
    __slots__ = ("_group", "_member", "_shard", "deadline", "watched_until")

    def __init__(self, shard: ShardState, group: ClassicGroup, member: Member) -> None:
        self._shard = shard
        self._group = group
        self._member = member
        self.deadline = 0
        self.watched_until = 0  # 0: not watched

    def heard(self) -> None:
        """A sign of life: the session starts anew."""
        deadline = self._shard.clock.now + self._member.session_timeout_ms
        if 0 < self.watched_until <= deadline:
            self.deadline = deadline  # the usual case: the watch ends earlier, and `expire` then looks at this deadline
        else:
            self._watch_until(deadline)

    def extend(self) -> None:
        """Move the deadline, as `heard` does. The caller calls `heard` soon: the watch may end after the deadline."""
        self.deadline = self._shard.clock.now + self._member.session_timeout_ms

    def expect_first_join(self) -> None:
        self._watch_until(self._shard.clock.now + NEW_MEMBER_JOIN_TIMEOUT_MS)

    def _watch_until(self, deadline: int) -> None:
        self.deadline = deadline
        if not self.watched_until or deadline < self.watched_until:
            self.watched_until = deadline
            key = session_key(self._group.group_id, self._member.member_id)
            self._shard.purgatory.watch(key, self, deadline)

    def stop(self) -> None:
        self.watched_until = 0
        self._shard.purgatory.cancel(session_key(self._group.group_id, self._member.member_id))

    # --- in the purgatory

    def can_complete(self) -> bool:
        return False

    def complete(self, out: Outcome) -> None:
        raise AssertionError("a session is never completed, only extended")

    def expire(self, out: Outcome) -> None:
        member, group = self._member, self._group
        self.watched_until = 0
        if group.state is DEAD or group.members.get(member.member_id) is not member:
            return
        if self.deadline > self._shard.clock.now:
            self._watch_until(self.deadline)
        elif member.is_new or not member.waits_for_answer:
            self.end(out)

    @abstractmethod
    def end(self, out: Outcome) -> None:
        """The member was silent for too long."""


class ClassicPulse:
    """The fast path for the heartbeats and commits of one member of a stable group: each only starts its session anew.

    Nobody tells a pulse that something has happened. Each beat checks that member and generation are still the same. A
    group object that its shard no longer holds is Dead.
    """

    __slots__ = ("_clock", "_generation", "_group", "_member", "_member_id", "_session", "_timeout_ms")

    def __init__(self, shard: ShardState, group: ClassicGroup, member: Member) -> None:
        self._clock = shard.clock
        self._group = group
        self._generation = group.generation
        self._member = member
        self._member_id = member.member_id
        self._timeout_ms = member.session_timeout_ms  # does not change within a generation
        self._session = member.session

    def beats(self, steady_ms: int) -> bool:
        """False: the fast path does not apply, nothing was done, and the normal handler must decide."""
        group, session, clock = self._group, self._session, self._clock
        deadline = steady_ms - clock.stood_still_ms + self._timeout_ms
        if (
            group.state is STABLE
            and group.members.get(self._member_id) is self._member
            and group.generation == self._generation
            and 0 < session.watched_until <= deadline  # else the session must be watched anew
            and steady_ms < clock.stops_at
        ):
            session.deadline = deadline
            return True
        return False
