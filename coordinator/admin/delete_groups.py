"""DeleteGroups (42), v0-2: groups without members, with all their offsets. v2 is flexible."""

from __future__ import annotations

from kohort.coordinator.classic.state import EMPTY
from kohort.coordinator.offsets.expiration import group_tombstone, offset_tombstone
from kohort.coordinator.outcome import Outcome
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.error_codes import ErrorCode


def delete_group(shard: ShardState, group_id: str, out: Outcome) -> ErrorCode | None:
    """The tombstones, offsets first; or why not."""
    group, foreign = shard.groups.get(group_id), shard.foreign.get(group_id)
    if foreign is not None:
        if problem := foreign.delete_problem():
            return problem
    elif group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    elif group.state is not EMPTY:
        return ErrorCode.NON_EMPTY_GROUP
    places = {(topic, index) for _, topic, index in shard.offsets.pending_places(group_id)}
    for topic, partitions in shard.offsets.topics(group_id).items():
        places |= {(topic, index) for index in partitions}
    out.records += [offset_tombstone(group_id, topic, index) for topic, index in sorted(places)]
    out.records += [group_tombstone(group_id)] if foreign is None else foreign.tombstones()
    return None
