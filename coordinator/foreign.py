"""Groups that a log holds and Kohort does not coordinate: Kafka's streams groups (KIP-1071).

Nothing of them may be lost or overwritten. They are listed with their type, their offsets can be read, and nothing of
theirs expires. Everything else is refused.

Kafka keeps such a group in many records. The keys of those in force are all that is needed to remove it: a tombstone
each, members first and the group last, because Kafka's loader accepts no other order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from kohort.coordinator.group import STREAMS, Committer, Group
from kohort.coordinator.outcome import Outcome, Record
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.log_records import STREAMS_GROUP_MEMBER_METADATA, STREAMS_GROUP_METADATA

if TYPE_CHECKING:
    from kohort.coordinator.shard_state import ShardState
    from kohort.protocol.messages.offset_commit import OffsetCommitRequest


class StreamsKey:
    """The key of a record of a streams group: the group is all that is read of it."""

    __slots__ = ("group_id", "raw")

    def __init__(self, raw: bytes) -> None:
        length = int.from_bytes(raw[2:4], "big")
        self.group_id = raw[4 : 4 + length].decode(errors="replace")
        self.raw = raw


class StreamsGroup(Group):
    __slots__ = ("_in_force",)

    type: str = STREAMS
    protocol_type: str | None = STREAMS

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self._in_force: dict[tuple[int, bytes], StreamsKey] = {}  # by type and key

    def replay(self, record_type: int, key: StreamsKey, value: bytes | None) -> None:
        if value is None:
            self._in_force.pop((record_type, key.raw), None)
        else:
            self._in_force[record_type, key.raw] = key

    @property
    def member_count(self) -> int:
        return sum(1 for record_type, _ in self._in_force if record_type == STREAMS_GROUP_MEMBER_METADATA)

    @property
    def has_members(self) -> bool:
        return any(record_type == STREAMS_GROUP_MEMBER_METADATA for record_type, _ in self._in_force)

    @property
    def state_name(self) -> str:
        return "Unknown" if self.has_members else "Empty"  # the records are kept unread

    # --- as every group (see coordinator/group.py)

    def check_commit(self, shard: ShardState, request: OffsetCommitRequest, version: int) -> ErrorCode | None:
        is_allowed = request.generation_id_or_member_epoch < 0 and not self.has_members
        return None if is_allowed else ErrorCode.UNKNOWN_MEMBER_ID

    def check_txn_commit(self, sender: Committer) -> ErrorCode | None:
        is_allowed = sender.is_anonymous or (sender.generation_or_epoch < 0 and not self.has_members)
        return None if is_allowed else ErrorCode.UNKNOWN_MEMBER_ID

    def check_delete(self) -> ErrorCode | None:
        return ErrorCode.NON_EMPTY_GROUP if self.has_members else ErrorCode.UNSUPPORTED_VERSION

    def check_offset_delete(self) -> ErrorCode | None:
        return None

    @property
    def can_be_replaced(self) -> bool:
        """Streams groups have internal topics, which only their own coordinator may remove."""
        return False

    def is_subscribed_to(self, topic: str) -> bool:  # what its members consume is not read
        return self.has_members

    def may_expire(self, topic: str) -> bool:
        return False

    @property
    def offsets_unused_since(self) -> int | None:
        return None

    @property
    def ends_without_offsets(self) -> bool:
        return False

    def tombstones(self) -> list[Record]:
        places = sorted(self._in_force, reverse=True)
        return [Record(place[0], cast("Any", self._in_force[place]), None) for place in places]

    def on_loaded(self, shard: ShardState, out: Outcome) -> Iterable[None]:
        """Nothing to do: Kohort does not coordinate the members of this group."""
        return ()

    def abandon(self, error: ErrorCode, out: Outcome) -> None:
        """Nothing to do: no request about this group is ever parked."""


def replay(shard: ShardState, record_type: int, key: StreamsKey, value: bytes | None) -> None:
    """Replay one record. A group's first record creates it, and the tombstone of its metadata record ends it.

    A record of another kind than the group's begins another group. No log of Kafka has that without tombstones in
    between; but a group with records of two kinds could not be deleted, because it would have tombstones of both.
    """
    group = shard.groups.get(key.group_id)
    if isinstance(group, StreamsGroup):
        if value is None and record_type == STREAMS_GROUP_METADATA:
            shard.end(key.group_id)
        else:
            group.replay(record_type, key, value)
    elif value is not None:
        group = StreamsGroup(key.group_id)
        group.replay(record_type, key, value)
        shard.replace(group)
