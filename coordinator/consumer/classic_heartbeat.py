"""Heartbeat of a classic member in a consumer group: it is alive, and learns whether it has to join again."""

from __future__ import annotations

from kohort.coordinator.consumer.classic_sync import find_classic_member
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.member import UNRELEASED, UNREVOKED, ConsumerMember
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def heartbeat(shard: ShardState, group: ConsumerGroup, request: HeartbeatRequest) -> HeartbeatResponse:
    member, error = find_classic_member(group, request.member_id, request.group_instance_id, request.generation_id)
    if member is None:
        return HeartbeatResponse(0, error)
    group.heard_from(shard, member)
    if _must_join(group, member):
        group.expect_join(shard, member)
        return HeartbeatResponse(0, ErrorCode.REBALANCE_IN_PROGRESS)
    return HeartbeatResponse(0, 0)


def _must_join(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """True if there is a new target, or the member has to give up partitions, or those that it waits for are free."""
    return (
        member.epoch < group.assignment_epoch
        or member.state == UNREVOKED
        or (member.state == UNRELEASED and not group.waits_for_others(member))
    )
