"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: the kind of the group decides who answers.

Classic groups answer in classic/. Groups of another kind have members of their own, who do not speak these APIs; a
JoinGroup to one of them is refused, unless it is empty and makes room.
"""

from __future__ import annotations

from kohort.coordinator.api import GroupApi
from kohort.coordinator.classic import heartbeat as heartbeats
from kohort.coordinator.classic import join_group as joins
from kohort.coordinator.classic import leave_group as leaves
from kohort.coordinator.classic import sync_group as syncs
from kohort.coordinator.classic.answers import join_error
from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.outcome import Call, Outcome, Parked
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse


def join_group(shard: ShardState, request: JoinGroupRequest, call: Call) -> JoinGroupResponse | Outcome | Parked:
    group = shard.groups.get(request.group_id)
    if group is not None and not isinstance(group, ClassicGroup) and not group.can_be_replaced:
        refusal = joins.refused(shard, request, call)
        return refusal or join_error(call.version, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    return joins.join_group(shard, request, call)


# The answer to a JoinGroup never rests on what is not durable yet: Kafka, too, hands out member ids without waiting.
JOIN_GROUP = GroupApi(join_group, joins.unavailable, joins.failed, waits_for_writes=False)
SYNC_GROUP = GroupApi(syncs.sync_group, syncs.unavailable, syncs.failed, steps=syncs.in_steps)
HEARTBEAT = GroupApi(heartbeats.heartbeat, heartbeats.unavailable, heartbeats.failed)
LEAVE_GROUP = GroupApi(leaves.leave_group, leaves.unavailable, leaves.failed, steps=leaves.in_steps)
