"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup and ConsumerGroupHeartbeat: the kind of the group decides who answers.

Classic groups answer in classic/, consumer groups in consumer/. An empty group makes room for one of the other kind.
"""

from __future__ import annotations

from kohort.coordinator.api import GroupApi, Steps
from kohort.coordinator.classic import heartbeat as heartbeats
from kohort.coordinator.classic import join_group as joins
from kohort.coordinator.classic import leave_group as leaves
from kohort.coordinator.classic import sync_group as syncs
from kohort.coordinator.classic.answers import join_error
from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.state import EMPTY
from kohort.coordinator.consumer import consumer_group_heartbeat as consumer_heartbeats
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.member import JOIN_EPOCH
from kohort.coordinator.consumer.topic_hash import hash_in_steps
from kohort.coordinator.outcome import Call, Outcome, Parked
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse


def join_group(shard: ShardState, request: JoinGroupRequest, call: Call) -> JoinGroupResponse | Outcome | Parked:
    group = shard.groups.get(request.group_id)
    if group is not None and not isinstance(group, ClassicGroup) and not group.can_be_replaced:
        refusal = joins.refused(shard, request, call)
        return refusal or join_error(call.version, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    return joins.join_group(shard, request, call)


def consumer_group_heartbeat(
    shard: ShardState, request: ConsumerGroupHeartbeatRequest, call: Call
) -> ConsumerGroupHeartbeatResponse | Outcome:
    if refusal := consumer_heartbeats.refused(shard, request, call):
        return refusal.response()
    group = shard.groups.get(request.group_id)
    if group is None or isinstance(group, ConsumerGroup):
        return consumer_heartbeats.consumer_group_heartbeat(shard, group, request, call)
    if request.member_epoch == JOIN_EPOCH and isinstance(group, ClassicGroup) and group.state is EMPTY:
        fresh = ConsumerGroup(request.group_id)
        return consumer_heartbeats.Heartbeat(shard, fresh, request, call, group.tombstones()).answer()
    message = f"Group {request.group_id} is not a consumer group."
    return ConsumerGroupHeartbeatResponse(0, ErrorCode.GROUP_ID_NOT_FOUND, message)


def consumer_group_heartbeat_in_steps(
    shard: ShardState, request: ConsumerGroupHeartbeatRequest, call: Call, error: ErrorCode | None
) -> Steps[ConsumerGroupHeartbeatResponse | Outcome]:
    """A heartbeat that names very many topics: hashing them is what takes long."""
    if error is not None:
        return consumer_heartbeats.unavailable(shard, request, call, error)
    if consumer_heartbeats.refused(shard, request, call) is None and request.subscribed_topic_names is not None:
        yield from hash_in_steps(shard.topics, request.subscribed_topic_names, shard.config.rack)
    return consumer_group_heartbeat(shard, request, call)


# The answer to a JoinGroup never rests on what is not durable yet: Kafka, too, hands out member ids without waiting.
JOIN_GROUP = GroupApi(join_group, joins.unavailable, joins.failed, waits_for_writes=False)
SYNC_GROUP = GroupApi(syncs.sync_group, syncs.unavailable, syncs.failed, steps=syncs.in_steps)
HEARTBEAT = GroupApi(heartbeats.heartbeat, heartbeats.unavailable, heartbeats.failed)
CONSUMER_GROUP_HEARTBEAT = GroupApi(
    consumer_group_heartbeat,
    consumer_heartbeats.unavailable,
    consumer_heartbeats.failed,
    steps=consumer_group_heartbeat_in_steps,
)
LEAVE_GROUP = GroupApi(leaves.leave_group, leaves.unavailable, leaves.failed, steps=leaves.in_steps)
