"""The fast path for heartbeats of members that have nothing to learn (KIP-848, KIP-932): each starts a session anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kohort.coordinator.shard_clock import NEVER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kohort.coordinator.config import ConsumerSettings, ShareSettings
    from kohort.coordinator.member_session import Session
    from kohort.coordinator.shard_state import ShardState


class HasPulses(Protocol):
    """A group, as the pulses of its members see it."""

    is_abandoned: bool  # another object is the group now, or none
    changes: int  # rises whenever heartbeats of members that say nothing new may have something to do

    @property
    def members(self) -> Mapping[str, object]: ...


class MemberPulse:
    """Nobody tells a pulse that something has happened. Each beat checks that the member is still the same object,
    which is replaced with every change, and that group, topics and settings are still the same.
    """

    __slots__ = (
        "_changes", "_clock", "_group", "_member", "_member_id", "_session", "_settings", "_settings_version",
        "_timeout_ms", "_topics", "_topics_version", "_until",
    )  # fmt: skip

    def __init__(
        self,
        shard: ShardState,
        group: HasPulses,
        member_id: str,
        session: Session,
        settings: ConsumerSettings | ShareSettings,
        timeout_ms: int,
        until: int = NEVER,
    ) -> None:
        """`timeout_ms`: of the session; `until`: on the steady clock, when the normal handler has something to do."""
        self._clock = shard.clock
        self._group = group
        self._changes = group.changes
        self._topics = shard.topics
        self._topics_version = shard.topics.version
        self._settings = settings
        self._settings_version = settings.version
        self._member = group.members[member_id]
        self._member_id = member_id
        self._session = session
        self._timeout_ms = timeout_ms
        self._until = until

    def beats(self, steady_ms: int) -> bool:
        """False: the fast path does not apply, nothing was done, and the normal handler must decide."""
        group, session, clock = self._group, self._session, self._clock
        deadline = steady_ms - clock.stood_still_ms + self._timeout_ms
        if (
            group.changes == self._changes
            and group.members.get(self._member_id) is self._member
            and not group.is_abandoned
            and self._topics.version == self._topics_version
            and self._settings.version == self._settings_version
            and 0 < session.watched_until <= deadline  # else the session must be watched anew
            and steady_ms < clock.stops_at
            and steady_ms < self._until
        ):
            session.deadline = deadline
            return True
        return False
