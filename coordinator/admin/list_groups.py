"""ListGroups (16), v0-5: all groups. v1 adds the throttle time; v3 is flexible; v4 filters by state (KIP-518); v5 by
type (KIP-848). Filters know no case; a state may have blanks around it, a type not. Other words match nothing."""

from __future__ import annotations

from kohort.coordinator.shard_state import ShardState
from kohort.protocol.messages.list_groups import ListedGroup, ListGroupsRequest

CLASSIC = "classic"


def list_groups(shard: ShardState, request: ListGroupsRequest) -> list[ListedGroup]:
    states = {state.strip().lower() for state in request.states_filter}
    types = {each.lower() for each in request.types_filter}
    listed = []
    if not types or CLASSIC in types:
        listed += [
            ListedGroup(group.group_id, group.protocol_type or "", group.state.value, CLASSIC)
            for group in shard.groups.values()
        ]
    listed += [
        ListedGroup(foreign.group_id, foreign.type, foreign.state, foreign.type)
        for foreign in shard.foreign.values()
        if not types or foreign.type in types
    ]
    return [each for each in listed if not states or each.group_state.lower() in states]
