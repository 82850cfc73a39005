"""The group APIs, as the broker serves them: each is handed to the coordinator, which decides (see coordinator/).

Requests about several groups or all of them, and long ones about one group, are handled in steps (broker/steps.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.coordinator.admin.list_groups import LIST_GROUPS
from kohort.coordinator.classic.describe_groups import DESCRIBE_GROUPS
from kohort.coordinator.classic.heartbeat import GO_ON
from kohort.coordinator.consumer.consumer_group_describe import CONSUMER_GROUP_DESCRIBE
from kohort.coordinator.membership import (
    CONSUMER_GROUP_HEARTBEAT,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    SHARE_GROUP_HEARTBEAT,
    SYNC_GROUP,
)
from kohort.coordinator.offsets.offset_commit import OFFSET_COMMIT_API
from kohort.coordinator.offsets.offset_delete import OFFSET_DELETE
from kohort.coordinator.offsets.offset_fetch import FIRST_VERSION_WITH_SEVERAL_GROUPS, OFFSET_FETCH
from kohort.coordinator.offsets.recurring_commit import RECURRING_COMMIT, RecurringCommit
from kohort.coordinator.outcome import Parked
from kohort.coordinator.share.share_group_describe import SHARE_GROUP_DESCRIBE
from kohort.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from kohort.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kohort.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kohort.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.protocol.messages.heartbeat import encode_response as encode_heartbeat_response
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kohort.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kohort.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kohort.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kohort.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from kohort.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kohort.protocol.messages.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from kohort.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from kohort.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kohort.protocol.wire import Encoded

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call
    from kohort.coordinator.api import Steps


def join_group(broker: Broker, request: JoinGroupRequest, call: Call) -> JoinGroupResponse | Parked:
    return broker.coordinator.submit(request.group_id, JOIN_GROUP, request, call)


def sync_group(
    broker: Broker, request: SyncGroupRequest, call: Call
) -> SyncGroupResponse | Parked | Steps[SyncGroupResponse | Parked]:
    if call.is_long:
        return broker.coordinator.submit_in_steps(request.group_id, SYNC_GROUP, request, call)
    return broker.coordinator.submit(request.group_id, SYNC_GROUP, request, call)


FEW_TOPICS = 200  # in a subscription: so many are handled in one step


class EncodedHeartbeatResponse(HeartbeatResponse):
    """Nearly every answer to a heartbeat is "go on": its bytes are made once per version."""

    __slots__ = ("encoded",)

    def __init__(self, version: int) -> None:
        super().__init__(GO_ON.throttle_time_ms, GO_ON.error_code)
        self.encoded = bytes(encode_heartbeat_response[version](GO_ON))


ENCODED_GO_ON = {version: EncodedHeartbeatResponse(version) for version in encode_heartbeat_response}


def heartbeat(broker: Broker, request: HeartbeatRequest, call: Call) -> HeartbeatResponse | Parked:
    answer = broker.coordinator.submit(request.group_id, HEARTBEAT, request, call)
    return ENCODED_GO_ON[call.version] if answer is GO_ON else answer


def leave_group(
    broker: Broker, request: LeaveGroupRequest, call: Call
) -> LeaveGroupResponse | Parked | Steps[LeaveGroupResponse | Parked]:
    if call.is_long:
        return broker.coordinator.submit_in_steps(request.group_id, LEAVE_GROUP, request, call)
    return broker.coordinator.submit(request.group_id, LEAVE_GROUP, request, call)


def offset_commit(
    broker: Broker, request: OffsetCommitRequest, call: Call
) -> OffsetCommitResponse | Parked | Steps[OffsetCommitResponse | Parked]:
    if isinstance(request, RecurringCommit):
        return broker.coordinator.submit(request.group_id, RECURRING_COMMIT, request, call)
    if call.is_long:
        return broker.coordinator.submit_in_steps(request.group_id, OFFSET_COMMIT_API, request, call)
    return broker.coordinator.submit(request.group_id, OFFSET_COMMIT_API, request, call)


def offset_fetch(
    broker: Broker, request: OffsetFetchRequest, call: Call
) -> OffsetFetchResponse | Encoded | Parked | Steps[OffsetFetchResponse | Parked]:
    coordinator = broker.coordinator
    if call.version < FIRST_VERSION_WITH_SEVERAL_GROUPS:
        if call.is_long or request.topics is None:
            return coordinator.submit_in_steps(request.group_id, OFFSET_FETCH.api, request, call)
        return coordinator.submit(request.group_id, OFFSET_FETCH.api, request, call)
    if len(request.groups) == 1 and not call.is_long:
        (group,) = request.groups
        plain = coordinator.runtime.plain_fetch(group, request.require_stable, call.version)
        if plain is not None:
            return plain
        if group.topics is not None:
            return coordinator.submit(group.group_id, OFFSET_FETCH.api, request, call)
    return coordinator.submit_several(OFFSET_FETCH, request, call)


def offset_delete(
    broker: Broker, request: OffsetDeleteRequest, call: Call
) -> OffsetDeleteResponse | Parked | Steps[OffsetDeleteResponse | Parked]:
    if call.is_long:
        return broker.coordinator.submit_in_steps(request.group_id, OFFSET_DELETE, request, call)
    return broker.coordinator.submit(request.group_id, OFFSET_DELETE, request, call)


def list_groups(broker: Broker, request: ListGroupsRequest, call: Call) -> Steps[ListGroupsResponse | Parked]:
    return broker.coordinator.submit_everywhere(LIST_GROUPS, request, call)


def describe_groups(
    broker: Broker, request: DescribeGroupsRequest, call: Call
) -> Steps[DescribeGroupsResponse | Parked]:
    return broker.coordinator.submit_several(DESCRIBE_GROUPS, request, call)


def consumer_group_heartbeat(
    broker: Broker, request: ConsumerGroupHeartbeatRequest, call: Call
) -> ConsumerGroupHeartbeatResponse | Parked | Steps[ConsumerGroupHeartbeatResponse | Parked]:
    if call.is_long or len(request.subscribed_topic_names or ()) > FEW_TOPICS:
        return broker.coordinator.submit_in_steps(request.group_id, CONSUMER_GROUP_HEARTBEAT, request, call)
    return broker.coordinator.submit(request.group_id, CONSUMER_GROUP_HEARTBEAT, request, call)


def consumer_group_describe(
    broker: Broker, request: ConsumerGroupDescribeRequest, call: Call
) -> Steps[ConsumerGroupDescribeResponse | Parked]:
    return broker.coordinator.submit_several(CONSUMER_GROUP_DESCRIBE, request, call)


def share_group_heartbeat(
    broker: Broker, request: ShareGroupHeartbeatRequest, call: Call
) -> ShareGroupHeartbeatResponse | Parked | Steps[ShareGroupHeartbeatResponse | Parked]:
    if call.is_long or len(request.subscribed_topic_names or ()) > FEW_TOPICS:
        return broker.coordinator.submit_in_steps(request.group_id, SHARE_GROUP_HEARTBEAT, request, call)
    return broker.coordinator.submit(request.group_id, SHARE_GROUP_HEARTBEAT, request, call)


def share_group_describe(
    broker: Broker, request: ShareGroupDescribeRequest, call: Call
) -> Steps[ShareGroupDescribeResponse | Parked]:
    return broker.coordinator.submit_several(SHARE_GROUP_DESCRIBE, request, call)
