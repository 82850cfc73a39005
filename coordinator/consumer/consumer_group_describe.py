"""ConsumerGroupDescribe (69), v0-1: epochs, members, what they have and shall have (KIP-848).

v1 adds the protocol that a member speaks (KIP-1099). A group that is named twice is described twice, as by Kafka, as
long as the answer is not too large.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from kohort.coordinator.api import ELEMENTS_IN_STEP, GroupApi, SeveralGroups, Steps, all_steps
from kohort.coordinator.assignors.server_side import TopicId
from kohort.coordinator.consumer.group import ConsumerGroup, find_consumer
from kohort.coordinator.consumer.member import ConsumerMember
from kohort.coordinator.consumer.target import preferred_assignor
from kohort.coordinator.describing import UnknownGroup, member_bytes, topics_that_exist
from kohort.coordinator.group import ALL_OPERATIONS, NOT_ASKED
from kohort.coordinator.outcome import Call
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


def consumer_group_describe(
    shard: ShardState, request: ConsumerGroupDescribeRequest, call: Call
) -> ConsumerGroupDescribeResponse:
    rows = [all_steps(row(shard, request, group_id, call)) for group_id in request.group_ids]
    return ConsumerGroupDescribeResponse(0, rows)


def row(
    shard: ShardState, request: ConsumerGroupDescribeRequest, group_id: str, call: Call, error: ErrorCode | None = None
) -> Steps[DescribedGroup]:
    if not shard.config.consumer_enabled:
        return DescribedGroup(ErrorCode.UNSUPPORTED_VERSION, None, group_id)
    if not group_id:
        return DescribedGroup(ErrorCode.INVALID_GROUP_ID, None, "")
    if error is not None:
        return DescribedGroup(error, None, group_id)
    group = find_consumer(shard, group_id)
    if group is None:
        return cast("DescribedGroup", UnknownGroup("consumer group", group_id, group_id in shard.groups))
    described = yield from _describe(shard, group)
    if request.include_authorized_operations:
        described.authorized_operations = ALL_OPERATIONS  # there is no authorizer: everyone may do everything
    return described


def _describe(shard: ShardState, group: ConsumerGroup) -> Steps[DescribedGroup]:
    assignor = preferred_assignor(group, shard.config.consumer_assignors[0])
    described = DescribedGroup(
        0, None, group.group_id, group.state_name, group.epoch, group.assignment_epoch, assignor, (), NOT_ASKED
    )
    members: list[Member] = []
    size = 0
    for member in list(group.members.values()):
        members.append(told := _member(shard, group, member))
        size += 1 + len(told.assignment.topic_partitions) + len(told.target_assignment.topic_partitions)
        if size >= ELEMENTS_IN_STEP:
            size = 0
            yield
    described.members = members
    return described


def _member(shard: ShardState, group: ConsumerGroup, member: ConsumerMember) -> Member:
    held: dict[TopicId, list[int]] = {}
    for partitions in (member.assigned, member.pending_revocation):
        for topic_id, owned in partitions.items():
            held.setdefault(topic_id, []).extend(owned)
    return Member(
        member.member_id,
        member.instance_id,
        member.rack_id,
        member.epoch,
        member.client_id,
        member.client_host,
        member.topic_names,
        member.topic_regex,
        _assignment(shard, held),
        _assignment(shard, group.target_of(member.member_id)),
        CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _assignment(shard: ShardState, partitions: Mapping[TopicId, Iterable[int]]) -> Assignment:
    there = topics_that_exist(shard, partitions)
    return Assignment([TopicPartitions(topic_id, name, sorted(owned)) for topic_id, name, owned in there])


def row_bytes(group: DescribedGroup) -> int:
    return len(group.group_id) + sum(map(_member_bytes, group.members))


def _member_bytes(member: Member) -> int:
    return member_bytes(member, [*member.assignment.topic_partitions, *member.target_assignment.topic_partitions])


def unavailable(
    shard: ShardState, request: ConsumerGroupDescribeRequest, call: Call, error: ErrorCode
) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(
        0, [all_steps(row(shard, request, group_id, call, error)) for group_id in request.group_ids]
    )


def failed(response: ConsumerGroupDescribeResponse, version: int, error: ErrorCode) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(0, [DescribedGroup(error, None, each.group_id) for each in response.groups])


CONSUMER_GROUP_DESCRIBE = SeveralGroups(
    api=GroupApi(consumer_group_describe, unavailable, failed),
    entries=lambda request: request.group_ids,
    key=str,
    part=lambda request, group_ids: ConsumerGroupDescribeRequest(group_ids, request.include_authorized_operations),
    rows=lambda response: response.groups,
    whole=lambda rows: ConsumerGroupDescribeResponse(0, rows),
    row=row,
    row_bytes=row_bytes,
)
