"""DescribeGroups (15), v0-6: state, members and assignments of classic groups.

v1 adds the throttle time; v3 authorized operations (KIP-430); v4 instance ids; v5 is flexible; v6 says
GROUP_ID_NOT_FOUND instead of showing an unknown group as Dead (KIP-1043).
A group that is named twice is described twice, as by Kafka, as long as the answer is not too large.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from kohort.coordinator.api import GroupApi, SeveralGroups, Steps, all_steps, in_slices
from kohort.coordinator.classic.group import find_classic
from kohort.coordinator.classic.state import STABLE
from kohort.coordinator.group import ALL_OPERATIONS, NOT_ASKED
from kohort.coordinator.outcome import Call
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kohort.protocol.wire import Message

FIRST_VERSION_WITH_NOT_FOUND = 6
MEMBER_BYTES = 150  # of memory for a member, without its ids, metadata and assignment


class UnknownGroup(Message):
    """As much of a DescribedGroup as is encoded, in a fifth of the memory: a request may name 100,000 such groups."""

    __slots__ = ("authorized_operations", "error_code", "group_id")

    group_state = "Dead"
    protocol_type = protocol_data = ""
    members: Sequence[DescribedGroupMember] = ()

    def __init__(self, group_id: str, error_code: int) -> None:
        self.group_id = group_id
        self.error_code = error_code
        self.authorized_operations = NOT_ASKED

    @property
    def error_message(self) -> str | None:
        return f"Group {self.group_id} not found." if self.error_code else None


def describe_groups(shard: ShardState, request: DescribeGroupsRequest, call: Call) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(0, [all_steps(row(shard, request, group_id, call)) for group_id in request.groups])


def row(
    shard: ShardState, request: DescribeGroupsRequest, group_id: str, call: Call, error: ErrorCode | None = None
) -> Steps[DescribedGroup]:
    if error is not None:
        return DescribedGroup(error, None, group_id)
    described = yield from describe_group(shard, group_id, call.version)
    if request.include_authorized_operations and not described.error_code:
        described.authorized_operations = ALL_OPERATIONS  # there is no authorizer: everyone may do everything
    return described


def describe_group(shard: ShardState, group_id: str, version: int) -> Steps[DescribedGroup]:
    group = find_classic(shard, group_id)
    if group is None:
        error = ErrorCode.GROUP_ID_NOT_FOUND if version >= FIRST_VERSION_WITH_NOT_FOUND else 0
        return cast("DescribedGroup", UnknownGroup(group_id, error))
    # A member has metadata for each of its protocols. Which one is shown is known only when the group has chosen.
    is_stable = group.state is STABLE
    protocol = group.protocol_name if is_stable else None
    described = DescribedGroup(
        0, None, group_id, group.state.value, group.protocol_type or "", protocol or "", (), NOT_ASKED
    )
    members: list[DescribedGroupMember] = []
    for some in in_slices(list(group.members.values())):
        members += [
            DescribedGroupMember(
                member.member_id, member.instance_id, member.client_id, member.client_host,
                member.metadata(protocol) if is_stable else b"", member.assignment,
            )
            for member in some
        ]  # fmt: skip
        yield
    described.members = members
    return described


def row_bytes(group: DescribedGroup) -> int:
    members = sum(
        len(each.member_id) + len(each.client_id) + len(each.member_metadata) + len(each.member_assignment)
        for each in group.members
    )
    return len(group.group_id) + members + MEMBER_BYTES * len(group.members)


def unavailable(
    shard: ShardState, request: DescribeGroupsRequest, call: Call, error: ErrorCode
) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(0, [DescribedGroup(error, None, group_id) for group_id in request.groups])


def failed(response: DescribeGroupsResponse, version: int, error: ErrorCode) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(0, [DescribedGroup(error, None, each.group_id) for each in response.groups])


DESCRIBE_GROUPS = SeveralGroups(
    api=GroupApi(describe_groups, unavailable, failed),
    entries=lambda request: request.groups,
    key=str,
    part=lambda request, group_ids: DescribeGroupsRequest(group_ids, request.include_authorized_operations),
    rows=lambda response: response.groups,
    whole=lambda rows: DescribeGroupsResponse(0, rows),
    row=row,
    row_bytes=row_bytes,
)
