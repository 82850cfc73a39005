"""ShareGroupDescribe (77), v1: epochs, members, and what they have (KIP-932). v0 was early access.

A group that is named twice is described twice, as by Kafka, as long as the answer is not too large.
"""

from __future__ import annotations

from typing import cast

from kohort.coordinator.api import GroupApi, SeveralGroups, Steps, all_steps, in_slices
from kohort.coordinator.describing import UnknownGroup, member_bytes, topics_that_exist
from kohort.coordinator.group import ALL_OPERATIONS, NOT_ASKED
from kohort.coordinator.outcome import Call
from kohort.coordinator.shard_state import ShardState
from kohort.coordinator.share.group import ShareGroup, find_share
from kohort.coordinator.share.member import Assigned, ShareMember
from kohort.coordinator.share.target import ASSIGNOR
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    TopicPartitions,
)


def share_group_describe(
    shard: ShardState, request: ShareGroupDescribeRequest, call: Call
) -> ShareGroupDescribeResponse:
    rows = [all_steps(row(shard, request, group_id, call)) for group_id in request.group_ids]
    return ShareGroupDescribeResponse(0, rows)


def row(
    shard: ShardState, request: ShareGroupDescribeRequest, group_id: str, call: Call, error: ErrorCode | None = None
) -> Steps[DescribedGroup]:
    if not group_id:
        return DescribedGroup(ErrorCode.INVALID_GROUP_ID, None, "")
    if error is not None:
        return DescribedGroup(error, None, group_id)
    group = find_share(shard, group_id)
    if group is None:
        return cast("DescribedGroup", UnknownGroup("share group", group_id, group_id in shard.groups))
    described = yield from _describe(shard, group)
    if request.include_authorized_operations:
        described.authorized_operations = ALL_OPERATIONS  # there is no authorizer: everyone may do everything
    return described


def _describe(shard: ShardState, group: ShareGroup) -> Steps[DescribedGroup]:
    described = DescribedGroup(
        0, None, group.group_id, group.state_name, group.epoch, group.assignment_epoch, ASSIGNOR, (), NOT_ASKED
    )
    members: list[Member] = []
    for some in in_slices(list(group.members.values())):
        members += [_member(shard, member) for member in some]
        yield
    described.members = members
    return described


def _member(shard: ShardState, member: ShareMember) -> Member:
    return Member(
        member.member_id,
        member.rack_id,
        member.epoch,
        member.client_id,
        member.client_host,
        member.topic_names,
        _assignment(shard, member.assigned),
    )


def _assignment(shard: ShardState, assigned: Assigned) -> Assignment:
    return Assignment([TopicPartitions(*topic) for topic in topics_that_exist(shard, assigned)])


def row_bytes(group: DescribedGroup) -> int:
    return len(group.group_id) + sum(map(_member_bytes, group.members))


def _member_bytes(member: Member) -> int:
    return member_bytes(member, member.assignment.topic_partitions)


def unavailable(
    shard: ShardState, request: ShareGroupDescribeRequest, call: Call, error: ErrorCode
) -> ShareGroupDescribeResponse:
    return ShareGroupDescribeResponse(
        0, [all_steps(row(shard, request, group_id, call, error)) for group_id in request.group_ids]
    )


def failed(response: ShareGroupDescribeResponse, version: int, error: ErrorCode) -> ShareGroupDescribeResponse:
    return ShareGroupDescribeResponse(0, [DescribedGroup(error, None, each.group_id) for each in response.groups])


SHARE_GROUP_DESCRIBE = SeveralGroups(
    api=GroupApi(share_group_describe, unavailable, failed),
    entries=lambda request: request.group_ids,
    key=str,
    part=lambda request, group_ids: ShareGroupDescribeRequest(group_ids, request.include_authorized_operations),
    rows=lambda response: response.groups,
    whole=lambda rows: ShareGroupDescribeResponse(0, rows),
    row=row,
    row_bytes=row_bytes,
)
