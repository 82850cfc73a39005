"""DeleteGroups (42), v0-2: groups without members, with all their offsets. v2 is flexible.

A group that is named twice is deleted once, as by Kafka.
"""

from __future__ import annotations

from kohort.coordinator.api import GroupApi, SeveralGroups
from kohort.coordinator.outcome import Call, Outcome
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


def delete_groups(shard: ShardState, request: DeleteGroupsRequest, call: Call) -> DeleteGroupsResponse | Outcome:
    out = Outcome()
    names = dict.fromkeys(request.groups_names)
    results = [DeletableGroupResult(group_id, _delete(shard, group_id, out) or 0) for group_id in names]
    response = DeleteGroupsResponse(0, results)
    if not out.records:
        return response
    out.reply(call, response)
    return out


def _delete(shard: ShardState, group_id: str, out: Outcome) -> ErrorCode | None:
    """Add the tombstones, those of the offsets first; or return why the group cannot be deleted."""
    group = shard.groups.get(group_id)
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if problem := group.check_delete():
        return problem
    out.records += shard.offsets.tombstones(group_id)
    out.records += group.tombstones()
    return None


def unavailable(shard: ShardState, request: DeleteGroupsRequest, call: Call, error: ErrorCode) -> DeleteGroupsResponse:
    names = dict.fromkeys(request.groups_names)
    return DeleteGroupsResponse(0, [DeletableGroupResult(group_id, error) for group_id in names])


def failed(response: DeleteGroupsResponse, version: int, error: ErrorCode) -> DeleteGroupsResponse:
    """Groups that could not be deleted keep their own error, unless that was read from what is not durable."""
    results = [
        DeletableGroupResult(each.group_id, each.error_code if _is_durable(each.error_code) else error)
        for each in response.results
    ]
    return DeleteGroupsResponse(0, results)


def _is_durable(error_code: int) -> bool:
    """GROUP_ID_NOT_FOUND may rest on a deletion that was not written after all."""
    return error_code not in (0, ErrorCode.GROUP_ID_NOT_FOUND)


DELETE_GROUPS = SeveralGroups(
    api=GroupApi(delete_groups, unavailable, failed),
    entries=lambda request: list(dict.fromkeys(request.groups_names)),
    group_id=str,
    part=lambda _, group_ids: DeleteGroupsRequest(group_ids),
    rows=lambda response: response.results,
    whole=lambda rows: DeleteGroupsResponse(0, rows),
)
