"""Keys and values of the records in __consumer_offsets.

The type says what the record is about: a committed offset, a group's generation, a member. record_types.py has a
picture of the bytes.
"""

from __future__ import annotations

from typing import Any, Final

from kohort.protocol.record_types import RecordType as RecordType
from kohort.protocol.record_types import RecordTypes
from kohort.protocol.record_types import UnknownRecord as UnknownRecord

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
STREAMS_GROUP_METADATA: Final = 17  # of KIP-1071: Kohort reads these records and does not coordinate such groups
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


CONSUMER_OFFSETS: Final = RecordTypes(
    "__consumer_offsets",
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
    RecordType(STREAMS_GROUP_METADATA, "StreamsGroupMetadata", 0),
    RecordType(STREAMS_GROUP_MEMBER_METADATA, "StreamsGroupMemberMetadata", 0),
    RecordType(STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA, "StreamsGroupTargetAssignmentMetadata", 0),
    RecordType(STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER, "StreamsGroupTargetAssignmentMember", 0),
    RecordType(STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT, "StreamsGroupCurrentMemberAssignment", 0),
    RecordType(STREAMS_GROUP_TOPOLOGY, "StreamsGroupTopology", 0),
)

RECORD_TYPES: dict[int, RecordType] = CONSUMER_OFFSETS.kinds

decode_key = CONSUMER_OFFSETS.decode_key
decode_value = CONSUMER_OFFSETS.decode_value
encode_key = CONSUMER_OFFSETS.encode_key
encode_value = CONSUMER_OFFSETS.encode_value


def group_of(record_type: int, key: Any) -> str:
    """The group that a record is about: Kafka calls the field `group` in its oldest keys, `group_id` in all others."""
    group_id: str = key.group if record_type <= GROUP_METADATA else key.group_id
    return group_id
