"""DeleteGroups (42), v0-2: groups without members, with all their offsets. v2 is flexible.

A group that is named twice is deleted once, as by Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator

from kohort.coordinator.api import GroupApi, SeveralGroups
from kohort.coordinator.outcome import Call, InPieces, OffsetTombstones, Outcome
from kohort.coordinator.pieces import Pieces, slices
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


def delete_groups(shard: ShardState, request: DeleteGroupsRequest, call: Call) -> InPieces:
    results = [DeletableGroupResult(group_id, 0) for group_id in dict.fromkeys(request.groups_names)]
    return InPieces(_delete_all(shard, results), call, DeleteGroupsResponse(0, results))


def _delete_all(shard: ShardState, results: list[DeletableGroupResult]) -> Iterator[Outcome]:
    pieces = Pieces()
    for result in results:
        yield from _delete(shard, result, pieces)
    yield from pieces.rest()


def _delete(shard: ShardState, result: DeletableGroupResult, pieces: Pieces) -> Iterator[Outcome]:
    """The tombstones, those of the offsets first; or the reason why the group cannot be deleted.

    The group can have more offsets than fit into one batch. If somebody joins the group while its offsets are being
    deleted, the group stays, without the offsets that are gone.
    """
    group_id = result.group_id
    yield from pieces.looked_at(1)
    result.error_code = _problem(shard, group_id)
    if result.error_code:
        return
    number = -1
    while number != pieces.number:  # somebody may have committed an offset between two pieces
        number = pieces.number
        for topic in shard.offsets.deletable_topics(group_id):
            for indexes in slices(shard.offsets.deletable_partitions(group_id, topic)):
                pieces.add(OffsetTombstones(group_id, topic, indexes))
                yield from pieces.looked_at(len(indexes))
                result.error_code = _problem(shard, group_id)
                if result.error_code:
                    return
        if number != pieces.number:
            yield from pieces.rest()
    pieces.end(shard.groups[group_id])


def _problem(shard: ShardState, group_id: str) -> int:
    group = shard.groups.get(group_id)
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return group.check_delete() or 0


def unavailable(shard: ShardState, request: DeleteGroupsRequest, call: Call, error: ErrorCode) -> DeleteGroupsResponse:
    names = dict.fromkeys(request.groups_names)
    return DeleteGroupsResponse(0, [DeletableGroupResult(group_id, error) for group_id in names])


def failed(response: DeleteGroupsResponse, version: int, error: ErrorCode) -> DeleteGroupsResponse:
    """A group that could not be deleted keeps its error, unless that error rests on records that are not durable."""
    results = [
        DeletableGroupResult(each.group_id, each.error_code if _is_durable(each.error_code) else error)
        for each in response.results
    ]
    return DeleteGroupsResponse(0, results)


def _is_durable(error_code: int) -> bool:
    """False for success, and for GROUP_ID_NOT_FOUND: both may rest on a deletion that could not be written."""
    return error_code not in (0, ErrorCode.GROUP_ID_NOT_FOUND)


DELETE_GROUPS = SeveralGroups(
    api=GroupApi(delete_groups, unavailable, failed),
    entries=lambda request: request.groups_names,
    key=str,
    part=lambda _, group_ids: DeleteGroupsRequest(group_ids),
    rows=lambda response: response.results,
    whole=lambda rows: DeleteGroupsResponse(0, rows),
    answers_once=True,
)
