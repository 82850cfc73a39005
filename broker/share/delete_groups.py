"""DeleteGroups (42), where share groups may be among the groups: their states go first.

A share group whose states cannot be deleted stays. All other groups are deleted as ever: coordinator/admin/.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.broker.share.coordinators import InternalCall, ask_group, delete, forget_deliveries
from kohort.broker.steps import WaitingSteps
from kohort.coordinator.admin.delete_groups import DELETE_GROUPS
from kohort.coordinator.group import SHARE
from kohort.coordinator.outcome import Parked
from kohort.coordinator.share.offsets import BEGIN_GROUP_DELETION, AboutGroup
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call


def delete_groups(
    broker: Broker, request: DeleteGroupsRequest, call: Call
) -> WaitingSteps[DeleteGroupsResponse | Parked]:
    shared: dict[str, ErrorCode] = {}
    for group_id in request.groups_names:
        if group_id not in shared and _is_share_group(broker, group_id):
            shared[group_id] = yield from _delete_states(broker, group_id)
        yield None
    if not shared:
        return (yield from broker.coordinator.submit_several(DELETE_GROUPS, request, call))
    refused = {group_id: error for group_id, error in shared.items() if error}
    rest = DeleteGroupsRequest([each for each in request.groups_names if each not in refused])
    own_call = InternalCall(broker, call.version)
    answer = yield from broker.coordinator.submit_several(DELETE_GROUPS, rest, own_call)
    results = (yield from own_call.wait_for(answer)).results
    return DeleteGroupsResponse(0, [*(DeletableGroupResult(*each) for each in refused.items()), *results])


def _is_share_group(broker: Broker, group_id: str) -> bool:
    group = broker.coordinator.runtime.shard_of(group_id).state.groups.get(group_id)
    return group is not None and group.type == SHARE


def _delete_states(broker: Broker, group_id: str) -> WaitingSteps[ErrorCode]:
    part = yield from ask_group(broker, group_id, BEGIN_GROUP_DELETION, AboutGroup(group_id))
    if part.error or not part.places:
        return part.error
    asked = delete(broker, group_id, part.places)
    yield asked.waits
    forget_deliveries(broker, group_id)
    return next((error for error, _ in asked.problems.values()), ErrorCode.NONE)
