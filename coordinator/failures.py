"""Answers of each API when its shard cannot answer: still loading, not readable, or its log refused a write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinator.classic.delayed_join import join_error
from protocol.error_codes import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from coordinator.shard import Status


def unavailable_error(status: Status) -> ErrorCode:
    return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if status.value == "loading" else ErrorCode.NOT_COORDINATOR


def unavailable_response(request: Any, version: int, status: Status) -> Any:
    """Before anything of the group was looked at."""
    error = unavailable_error(status)
    match request:
        case HeartbeatRequest():
            # While loading a heartbeat is taken on trust: the member keeps its partitions.
            return HeartbeatResponse(0, 0 if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else error)
        case JoinGroupRequest():
            return join_error(version, error, "")
        case SyncGroupRequest():
            return SyncGroupResponse(0, error)
        case LeaveGroupRequest():
            return LeaveGroupResponse(0, error)
        case OffsetCommitRequest():
            return _offset_commit_failure(request.topics, error)
    # OffsetDelete and the like: the error stands at the top
    module = __import__(type(request).__module__, fromlist=["*"])
    return getattr(module, type(request).__name__.replace("Request", "Response"))(error_code=error)


def failed_response(response: Any, version: int, error: ErrorCode) -> Any:
    """What to say instead of `response`, whose records were not written; "join" and "sync" stand for parked calls."""
    match response:
        case "join":
            return join_error(version, error, "")
        case "sync":
            return SyncGroupResponse(0, error)
        case JoinGroupResponse():
            return join_error(version, error, "")
        case SyncGroupResponse():
            return SyncGroupResponse(0, error)
        case OffsetCommitResponse():
            return _offset_commit_failure(response.topics, error)
    return _with_error(response, error)


def _with_error(response: Any, error: ErrorCode) -> Any:
    """Every error code in the answer says it, at the top and below."""
    for name in response.__slots__:
        value = getattr(response, name)
        if name == "error_code":
            response.error_code = error
        elif isinstance(value, list):
            for inner in value:
                if hasattr(inner, "__slots__"):
                    _with_error(inner, error)
    return response


def _offset_commit_failure(topics: Any, error: ErrorCode) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        0,
        [
            OffsetCommitResponseTopic(
                topic.name,
                topic.topic_id,
                [
                    OffsetCommitResponsePartition(p.partition_index, getattr(p, "error_code", 0) or error)
                    for p in topic.partitions
                ],
            )
            for topic in topics
        ],
    )
