"""Keys and values of the records in __consumer_offsets.

    key      | type int16 | fields, never flexible |
    value    | version int16 | fields of that version |        null: a tombstone

The type says what the record is about: a committed offset, a group's generation, a member. A type that we do not know
comes from a newer Kafka and is passed over (UnknownRecord); an unknown version of a known type is an error, because
the state would be wrong without it.
"""

from __future__ import annotations

from importlib import import_module
from struct import Struct
from typing import Any, Final, NamedTuple

from kohort.protocol.errors import MalformedMessage

_int16 = Struct(">h")

# The types, as Kafka numbers them. Nobody else writes these numbers down.
LEGACY_OFFSET_COMMIT: Final = 0
OFFSET_COMMIT: Final = 1
GROUP_METADATA: Final = 2  # a classic group
CONSUMER_GROUP_METADATA: Final = 3
CONSUMER_GROUP_PARTITION_METADATA: Final = 4
CONSUMER_GROUP_MEMBER_METADATA: Final = 5
CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: Final = 6
CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: Final = 7
CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: Final = 8
SHARE_GROUP_MEMBER_METADATA: Final = 10
SHARE_GROUP_METADATA: Final = 11
SHARE_GROUP_TARGET_ASSIGNMENT_METADATA: Final = 12
SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER: Final = 13
SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT: Final = 14
SHARE_GROUP_STATE_PARTITION_METADATA: Final = 15
CONSUMER_GROUP_REGULAR_EXPRESSION: Final = 16
STREAMS_GROUP_METADATA: Final = 17  # of streams groups (KIP-1071) only the numbers are known, not the fields
STREAMS_GROUP_MEMBER_METADATA: Final = 19
STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA: Final = 20
STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER: Final = 21
STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT: Final = 22
STREAMS_GROUP_TOPOLOGY: Final = 23

OFFSET_COMMITS: Final = (LEGACY_OFFSET_COMMIT, OFFSET_COMMIT)
CONSUMER_GROUP_RECORDS: Final = frozenset((
    CONSUMER_GROUP_METADATA, CONSUMER_GROUP_PARTITION_METADATA, CONSUMER_GROUP_MEMBER_METADATA,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA, CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT, CONSUMER_GROUP_REGULAR_EXPRESSION,
))  # fmt: skip
SHARE_GROUP_RECORDS: Final = frozenset((
    SHARE_GROUP_METADATA, SHARE_GROUP_MEMBER_METADATA, SHARE_GROUP_TARGET_ASSIGNMENT_METADATA,
    SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER, SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT, SHARE_GROUP_STATE_PARTITION_METADATA,
))  # fmt: skip
STREAMS_GROUP_RECORDS: Final = frozenset((
    STREAMS_GROUP_METADATA, STREAMS_GROUP_MEMBER_METADATA, STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA,
    STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER, STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT, STREAMS_GROUP_TOPOLOGY,
))  # fmt: skip


class RecordType(NamedTuple):
    id: int
    name: str  # Kafka's
    value_version: int  # the version that Kafka 4.3.1 writes, and so do we

    @property
    def module(self) -> str:
        return "log_" + "".join(f"_{c.lower()}" if c.isupper() else c for c in self.name).lstrip("_")


RECORD_TYPES: dict[int, RecordType] = {
    kind.id: kind
    for kind in (
        RecordType(LEGACY_OFFSET_COMMIT, "LegacyOffsetCommit", 0),
        RecordType(OFFSET_COMMIT, "OffsetCommit", 4),
        RecordType(GROUP_METADATA, "GroupMetadata", 3),
        RecordType(CONSUMER_GROUP_METADATA, "ConsumerGroupMetadata", 0),
        RecordType(CONSUMER_GROUP_PARTITION_METADATA, "ConsumerGroupPartitionMetadata", 0),
        RecordType(CONSUMER_GROUP_MEMBER_METADATA, "ConsumerGroupMemberMetadata", 0),
        RecordType(CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA, "ConsumerGroupTargetAssignmentMetadata", 0),
        RecordType(CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER, "ConsumerGroupTargetAssignmentMember", 0),
        RecordType(CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT, "ConsumerGroupCurrentMemberAssignment", 0),
        RecordType(SHARE_GROUP_MEMBER_METADATA, "ShareGroupMemberMetadata", 0),
        RecordType(SHARE_GROUP_METADATA, "ShareGroupMetadata", 0),
        RecordType(SHARE_GROUP_TARGET_ASSIGNMENT_METADATA, "ShareGroupTargetAssignmentMetadata", 0),
        RecordType(SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER, "ShareGroupTargetAssignmentMember", 0),
        RecordType(SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT, "ShareGroupCurrentMemberAssignment", 0),
        RecordType(SHARE_GROUP_STATE_PARTITION_METADATA, "ShareGroupStatePartitionMetadata", 0),
        RecordType(CONSUMER_GROUP_REGULAR_EXPRESSION, "ConsumerGroupRegularExpression", 0),
    )
}


class UnknownRecord(NamedTuple):
    """The key of a record whose type a newer Kafka has introduced."""

    type: int
    raw: bytes


class _Codec:
    """The generated functions of one record type, looked up once."""

    __slots__ = ("decode_key", "decode_value", "encode_key", "encode_value")

    def __init__(self, kind: RecordType) -> None:
        module: Any = import_module(f"kohort.protocol.messages.{kind.module}")
        self.decode_key = module.decode_key[0]
        self.encode_key = module.encode_key[0]
        self.decode_value = module.decode_value
        self.encode_value = module.encode_value


_codecs: dict[int, _Codec] = {}


def _codec(record_type: int) -> _Codec:
    found = _codecs.get(record_type)
    if found is None:
        found = _codecs[record_type] = _Codec(RECORD_TYPES[record_type])
    return found


def decode_key(raw: bytes) -> tuple[int, Any]:
    """(type, key); the key is an UnknownRecord if the type is one."""
    if len(raw) < 2:
        raise MalformedMessage("a record key of less than two bytes")
    (record_type,) = _int16.unpack_from(raw)
    if record_type not in RECORD_TYPES:
        return record_type, UnknownRecord(record_type, raw)
    return record_type, _codec(record_type).decode_key(raw, 2)


def group_of(record_type: int, key: Any) -> str:
    """The group that a record is about: Kafka calls the field `group` in its oldest keys, `group_id` in all others."""
    group_id: str = key.group if record_type <= GROUP_METADATA else key.group_id
    return group_id


def decode_value(record_type: int, raw: bytes) -> Any:
    if len(raw) < 2:
        raise MalformedMessage("a record value of less than two bytes")
    (version,) = _int16.unpack_from(raw)
    decoders = _codec(record_type).decode_value
    if version not in decoders:
        name, newest = RECORD_TYPES[record_type].name, max(decoders)
        raise MalformedMessage(f"{name} value version {version}; known are 0 to {newest}")
    return decoders[version](raw, 2)


def encode_key(record_type: int, key: Any) -> bytes:
    return _int16.pack(record_type) + bytes(_codec(record_type).encode_key(key))


def encode_value(record_type: int, value: Any, version: int | None = None) -> bytes:
    if version is None:
        version = RECORD_TYPES[record_type].value_version
    return _int16.pack(version) + bytes(_codec(record_type).encode_value[version](value))
