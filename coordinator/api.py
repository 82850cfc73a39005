"""How an API of groups is served: what the runtime has to know of it.

A handler works on one shard. An API whose requests name several groups has a `SeveralGroups` on top, with which the
runtime asks each shard for its part and puts the answers together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from kohort.coordinator.outcome import Call, InPieces, Outcome, Parked
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.wire import Message

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)
Asked = TypeVar("Asked")
Row = TypeVar("Row", bound=Message)


@dataclass(frozen=True, slots=True)
class GroupApi(Generic[Request, Response]):
    handle: Callable[[ShardState, Request, Call], Response | Outcome | Parked | InPieces]

    # The answer while the shard is loading, is not owned by this node, or has failed.
    unavailable: Callable[[ShardState, Request, Call, ErrorCode], Response]

    # The answer to send instead of this response, in this API version: its records could not be written.
    failed: Callable[[Response, int, ErrorCode], Response]

    # A bare response may rest on records that are not durable yet, and waits for them.
    waits_for_writes: bool = True


@dataclass(frozen=True, slots=True)
class SeveralGroups(Generic[Request, Response, Asked, Row]):
    """An API whose request has an entry for each group, and whose answer has a row for each entry."""

    api: GroupApi[Request, Response]  # for a request whose entries belong to one shard
    entries: Callable[[Request], Sequence[Asked]]
    group_id: Callable[[Asked], str]
    part: Callable[[Request, Sequence[Asked]], Request]  # the request for some of its entries
    rows: Callable[[Response], Sequence[Row]]
    whole: Callable[[Sequence[Row]], Response]


@dataclass(frozen=True, slots=True)
class EveryShard(Generic[Request, Response]):
    """An API about all groups that there are."""

    api: GroupApi[Request, Response]
    whole: Callable[[Sequence[Response]], Response]
