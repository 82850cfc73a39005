"""Heartbeat (12), v0-4: a member is alive, and learns whether it has to rejoin.

v1 adds the throttle time; v3 static members (KIP-345); v4 is flexible.
"""

from __future__ import annotations

from kohort.coordinator.classic.group import find_classic
from kohort.coordinator.classic.state import EMPTY, PREPARING_REBALANCE
from kohort.coordinator.outcome import Call
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

GO_ON = HeartbeatResponse(0, 0)  # the usual answer: one object for all heartbeats


def heartbeat(shard: ShardState, request: HeartbeatRequest, call: Call) -> HeartbeatResponse:
    if not request.group_id:
        return HeartbeatResponse(0, ErrorCode.INVALID_GROUP_ID)
    group = find_classic(shard, request.group_id)
    if group is None:
        return HeartbeatResponse(0, ErrorCode.UNKNOWN_MEMBER_ID)
    if error := group.check_member(request.member_id, request.group_instance_id):
        return HeartbeatResponse(0, error)
    if request.generation_id != group.generation:
        return HeartbeatResponse(0, ErrorCode.ILLEGAL_GENERATION)
    if group.state is EMPTY:
        return HeartbeatResponse(0, ErrorCode.UNKNOWN_MEMBER_ID)
    group.members[request.member_id].session.heard()
    if group.state is PREPARING_REBALANCE:
        return HeartbeatResponse(0, ErrorCode.REBALANCE_IN_PROGRESS)
    return GO_ON


def unavailable(shard: ShardState, request: HeartbeatRequest, call: Call, error: ErrorCode) -> HeartbeatResponse:
    if not request.group_id:
        return HeartbeatResponse(0, ErrorCode.INVALID_GROUP_ID)
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return GO_ON  # as Kafka does: the member keeps its partitions until its group is loaded
    return HeartbeatResponse(0, error)


def failed(response: HeartbeatResponse, version: int, error: ErrorCode) -> HeartbeatResponse:
    return HeartbeatResponse(0, error)
