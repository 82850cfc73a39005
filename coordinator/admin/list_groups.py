"""ListGroups (16), v0-5: all groups.

v1 adds the throttle time; v3 is flexible; v4 filters by state (KIP-518); v5 by type (KIP-848). Filters ignore case;
blanks around a state are ignored, those around a type are not. Words that name no state or type match nothing.
Groups of a shard that has failed are left out. While a shard is loading, the whole answer is an error that tells the
client to ask again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kohort.coordinator.api import EveryShard, GroupApi, Steps, all_steps, in_slices
from kohort.coordinator.group import CLASSIC, CONSUMER, SHARE, STREAMS
from kohort.coordinator.outcome import Call
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

TYPES = frozenset((CLASSIC, CONSUMER, SHARE, STREAMS))
CLASSIC_STATES = ("empty", "preparingrebalance", "completingrebalance", "stable", "dead")
STATES = frozenset((*CLASSIC_STATES, "assigning", "reconciling", "unknown"))  # of classic, consumer and streams groups
NO_SUCH_WORD = "?"  # matches nothing


def list_groups(shard: ShardState, request: ListGroupsRequest, call: Call) -> ListGroupsResponse:
    return all_steps(_list(shard, all_steps(short(request))))


def in_steps(
    shard: ShardState, request: ListGroupsRequest, call: Call, error: ErrorCode | None
) -> Steps[ListGroupsResponse]:
    if error is not None:
        return unavailable(shard, request, call, error)
    return (yield from _list(shard, request))


def _list(shard: ShardState, request: ListGroupsRequest) -> Steps[ListGroupsResponse]:
    states, types = set(request.states_filter), set(request.types_filter)
    listed: list[ListedGroup] = []
    for groups in in_slices(list(shard.groups.values())):
        listed += [
            ListedGroup(group.group_id, group.protocol_type or "", group.state_name, group.type)
            for group in groups
            if (not types or group.type in types) and (not states or group.state_name.lower() in states)
        ]
        yield
    return ListGroupsResponse(0, 0, listed)


def short(request: ListGroupsRequest) -> Steps[ListGroupsRequest]:
    """The same filters, with each word once, in small letters, and without words that are no state or type."""
    states = yield from _words((word.strip() for word in request.states_filter), STATES)
    types = yield from _words(request.types_filter, TYPES)
    return ListGroupsRequest(states, types)


def _words(words: Iterable[str], known: frozenset[str]) -> Steps[list[str]]:
    found: dict[str, None] = {}
    for some in in_slices(words):
        found.update(dict.fromkeys(word if word in known else NO_SUCH_WORD for word in map(str.lower, some)))
        yield
    return list(found)


def unavailable(shard: ShardState, request: ListGroupsRequest, call: Call, error: ErrorCode) -> ListGroupsResponse:
    is_loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return ListGroupsResponse(0, error if is_loading else 0, ())


def failed(response: ListGroupsResponse, version: int, error: ErrorCode) -> ListGroupsResponse:
    """The shard is loaded again from its log: until then nobody knows its groups, and the client must ask again."""
    return ListGroupsResponse(0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ())


def whole(parts: Sequence[ListGroupsResponse]) -> ListGroupsResponse:
    if error := next((part.error_code for part in parts if part.error_code), 0):
        return ListGroupsResponse(0, error, ())
    return ListGroupsResponse(0, 0, [group for part in parts for group in part.groups])


LIST_GROUPS = EveryShard(GroupApi(list_groups, unavailable, failed, steps=in_steps), whole, short)
