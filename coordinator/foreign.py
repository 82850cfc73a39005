"""Groups that a log holds and Kohort does not coordinate: Kafka's share and streams groups.

Nothing of them may be lost or overwritten. They are listed with their type and the state that Kafka would show, their
offsets can be read, and nothing of theirs expires. Everything else is refused.

Kafka keeps such a group in many records. The keys of those in force are all that is needed to remove it: a tombstone
each, members first and the group last, because Kafka's loader accepts no other order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol, cast

from kohort.coordinator.group import SHARE, STREAMS, Group
from kohort.coordinator.outcome import Outcome, Record
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.log_records import (
    SHARE_GROUP_MEMBER_METADATA,
    SHARE_GROUP_METADATA,
    SHARE_GROUP_RECORDS,
    STREAMS_GROUP_MEMBER_METADATA,
    STREAMS_GROUP_METADATA,
    STREAMS_GROUP_RECORDS,
)

if TYPE_CHECKING:
    from kohort.coordinator.shard_state import ShardState
    from kohort.protocol.messages.offset_commit import OffsetCommitRequest
    from kohort.protocol.wire import Message

GROUP_EPOCHS = frozenset((SHARE_GROUP_METADATA, STREAMS_GROUP_METADATA))
MEMBERS = frozenset((SHARE_GROUP_MEMBER_METADATA, STREAMS_GROUP_MEMBER_METADATA))
FOREIGN_TYPES = SHARE_GROUP_RECORDS | STREAMS_GROUP_RECORDS


class ForeignKey(Protocol):
    """The key of a record of such a group."""

    __slots__: tuple[str, ...]
    group_id: str


def key_of(key: Message) -> ForeignKey:
    assert hasattr(key, "group_id"), key
    return cast("ForeignKey", key)


class StreamsKey:
    """The key of a record of a streams group (KIP-1071): the group is all that is read of it."""

    __slots__: tuple[str, ...] = ("group_id", "raw")

    def __init__(self, raw: bytes) -> None:
        length = int.from_bytes(raw[2:4], "big")
        self.group_id = raw[4 : 4 + length].decode(errors="replace")
        self.raw = raw


class ForeignGroup(Group):
    __slots__ = ("_in_force", "type")

    type: str

    def __init__(self, group_id: str, group_type: str) -> None:
        super().__init__(group_id)
        self.type = group_type
        self._in_force: dict[tuple[Any, ...], tuple[Any, Any]] = {}  # by type and key: key and value

    def replay(self, record_type: int, key: ForeignKey, value: Message | bytes | None) -> None:
        place = (record_type, *(getattr(key, slot) for slot in key.__slots__))
        if value is None:
            self._in_force.pop(place, None)
        else:
            self._in_force[place] = key, value

    @property
    def member_count(self) -> int:
        return sum(1 for place in self._in_force if place[0] in MEMBERS)

    @property
    def has_members(self) -> bool:
        return any(place[0] in MEMBERS for place in self._in_force)

    @property
    def protocol_type(self) -> str:
        return self.type

    @property
    def state_name(self) -> str:
        """The state that Kafka would show after loading the same records."""
        if not self.has_members:
            return "Empty"
        return "Stable" if self.type == SHARE else "Unknown"  # the records of streams groups are kept unread

    # --- as every group (see coordinator/group.py)

    def check_commit(self, shard: ShardState, request: OffsetCommitRequest, version: int) -> ErrorCode | None:
        if self.type == SHARE:
            return ErrorCode.GROUP_ID_NOT_FOUND
        is_allowed = request.generation_id_or_member_epoch < 0 and not self.has_members
        return None if is_allowed else ErrorCode.UNKNOWN_MEMBER_ID

    def check_delete(self) -> ErrorCode | None:
        return ErrorCode.NON_EMPTY_GROUP if self.has_members else ErrorCode.UNSUPPORTED_VERSION

    def check_offset_delete(self) -> ErrorCode | None:
        return ErrorCode.GROUP_ID_NOT_FOUND if self.type == SHARE else None

    @property
    def can_be_replaced(self) -> bool:
        """Share and streams groups have more state elsewhere, which only their own coordinators may remove."""
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
        places = sorted(self._in_force, key=lambda place: (-place[0], place[1:]))
        return [Record(place[0], self._in_force[place][0], None) for place in places]

    def on_loaded(self, shard: ShardState, out: Outcome) -> Iterable[None]:
        """Nothing to do: Kohort does not coordinate the members of this group."""
        return ()

    def abandon(self, error: ErrorCode, out: Outcome) -> None:
        """Nothing to do: no request about this group is ever parked."""


def replay(shard: ShardState, record_type: int, key: ForeignKey, value: Message | bytes | None) -> None:
    """Replay one record. A group's first record creates it, and the tombstone of its metadata record ends it.

    A record of another kind than the group's begins another group. No log of Kafka has that without tombstones in
    between; but a group with records of two kinds could not be deleted, because it would have tombstones of both.
    """
    group_type = _type_of(record_type)
    group = shard.groups.get(key.group_id)
    if isinstance(group, ForeignGroup) and group.type == group_type:
        if value is None and record_type in GROUP_EPOCHS:
            shard.end(key.group_id)
        else:
            group.replay(record_type, key, value)
    elif value is not None:
        group = ForeignGroup(key.group_id, group_type)
        group.replay(record_type, key, value)
        shard.replace(group)


def _type_of(record_type: int) -> str:
    return SHARE if record_type in SHARE_GROUP_RECORDS else STREAMS
