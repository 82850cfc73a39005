"""The records of share groups, as Kafka writes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kohort.coordinator.assignors.server_side import Target, TopicId
from kohort.coordinator.outcome import Headers, Record
from kohort.coordinator.share.member import STABLE, ShareMember
from kohort.protocol.log_records import (
    SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    SHARE_GROUP_MEMBER_METADATA,
    SHARE_GROUP_METADATA,
    SHARE_GROUP_STATE_PARTITION_METADATA,
    SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER,
    SHARE_GROUP_TARGET_ASSIGNMENT_METADATA,
)
from kohort.protocol.messages.log_share_group_current_member_assignment import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from kohort.protocol.messages.log_share_group_member_metadata import (
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
)
from kohort.protocol.messages.log_share_group_metadata import ShareGroupMetadataKey, ShareGroupMetadataValue
from kohort.protocol.messages.log_share_group_state_partition_metadata import (
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    TopicInfo,
    TopicPartitionsInfo,
)
from kohort.protocol.messages.log_share_group_target_assignment_member import (
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from kohort.protocol.messages.log_share_group_target_assignment_metadata import (
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)


class Ready(NamedTuple):
    """Partitions of one topic which have a state with the share coordinator, or shall get one."""

    name: str  # of the topic, when it was created
    partitions: tuple[int, ...]  # sorted


ReadyTopics = Mapping[TopicId, Ready]


class PartitionStates(NamedTuple):
    """Which partitions have a state with the share coordinator: what the record of type 15 says."""

    initializing: ReadyTopics
    initialized: ReadyTopics
    deleting: Mapping[TopicId, str]  # names of topics whose states are being deleted


NO_STATES = PartitionStates({}, {}, {})


def group_epoch_record(group_id: str, epoch: int, metadata_hash: int, headers: Headers = ()) -> Record:
    value = ShareGroupMetadataValue(epoch, metadata_hash)
    return Record(SHARE_GROUP_METADATA, ShareGroupMetadataKey(group_id), value, headers)


def member_record(group_id: str, member: ShareMember) -> Record:
    value = ShareGroupMemberMetadataValue(member.rack_id, member.client_id, member.client_host, member.topic_names)
    return Record(SHARE_GROUP_MEMBER_METADATA, ShareGroupMemberMetadataKey(group_id, member.member_id), value)


def current_assignment_record(group_id: str, member: ShareMember) -> Record:
    topics = [TopicPartitions(topic_id, partitions) for topic_id, partitions in member.assigned.items()]
    value = ShareGroupCurrentMemberAssignmentValue(member.epoch, member.previous_epoch, STABLE, topics)
    key = ShareGroupCurrentMemberAssignmentKey(group_id, member.member_id)
    return Record(SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT, key, value)


def target_record(group_id: str, member_id: str, target: Target) -> Record:
    topics = [TopicPartition(topic_id, partitions) for topic_id, partitions in target.items()]
    key = ShareGroupTargetAssignmentMemberKey(group_id, member_id)
    return Record(SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER, key, ShareGroupTargetAssignmentMemberValue(topics))


def target_epoch_record(group_id: str, epoch: int, timestamp: int) -> Record:
    value = ShareGroupTargetAssignmentMetadataValue(epoch, timestamp)
    return Record(SHARE_GROUP_TARGET_ASSIGNMENT_METADATA, ShareGroupTargetAssignmentMetadataKey(group_id), value)


def states_record(group_id: str, states: PartitionStates) -> Record:
    value = ShareGroupStatePartitionMetadataValue(
        _rows(states.initializing),
        _rows(states.initialized),
        [TopicInfo(topic_id, name) for topic_id, name in states.deleting.items()],
    )
    return Record(SHARE_GROUP_STATE_PARTITION_METADATA, ShareGroupStatePartitionMetadataKey(group_id), value)


def _rows(topics: ReadyTopics) -> list[TopicPartitionsInfo]:
    return [TopicPartitionsInfo(topic_id, topic.name, topic.partitions) for topic_id, topic in topics.items()]


def states_in(value: ShareGroupStatePartitionMetadataValue) -> PartitionStates:
    return PartitionStates(
        _ready(value.initializing_topics),
        _ready(value.initialized_topics),
        {topic.topic_id: topic.topic_name for topic in value.deleting_topics},
    )


def _ready(rows: Sequence[TopicPartitionsInfo]) -> ReadyTopics:
    return {row.topic_id: Ready(row.topic_name, _sorted(row.partitions)) for row in rows}


def _sorted(partitions: Sequence[int]) -> tuple[int, ...]:
    return tuple(partitions) if len(partitions) == 1 else tuple(sorted(partitions))


# --- tombstones


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    return [
        current_assignment_tombstone(group_id, member_id),
        target_tombstone(group_id, member_id),
        member_tombstone(group_id, member_id),
    ]


def current_assignment_tombstone(group_id: str, member_id: str) -> Record:
    key = ShareGroupCurrentMemberAssignmentKey(group_id, member_id)
    return Record(SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT, key, None)


def target_tombstone(group_id: str, member_id: str) -> Record:
    return Record(SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER, ShareGroupTargetAssignmentMemberKey(group_id, member_id), None)


def member_tombstone(group_id: str, member_id: str) -> Record:
    return Record(SHARE_GROUP_MEMBER_METADATA, ShareGroupMemberMetadataKey(group_id, member_id), None)


def group_tombstones(group_id: str, member_ids: Sequence[str]) -> Iterator[Record]:
    """Everything about a group, in the order in which Kafka's loader wants it."""
    yield from (current_assignment_tombstone(group_id, each) for each in member_ids)
    yield from (target_tombstone(group_id, each) for each in member_ids)
    yield Record(SHARE_GROUP_TARGET_ASSIGNMENT_METADATA, ShareGroupTargetAssignmentMetadataKey(group_id), None)
    yield from (member_tombstone(group_id, each) for each in member_ids)
    yield Record(SHARE_GROUP_STATE_PARTITION_METADATA, ShareGroupStatePartitionMetadataKey(group_id), None)
    yield Record(SHARE_GROUP_METADATA, ShareGroupMetadataKey(group_id), None)
