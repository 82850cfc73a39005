"""How an API of a coordinator is served: what the runtime has to know of it.

A handler works on the state of one shard. An API whose requests name several groups, or whatever else the coordinator
keeps by its key, has a `Several` on top, with which the runtime asks each shard for its part and puts the answers
together. APIs of the group coordinator are a `GroupApi`, a `SeveralGroups` and an `EveryShard`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from kohort.coordinator.outcome import Call, InPieces, Outcome, Parked, StepOutcome
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.wire import Message

if TYPE_CHECKING:
    from kohort.coordinator.shard_state import ShardState  # noqa: F401 - named in strings below

State = TypeVar("State")  # of one shard
Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)
Asked = TypeVar("Asked")
Row = TypeVar("Row", bound=Message)
Result = TypeVar("Result")
Element = TypeVar("Element")


Steps = Generator[None, None, Result]  # other requests may be served after each step; returns the result
Answer: TypeAlias = Response | Outcome | StepOutcome | Parked | InPieces

ELEMENTS_IN_STEP = 500


def all_steps(steps: Steps[Result]) -> Result:
    """Take all steps at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result


def in_slices(elements: Iterable[Element], size: int = ELEMENTS_IN_STEP) -> Iterator[list[Element]]:
    """The elements, as many at a time as one step handles. The array of a large request must not be indexed: that
    reads it from the start each time.
    """
    rest = iter(elements)
    while some := list(islice(rest, size)):
        yield some


@dataclass(frozen=True, slots=True)
class Api(Generic[State, Request, Response]):
    handle: Callable[[State, Request, Call], Answer[Response]]

    # The answer while the shard is loading, is not owned by this node, or has failed.
    unavailable: Callable[[State, Request, Call, ErrorCode], Response]

    # The answer to send instead of this response, in this API version: its records could not be written.
    failed: Callable[[Response, int, ErrorCode], Response]

    # A bare response may rest on records that are not durable yet, and waits for them.
    waits_for_writes: bool = True

    # For long requests: the same as `handle`, or as `unavailable` if an error is given. Other requests may change the
    # state between two steps. The steps themselves change it in the last one only.
    steps: Callable[[State, Request, Call, ErrorCode | None], Steps[Answer[Response]]] | None = None

    # Many clients send such requests at the same time, and nobody minds if the answer takes a millisecond longer: the
    # host may wait for more of them, and write the records of all together.
    gathers: bool = False


@dataclass(frozen=True, slots=True)
class Several(Generic[State, Request, Response, Asked, Row]):
    """An API whose request has entries with keys of their own, and whose answer has a row for each entry."""

    api: Api[State, Request, Response]  # for a request whose entries belong to one shard
    entries: Callable[[Request], Iterable[Asked]]
    key: Callable[[Asked], str]  # the key of an entry decides about its shard: the group id, for the group coordinator
    part: Callable[[Request, Sequence[Asked]], Request]  # the request for some of its entries
    rows: Callable[[Response], Sequence[Row]]
    whole: Callable[[Sequence[Row]], Response]

    answers_once: bool = False  # an entry that is named again has no row of its own

    # For APIs that only read: the row of an entry, or a row with the error, if one is given; and about how many bytes a
    # row takes in the answer. None: `api` answers for all entries of a shard at once.
    row: Callable[[State, Request, Asked, Call, ErrorCode | None], Steps[Row]] | None = None
    row_bytes: Callable[[Row], int] = lambda _: 0


@dataclass(frozen=True, slots=True)
class Everywhere(Generic[State, Request, Response]):
    """An API about all that there is in all shards."""

    api: Api[State, Request, Response]
    whole: Callable[[Sequence[Response]], Response]
    short: Callable[[Request], Steps[Request]]  # the same request, so short that each shard can look at all of it


@dataclass(frozen=True, slots=True)
class GroupApi(Api["ShardState", Request, Response], Generic[Request, Response]):
    """An API about one group."""


@dataclass(frozen=True, slots=True)
class SeveralGroups(Several["ShardState", Request, Response, Asked, Row], Generic[Request, Response, Asked, Row]):
    """An API whose request has an entry for each group."""


@dataclass(frozen=True, slots=True)
class EveryShard(Everywhere["ShardState", Request, Response], Generic[Request, Response]):
    """An API about all groups."""
