"""SyncGroup of a classic member in a consumer group: it asks for what it is assigned. Nobody brings assignments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kohort.coordinator.assignors.server_side import TopicId
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.member import UNREVOKED, ClassicMetadata, ConsumerMember
from kohort.coordinator.consumer.member_update import known_member
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, TopicPartition
from kohort.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kohort.protocol.subscription import pack_assignment, read_version


def sync_group(shard: ShardState, group: ConsumerGroup, request: SyncGroupRequest) -> SyncGroupResponse:
    member, error = find_classic_member(group, request.member_id, request.group_instance_id, request.generation_id)
    if member is None or member.classic is None:
        return SyncGroupResponse(0, error)
    if not _is_its_protocol(group, member.classic, request):
        return SyncGroupResponse(0, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    # A member that has to give up partitions must get an answer: it says which partitions the member keeps.
    if group.assignment_epoch > member.epoch and member.state != UNREVOKED:
        group.expect_join(shard, member)
        return SyncGroupResponse(0, ErrorCode.REBALANCE_IN_PROGRESS)
    group.synced(member.member_id)
    group.heard_from(shard, member)
    try:
        assignment = packed_assignment(shard, member.assigned, member.classic.protocols[0][1])
    except MalformedMessage:
        return SyncGroupResponse(0, ErrorCode.UNKNOWN_SERVER_ERROR)
    return SyncGroupResponse(0, 0, request.protocol_type, request.protocol_name, assignment)


def find_classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> tuple[ConsumerMember | None, ErrorCode]:
    """The classic member with this id, or the reason why the sender is not that member."""
    member, refusal = known_member(group, member_id, instance_id)
    if member is None:
        return None, refusal.error if refusal is not None else ErrorCode.UNKNOWN_MEMBER_ID
    if member.classic is None:
        return None, ErrorCode.UNKNOWN_MEMBER_ID
    return (member, ErrorCode.NONE) if generation == member.epoch else (None, ErrorCode.ILLEGAL_GENERATION)


def _is_its_protocol(group: ConsumerGroup, classic: ClassicMetadata, request: SyncGroupRequest) -> bool:
    """Whether the request names the type and the protocol that JoinGroup told the member, which is its first one."""
    return request.protocol_type in (None, group.protocol_type) and request.protocol_name in (
        None,
        classic.protocols[0][0],
    )


def packed_assignment(shard: ShardState, partitions: Mapping[TopicId, Iterable[int]], subscription: bytes) -> bytes:
    """An assignment, in the version of the member's subscription. Topics that are gone are left out."""
    topics = [
        TopicPartition(name, sorted(owned))
        for topic_id, owned in partitions.items()
        if (name := shard.topics.name_of(topic_id)) is not None
    ]
    return pack_assignment(ConsumerProtocolAssignment(topics, None), read_version(subscription))
