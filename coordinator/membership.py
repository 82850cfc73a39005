"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup, ConsumerGroupHeartbeat and ShareGroupHeartbeat, handled by the kind of
group they name.

Classic groups answer in classic/, consumer groups in consumer/. A consumer group can have members of both protocols. An
empty group makes room for one of the other kind. Share groups stay what they are.
"""

from __future__ import annotations

from collections.abc import Iterator

from kohort.coordinator.api import GroupApi, Steps, all_steps
from kohort.coordinator.classic import heartbeat as heartbeats
from kohort.coordinator.classic import join_group as joins
from kohort.coordinator.classic import leave_group as leaves
from kohort.coordinator.classic import sync_group as syncs
from kohort.coordinator.classic.answers import join_error
from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.state import EMPTY
from kohort.coordinator.consumer import classic_heartbeat, classic_join, classic_leave, classic_sync
from kohort.coordinator.consumer import consumer_group_heartbeat as consumer_heartbeats
from kohort.coordinator.consumer.group import ConsumerGroup, find_consumer
from kohort.coordinator.consumer.member import JOIN_EPOCH
from kohort.coordinator.consumer.usual import usual_answer
from kohort.coordinator.conversion import Upgrade, upgrade
from kohort.coordinator.outcome import Call, InPieces, Outcome, Parked, StepOutcome
from kohort.coordinator.pieces import in_pieces
from kohort.coordinator.shard_state import ShardState
from kohort.coordinator.share import share_group_heartbeat as share_heartbeats
from kohort.coordinator.share.group import ShareGroup
from kohort.coordinator.topic_hash import hash_in_steps
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kohort.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kohort.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kohort.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from kohort.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def join_group(
    shard: ShardState, request: JoinGroupRequest, call: Call
) -> JoinGroupResponse | Outcome | Parked | InPieces:
    group = shard.groups.get(request.group_id)
    if group is None or isinstance(group, ClassicGroup) or group.can_be_replaced:
        return joins.join_group(shard, request, call)
    if refusal := joins.refused(shard, request, call):
        return refusal
    if isinstance(group, ConsumerGroup):
        return classic_join.join_group(shard, group, request, call)
    return join_error(call.version, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")


def sync_group(shard: ShardState, request: SyncGroupRequest, call: Call) -> SyncGroupResponse | Outcome | Parked:
    group = find_consumer(shard, request.group_id)
    if group is None:
        return syncs.sync_group(shard, request, call)
    return syncs.refused(request, call) or classic_sync.sync_group(shard, group, request)


def sync_group_in_steps(
    shard: ShardState, request: SyncGroupRequest, call: Call, error: ErrorCode | None
) -> Steps[SyncGroupResponse | Outcome | Parked]:
    """A SyncGroup with very many assignments. For a classic group those that are not for members are dropped first."""
    if error is not None:
        return syncs.unavailable(shard, request, call, error)
    if find_consumer(shard, request.group_id) is None:
        assignments = yield from syncs.sort_out(shard, request)
        if find_consumer(shard, request.group_id) is None:  # a consumer may have joined meanwhile
            return syncs.sync_group(shard, request, call, assignments)
    return sync_group(shard, request, call)


def heartbeat(shard: ShardState, request: HeartbeatRequest, call: Call) -> HeartbeatResponse:
    group = find_consumer(shard, request.group_id)
    if group is None:
        return heartbeats.heartbeat(shard, request, call)
    return classic_heartbeat.heartbeat(shard, group, request)


def leave_group(shard: ShardState, request: LeaveGroupRequest, call: Call) -> LeaveGroupResponse | Outcome | InPieces:
    return all_steps(leave_group_in_steps(shard, request, call, None))


def leave_group_in_steps(
    shard: ShardState, request: LeaveGroupRequest, call: Call, error: ErrorCode | None
) -> Steps[LeaveGroupResponse | Outcome | InPieces]:
    if error is None and find_consumer(shard, request.group_id) is not None:
        return (yield from classic_leave.in_steps(shard, request, call))
    return (yield from leaves.in_steps(shard, request, call, error))


def consumer_group_heartbeat(
    shard: ShardState, request: ConsumerGroupHeartbeatRequest, call: Call, made: Upgrade | None = None
) -> ConsumerGroupHeartbeatResponse | Outcome | StepOutcome | InPieces:
    """`made`: the consumer group that was made from a large classic group for this request."""
    group = shard.groups.get(request.group_id)
    if type(group) is ConsumerGroup and (answered := usual_answer(shard, group, request, call)) is not None:
        return answered
    if refusal := consumer_heartbeats.refused(shard, request, call):
        return refusal.response()
    if group is None or isinstance(group, ConsumerGroup):
        return consumer_heartbeats.consumer_group_heartbeat(shard, group, request, call)
    if request.member_epoch == JOIN_EPOCH and isinstance(group, ClassicGroup):
        if group.state is not EMPTY:
            answer = upgrade(shard, group, request, call, made)
            return _once_made(shard, request, call, answer) if isinstance(answer, Upgrade) else answer
        fresh = ConsumerGroup(request.group_id)
        return consumer_heartbeats.Heartbeat(shard, fresh, request, call, group.tombstones()).answer()
    message = f"Group {request.group_id} is not a consumer group."
    return ConsumerGroupHeartbeatResponse(0, ErrorCode.GROUP_ID_NOT_FOUND, message)


def _once_made(shard: ShardState, request: ConsumerGroupHeartbeatRequest, call: Call, upgrade: Upgrade) -> InPieces:
    """Take the steps of the upgrade, then handle the heartbeat. Anything may have happened to the group meanwhile."""

    def pieces() -> Iterator[Outcome]:
        yield from in_pieces(upgrade.steps(), 1)
        yield from job.becomes(consumer_group_heartbeat(shard, request, call, upgrade))

    come_again = consumer_heartbeats.unavailable(shard, request, call, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    job = InPieces(pieces(), call, come_again)
    return job


def consumer_group_heartbeat_in_steps(
    shard: ShardState, request: ConsumerGroupHeartbeatRequest, call: Call, error: ErrorCode | None
) -> Steps[ConsumerGroupHeartbeatResponse | Outcome | StepOutcome | InPieces]:
    """A heartbeat that names very many topics: hashing them is what takes long."""
    if error is not None:
        return consumer_heartbeats.unavailable(shard, request, call, error)
    if consumer_heartbeats.refused(shard, request, call) is None and request.subscribed_topic_names is not None:
        yield from hash_in_steps(shard.topics, request.subscribed_topic_names, shard.config.rack)
    return consumer_group_heartbeat(shard, request, call)


def share_group_heartbeat(
    shard: ShardState, request: ShareGroupHeartbeatRequest, call: Call
) -> ShareGroupHeartbeatResponse | Outcome:
    if refusal := share_heartbeats.refused(shard, request):
        return refusal.response()
    group = shard.groups.get(request.group_id)
    if group is None or isinstance(group, ShareGroup):
        return share_heartbeats.share_group_heartbeat(shard, group, request, call)
    return share_heartbeats.not_a_share_group(request.group_id)


def share_group_heartbeat_in_steps(
    shard: ShardState, request: ShareGroupHeartbeatRequest, call: Call, error: ErrorCode | None
) -> Steps[ShareGroupHeartbeatResponse | Outcome]:
    """A heartbeat that names very many topics: hashing them is what takes long."""
    if error is not None:
        return share_heartbeats.unavailable(shard, request, call, error)
    if share_heartbeats.refused(shard, request) is None and request.subscribed_topic_names is not None:
        yield from hash_in_steps(shard.topics, request.subscribed_topic_names, shard.config.rack)
    return share_group_heartbeat(shard, request, call)


# The bare answer to a JoinGroup never rests on what is not durable yet: Kafka, too, hands out member ids at once.
JOIN_GROUP = GroupApi(join_group, joins.unavailable, joins.failed, waits_for_writes=False)
SYNC_GROUP = GroupApi(sync_group, syncs.unavailable, syncs.failed, steps=sync_group_in_steps)
HEARTBEAT = GroupApi(heartbeat, heartbeats.unavailable, heartbeats.failed)
CONSUMER_GROUP_HEARTBEAT = GroupApi(
    consumer_group_heartbeat,
    consumer_heartbeats.unavailable,
    consumer_heartbeats.failed,
    steps=consumer_group_heartbeat_in_steps,
    gathers=True,
)
SHARE_GROUP_HEARTBEAT = GroupApi(
    share_group_heartbeat,
    share_heartbeats.unavailable,
    share_heartbeats.failed,
    steps=share_group_heartbeat_in_steps,
)
LEAVE_GROUP = GroupApi(leave_group, leaves.unavailable, leaves.failed, steps=leave_group_in_steps)
