"""The fast path for the heartbeats of a member that has nothing to learn: each only starts its session anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kohort.coordinator.member_session import Session
    from kohort.coordinator.shard_state import ShardState
    from kohort.coordinator.share.group import ShareGroup
    from kohort.coordinator.share.member import ShareMember


class SharePulse:
    """Nobody tells a pulse that something has happened. Each beat checks that the member is still the same object,
    which is replaced with every change, and that group, topics and settings are still the same.
    """

    __slots__ = (
        "_changes", "_clock", "_group", "_member", "_member_id", "_session", "_settings", "_settings_version",
        "_timeout_ms", "_topics", "_topics_version",
    )  # fmt: skip

    def __init__(self, shard: ShardState, group: ShareGroup, member: ShareMember, session: Session) -> None:
        self._clock = shard.clock
        self._group = group
        self._changes = group.changes
        self._topics = shard.topics
        self._topics_version = shard.topics.version
        self._settings = shard.share
        self._settings_version = shard.share.version
        self._member = member
        self._member_id = member.member_id
        self._session = session
        self._timeout_ms = shard.share_settings(group.group_id).session_timeout_ms

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
        ):
            session.deadline = deadline
            return True
        return False
