"""The session of a member that heartbeats (KIP-848, KIP-932): a member that is silent for too long is removed.

A sign of life only moves a session's `deadline`. The session waits in the purgatory until `watched_until`, which is
never later. At that time it looks at `deadline`, and waits again if that has moved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kohort.coordinator.outcome import Outcome
    from kohort.coordinator.purgatory import Key
    from kohort.coordinator.shard_state import ShardState


class HasSessions(Protocol):
    """A group, as the sessions of its members see it."""

    group_id: str
    is_abandoned: bool  # another object is the group now, or none
    sessions: dict[str, Session]  # by member id

    def session_ended(self, shard: ShardState, member_id: str, out: Outcome) -> None:
        """The member was silent for too long, and its session is forgotten."""
        ...


class Session:
    __slots__ = ("_group", "_key", "_member_id", "_shard", "deadline", "watched_until")

    def __init__(self, shard: ShardState, group: HasSessions, member_id: str) -> None:
        self._shard = shard
        self._group = group
        self._member_id = member_id
        self._key: Key = ("session", group.group_id, member_id)
        self.deadline = 0
        self.watched_until = 0  # 0: not watched

    def heard(self, timeout_ms: int) -> None:
        """A sign of life: the session starts anew."""
        self.deadline = self._shard.clock.now + timeout_ms
        if not 0 < self.watched_until <= self.deadline:
            self._watch()

    def _watch(self) -> None:
        self.watched_until = self.deadline
        self._shard.purgatory.watch(self._key, self, self.deadline)

    def stop(self) -> None:
        self.watched_until = 0
        self._shard.purgatory.cancel(self._key)

    # --- in the purgatory

    def can_complete(self) -> bool:
        return False

    def complete(self, out: Outcome) -> None:
        raise AssertionError("a session is never completed, only extended")

    def expire(self, out: Outcome) -> None:
        self.watched_until = 0
        group = self._group
        if group.is_abandoned or group.sessions.get(self._member_id) is not self:
            return
        if self.deadline > self._shard.clock.now:
            self._watch()
            return
        del group.sessions[self._member_id]
        group.session_ended(self._shard, self._member_id, out)
