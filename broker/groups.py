"""The group APIs, as the broker serves them: each finds its group's shard and asks the coordinator.

What the decisions are stands in coordinator/, in a file per API. Here is only what crosses shards: requests that name
several groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kohort.broker.call import PARKED, Call
from kohort.broker.cluster.operations import GROUP_OPERATIONS
from kohort.coordinator.admin.delete_groups import delete_group
from kohort.coordinator.admin.describe_groups import describe_group
from kohort.coordinator.admin.list_groups import list_groups as groups_of
from kohort.coordinator.classic import heartbeat as heartbeats
from kohort.coordinator.classic import join_group as joins
from kohort.coordinator.classic import leave_group as leaves
from kohort.coordinator.classic import sync_group as syncs
from kohort.coordinator.failures import unavailable_error
from kohort.coordinator.offsets import offset_commit as commits
from kohort.coordinator.offsets import offset_delete as deletes
from kohort.coordinator.offsets.offset_fetch import offset_fetch as fetch_of
from kohort.coordinator.offsets.plain_fetch import plain_answer
from kohort.coordinator.offsets.recurring_commit import RecurringCommit, commit_again
from kohort.coordinator.outcome import Outcome
from kohort.coordinator.shard import Shard, Status
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from kohort.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.protocol.messages.heartbeat import encode_response as encode_heartbeat_response
from kohort.protocol.messages.join_group import JoinGroupRequest
from kohort.protocol.messages.leave_group import LeaveGroupRequest
from kohort.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kohort.protocol.messages.offset_commit import OffsetCommitRequest
from kohort.protocol.messages.offset_delete import OffsetDeleteRequest
from kohort.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from kohort.protocol.messages.sync_group import SyncGroupRequest

if TYPE_CHECKING:
    from kohort.broker.broker import Broker

ACTIVE = Status.ACTIVE
FIRST_FETCH_OF_SEVERAL = 8
GO_ON_BYTES = {version: bytes(encode(heartbeats.GO_ON)) for version, encode in encode_heartbeat_response.items()}


def join_group(broker: Broker, request: JoinGroupRequest, call: Call) -> Any:
    return broker.coordinator.submit(request.group_id, joins.join_group, request, call)


def sync_group(broker: Broker, request: SyncGroupRequest, call: Call) -> Any:
    return broker.coordinator.submit(request.group_id, syncs.sync_group, request, call)


def heartbeat(broker: Broker, request: HeartbeatRequest, call: Call) -> Any:
    answer = broker.coordinator.submit(request.group_id, heartbeats.heartbeat, request, call)
    return GO_ON_BYTES[call.version] if answer is heartbeats.GO_ON else answer


def leave_group(broker: Broker, request: LeaveGroupRequest, call: Call) -> Any:
    return broker.coordinator.submit(request.group_id, leaves.leave_group, request, call)


def offset_commit(broker: Broker, request: OffsetCommitRequest, call: Call) -> Any:
    handler = commit_again if type(request) is RecurringCommit else commits.offset_commit
    return broker.coordinator.submit(request.group_id, handler, request, call)


def offset_delete(broker: Broker, request: OffsetDeleteRequest, call: Call) -> Any:
    return broker.coordinator.submit(request.group_id, deletes.offset_delete, request, call)


class AfterAll:
    """Stands for a call that waits for several shards, and is answered when the last of them has written."""

    def __init__(self, call: Call, count: int) -> None:
        self._call = call
        self._left = count
        self.version = call.version

    def reply(self, response: Any) -> None:
        self._left -= 1
        if self._left == 0:
            self._call.reply(response)


# --- OffsetFetch


def offset_fetch(broker: Broker, request: OffsetFetchRequest, call: Call) -> Any:
    if call.version >= FIRST_FETCH_OF_SEVERAL and len(request.groups) == 1:
        group = request.groups[0]
        shard = broker.coordinator.runtime.shard_of(group.group_id)
        if shard.status is ACTIVE and not shard.has_pending_writes:
            answer = plain_answer(shard.state, group, request.require_stable, call.version)
            if answer is not None:
                return answer
    if call.version < FIRST_FETCH_OF_SEVERAL:
        topics = None
        if request.topics is not None:
            topics = [OffsetFetchRequestTopics(t.name, partition_indexes=t.partition_indexes) for t in request.topics]
        asked = [OffsetFetchRequestGroup(request.group_id, None, -1, topics)]
    else:
        asked = list(request.groups)
    answers = [_fetch(broker, group, request.require_stable, call) for group in asked]
    if call.version < FIRST_FETCH_OF_SEVERAL:
        response = _as_single(asked[0], answers[0], call.version)
    else:
        response = OffsetFetchResponse(groups=answers)
    return _after_writes(broker, [broker.coordinator.runtime.shard_of(g.group_id) for g in asked], call, response)


def _fetch(
    broker: Broker, group: OffsetFetchRequestGroup, require_stable: bool, call: Call
) -> OffsetFetchResponseGroup:
    shard = broker.coordinator.runtime.shard_of(group.group_id)
    if shard.status is not Status.ACTIVE:
        return OffsetFetchResponseGroup(group.group_id, (), unavailable_error(shard.status))
    return fetch_of(shard.state, group, require_stable, call.version)


def _as_single(asked: OffsetFetchRequestGroup, answer: OffsetFetchResponseGroup, version: int) -> OffsetFetchResponse:
    """v1-7: one group, without a group around it. v1 has no place for an error but the partitions."""
    topics = [
        OffsetFetchResponseTopic(
            topic.name,
            [
                OffsetFetchResponsePartition(
                    p.partition_index, p.committed_offset, p.committed_leader_epoch, p.metadata, p.error_code
                )
                for p in topic.partitions
            ],
        )
        for topic in answer.topics
    ]
    if answer.error_code and version < 2:
        topics = [
            OffsetFetchResponseTopic(
                topic.name,
                [OffsetFetchResponsePartition(i, -1, -1, "", answer.error_code) for i in topic.partition_indexes],
            )
            for topic in asked.topics or ()
        ]
    return OffsetFetchResponse(0, topics, answer.error_code)


def _after_writes(broker: Broker, shards: list[Shard], call: Call, response: Any) -> Any:
    """Offsets that are not durable yet may be in the answer: then it waits for them."""
    busy = list({shard.partition: shard for shard in shards if shard.has_pending_writes}.values())
    if not busy:
        return response
    waiting: Any = AfterAll(call, len(busy)) if len(busy) > 1 else call
    for shard in busy:
        broker.coordinator.answer_after_writes(shard, waiting, response)
    return PARKED


# --- several groups


def list_groups(broker: Broker, request: ListGroupsRequest, call: Call) -> ListGroupsResponse:  # noqa: ARG001
    groups = []
    for shard in broker.coordinator.runtime.shards:
        if shard.status is Status.LOADING:
            return ListGroupsResponse(0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ())
        if shard.status is Status.ACTIVE:
            groups += groups_of(shard.state, request)
    return ListGroupsResponse(0, 0, groups)


def describe_groups(broker: Broker, request: DescribeGroupsRequest, call: Call) -> DescribeGroupsResponse:
    groups = []
    for group_id in request.groups:  # who is asked for twice is described twice, as by Kafka
        shard = broker.coordinator.runtime.shard_of(group_id)
        if shard.status is Status.ACTIVE:
            described = describe_group(shard.state, group_id, call.version)
        else:
            described = DescribedGroup(unavailable_error(shard.status), None, group_id)
        if request.include_authorized_operations and not described.error_code:
            described.authorized_operations = GROUP_OPERATIONS
        groups.append(described)
    return DescribeGroupsResponse(0, groups)


def delete_groups(broker: Broker, request: DeleteGroupsRequest, call: Call) -> Any:
    coordinator = broker.coordinator
    results = []
    outcomes: dict[int, tuple[Shard, Outcome]] = {}
    for group_id in dict.fromkeys(request.groups_names):
        shard = coordinator.runtime.shard_of(group_id)
        if shard.status is not Status.ACTIVE:
            results.append(DeletableGroupResult(group_id, unavailable_error(shard.status)))
            continue
        _, out = outcomes.setdefault(shard.partition, (shard, Outcome()))
        results.append(DeletableGroupResult(group_id, delete_group(shard.state, group_id, out) or 0))
    response = DeleteGroupsResponse(0, results)
    busy = [(shard, out) for shard, out in outcomes.values() if out.records]
    if not busy:
        return response
    waiting: Any = AfterAll(call, len(busy))
    for shard, out in busy:
        out.reply(waiting, response)
        coordinator.commit(shard, out)
    return PARKED
