"""Answers of each API when its shard cannot answer: still loading, not readable, or its log refused a write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kohort.coordinator.classic import join_group, sync_group
from kohort.coordinator.classic.delayed_join import join_error
from kohort.coordinator.offsets import offset_commit, offset_delete
from kohort.coordinator.outcome import Call
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.delete_groups import DeleteGroupsResponse
from kohort.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kohort.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
)
from kohort.protocol.messages.offset_commit import decode_response as decode_commit_response
from kohort.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from kohort.protocol.messages.offset_fetch import OffsetFetchResponse
from kohort.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from kohort.coordinator.shard import Status

FIRST_FETCH_WITH_ERROR = 2
FIRST_FETCH_OF_SEVERAL = 8


def unavailable_error(status: Status) -> ErrorCode:
    return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if status.value == "loading" else ErrorCode.NOT_COORDINATOR


def unavailable_response(shard: ShardState, request: Any, call: Call, status: Status) -> Any:
    """What is wrong with the request itself is said first; then, that its group cannot be asked."""
    error = unavailable_error(status)
    match request:
        case HeartbeatRequest():
            if not request.group_id:
                return HeartbeatResponse(0, ErrorCode.INVALID_GROUP_ID)
            # While loading a heartbeat is taken on trust: the member keeps its partitions.
            return HeartbeatResponse(0, 0 if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else error)
        case JoinGroupRequest():
            return join_group.refused(shard, request, call) or join_error(call.version, error, "")
        case SyncGroupRequest():
            return sync_group.refused(request, call) or SyncGroupResponse(0, error)
        case LeaveGroupRequest():
            return LeaveGroupResponse(0, error if request.group_id else ErrorCode.INVALID_GROUP_ID)
        case OffsetCommitRequest():
            return offset_commit.respond(offset_commit.look_up(shard, request, call.version), error)
        case OffsetDeleteRequest():
            return offset_delete.refused(request) or OffsetDeleteResponse(error)
    raise AssertionError(f"no answer for {type(request).__name__}")


def failed_response(response: Any, version: int, error: ErrorCode) -> Any:
    """What to say instead of `response`, whose records were not written; "join" and "sync" stand for parked calls.

    Answers that several shards gave together are changed in place: each shard has its say.
    """
    if type(response) is bytes:  # a commit's, which went by a plan
        response = decode_commit_response[version](response, 0)
    match response:
        case "join" | JoinGroupResponse():
            return join_error(version, error, "")
        case "sync" | SyncGroupResponse():
            return SyncGroupResponse(0, error)
        case HeartbeatResponse():
            return HeartbeatResponse(0, error)
        case LeaveGroupResponse():
            return LeaveGroupResponse(0, error)
        case OffsetDeleteResponse():
            return OffsetDeleteResponse(error)
        case OffsetCommitResponse():
            for topic in response.topics:
                topic.partitions = [
                    row if row.error_code else OffsetCommitResponsePartition(row.partition_index, error)
                    for row in topic.partitions
                ]
        case DeleteGroupsResponse():
            for result in response.results:  # whoever had an error of their own keeps it
                result.error_code = result.error_code or error
        case OffsetFetchResponse():
            _fail_fetch(response, version, error)
        case _:
            raise AssertionError(f"no failure for {type(response).__name__}")
    return response


def _fail_fetch(response: OffsetFetchResponse, version: int, error: ErrorCode) -> None:
    """v1 has no place for an error but the partitions; later there is one per request, then one per group."""
    if version >= FIRST_FETCH_OF_SEVERAL:
        for group in response.groups:
            group.topics, group.error_code = (), error
    elif version >= FIRST_FETCH_WITH_ERROR:
        response.topics, response.error_code = (), error
    else:
        for topic in response.topics:
            for partition in topic.partitions:
                partition.committed_offset, partition.metadata, partition.error_code = -1, "", error
