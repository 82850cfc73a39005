"""The records of consumer groups, as Kafka writes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kohort.coordinator.assignors.server_side import Target, Targets
from kohort.coordinator.consumer.member import ConsumerMember, Partitions
from kohort.coordinator.consumer.subscriptions import ResolvedRegex
from kohort.coordinator.outcome import Headers, Record
from kohort.protocol.consumer_group_record import TARGET_KEY, pack_name, target_value
from kohort.protocol.log_records import (
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    CONSUMER_GROUP_MEMBER_METADATA,
    CONSUMER_GROUP_METADATA,
    CONSUMER_GROUP_PARTITION_METADATA,
    CONSUMER_GROUP_REGULAR_EXPRESSION,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA,
)
from kohort.protocol.messages.log_consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from kohort.protocol.messages.log_consumer_group_member_metadata import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)
from kohort.protocol.messages.log_consumer_group_metadata import ConsumerGroupMetadataKey, ConsumerGroupMetadataValue
from kohort.protocol.messages.log_consumer_group_partition_metadata import ConsumerGroupPartitionMetadataKey
from kohort.protocol.messages.log_consumer_group_regular_expression import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from kohort.protocol.messages.log_consumer_group_target_assignment_member import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from kohort.protocol.messages.log_consumer_group_target_assignment_metadata import (
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from kohort.protocol.record_batch import NO_HEADERS, encode_fields


def group_epoch_record(group_id: str, epoch: int, metadata_hash: int, headers: Headers = ()) -> Record:
    value = ConsumerGroupMetadataValue(epoch, metadata_hash)
    return Record(CONSUMER_GROUP_METADATA, ConsumerGroupMetadataKey(group_id), value, headers)


def member_record(group_id: str, member: ConsumerMember) -> Record:
    classic = member.classic
    value = ConsumerGroupMemberMetadataValue(
        member.instance_id,
        member.rack_id,
        member.client_id,
        member.client_host,
        member.topic_names,
        member.topic_regex,
        member.rebalance_timeout_ms,
        member.server_assignor,
        None
        if classic is None
        else ClassicMemberMetadata(
            classic.session_timeout_ms, [ClassicProtocol(name, metadata) for name, metadata in classic.protocols]
        ),
    )
    return Record(CONSUMER_GROUP_MEMBER_METADATA, ConsumerGroupMemberMetadataKey(group_id, member.member_id), value)


def current_assignment_record(group_id: str, member: ConsumerMember) -> Record:
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member.epoch,
        member.previous_epoch,
        member.state,
        _with_epochs(member.assigned),
        _with_epochs(member.pending_revocation),
    )
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id, member.member_id)
    return Record(CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT, key, value)


def _with_epochs(partitions: Partitions) -> list[TopicPartitions]:
    return [TopicPartitions(topic_id, list(owned), list(owned.values())) for topic_id, owned in partitions.items()]


def target_record(group_id: str, member_id: str, target: Target) -> Record:
    topics = [TopicPartition(topic_id, partitions) for topic_id, partitions in target.items()]
    key = ConsumerGroupTargetAssignmentMemberKey(group_id, member_id)
    return Record(CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER, key, ConsumerGroupTargetAssignmentMemberValue(topics))


def packed_target(packed_group_name: bytes, member_id: str, target: Target) -> bytes:
    """The fields of a target's record, as StepRecords has them."""
    return encode_fields(TARGET_KEY + packed_group_name + pack_name(member_id), target_value(target), NO_HEADERS)


def target_records(group_id: str, changed: Targets, epoch: int, wall_ms: int) -> list[Record]:
    records = [target_record(group_id, member_id, target) for member_id, target in changed.items()]
    return [*records, target_epoch_record(group_id, epoch, wall_ms)]


def target_epoch_record(group_id: str, epoch: int, timestamp: int) -> Record:
    value = ConsumerGroupTargetAssignmentMetadataValue(epoch, timestamp)
    key = ConsumerGroupTargetAssignmentMetadataKey(group_id)
    return Record(CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA, key, value)


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex) -> Record:
    value = ConsumerGroupRegularExpressionValue(resolved.topics, resolved.version, resolved.timestamp)
    return Record(CONSUMER_GROUP_REGULAR_EXPRESSION, ConsumerGroupRegularExpressionKey(group_id, regex), value)


# --- tombstones


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    return [
        current_assignment_tombstone(group_id, member_id),
        target_tombstone(group_id, member_id),
        member_tombstone(group_id, member_id),
    ]


def current_assignment_tombstone(group_id: str, member_id: str) -> Record:
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id)
    return Record(CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT, key, None)


def target_tombstone(group_id: str, member_id: str) -> Record:
    key = ConsumerGroupTargetAssignmentMemberKey(group_id, member_id)
    return Record(CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER, key, None)


def member_tombstone(group_id: str, member_id: str) -> Record:
    return Record(CONSUMER_GROUP_MEMBER_METADATA, ConsumerGroupMemberMetadataKey(group_id, member_id), None)


def regex_tombstone(group_id: str, regex: str) -> Record:
    return Record(CONSUMER_GROUP_REGULAR_EXPRESSION, ConsumerGroupRegularExpressionKey(group_id, regex), None)


def partition_metadata_tombstone(group_id: str) -> Record:
    return Record(CONSUMER_GROUP_PARTITION_METADATA, ConsumerGroupPartitionMetadataKey(group_id), None)


def group_tombstones(group_id: str, member_ids: Sequence[str], regexes: Sequence[str]) -> Iterator[Record]:
    """Everything about a group, in the order in which Kafka's loader wants it."""
    yield from (current_assignment_tombstone(group_id, each) for each in member_ids)
    yield from (target_tombstone(group_id, each) for each in member_ids)
    yield Record(CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA, ConsumerGroupTargetAssignmentMetadataKey(group_id), None)
    yield from (member_tombstone(group_id, each) for each in member_ids)
    yield from (regex_tombstone(group_id, each) for each in regexes)
    yield partition_metadata_tombstone(group_id)
    yield Record(CONSUMER_GROUP_METADATA, ConsumerGroupMetadataKey(group_id), None)
