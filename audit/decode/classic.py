"""Members of classic generations, many at once.

The record of a generation has all members of the group, and most of them are the same as in the generation before. So
a record is cut into the bytes of its members, and equal bytes are decoded once:

    | version 3, int16 | protocol type | generation int32 | protocol? | leader? | entered at, int64 | members, int32
    | per member: id | instance? | client id | host | two timeouts, int32 | subscription, assignment: int32 size, bytes
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct, error
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from kohort.audit.decode.consumer_protocol import assignment_of, joined, subscription_of
from kohort.audit.decode.schemas import column, schema

Row: TypeAlias = tuple[Any, ...]

TABLE = "member_assignments"
SPLIT_VERSION = 3
SHARED_COLUMNS = 9  # columns that members of a generation share: up to previous_generation

_int16 = Struct(">h").unpack_from
_int32 = Struct(">i").unpack_from
_int64_int32 = Struct(">qi").unpack_from
_three_int32 = Struct(">iii").unpack_from


class Generation(NamedTuple):
    """A GroupMetadataValue whose members are still bytes."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    current_state_timestamp: int
    members: list[bytes]


def split_generation(value: bytes) -> Generation | None:
    """The value of a GroupMetadata record of version 3; None if it does not have the expected form."""
    try:
        protocol_type, at = _string(value, 2)
        (generation,) = _int32(value, at)
        protocol, at = _string(value, at + 4)
        leader, at = _string(value, at)
        entered, count = _int64_int32(value, at)
        members, at = _split_members(value, at + 12, count)
    except (error, IndexError):
        return None
    if protocol_type is None or count != len(members) or at > len(value):
        return None
    return Generation(protocol_type, generation, protocol, leader, entered, members)


def _split_members(value: bytes, at: int, count: int) -> tuple[list[bytes], int]:
    """The bytes of each member, and the position behind them. Fewer than `count` members: the data is wrong."""
    members: list[bytes] = []
    for _ in range(count):
        start = at
        (id_size,) = _int16(value, at)
        at += 2 + id_size
        (instance_size,) = _int16(value, at)
        at += 2 + instance_size if instance_size > 0 else 2
        (client_size,) = _int16(value, at)
        at += 2 + client_size
        (host_size,) = _int16(value, at)
        at += 2 + host_size
        _, _, subscription_size = _three_int32(value, at)
        at += 12 + subscription_size
        (assignment_size,) = _int32(value, at)
        at += 4 + assignment_size
        if id_size < 0 or instance_size < -1 or (client_size | host_size | subscription_size | assignment_size) < 0:
            break
        members.append(value[start:at])
    return members, at


def _string(data: bytes, at: int) -> tuple[str | None, int]:
    (size,) = _int16(data, at)
    at += 2
    if size < 0:
        if size < -1:
            raise IndexError
        return None, at
    return data[at : at + size].decode("utf-8", "java"), at + size


class ClassicMembers:
    """Rows of member_assignments in two halves: columns of the generation, and columns from the bytes of the member."""

    def __init__(self, *, ignored: bool = False) -> None:
        """`ignored`: the table is not wanted; `add` does nothing."""
        self._ignored = ignored
        self._shared: list[Row] = []
        self._counts: list[int] = []
        self._places: list[int] = []  # index of each member's half
        self._halves: list[Row] = []
        self._seen: dict[tuple[bytes, bool], int] = {}

    def add(self, shared: Row, of_consumers: bool, members: list[bytes]) -> None:
        """`shared`: the first columns. `of_consumers`: the group's protocol type is "consumer"."""
        if self._ignored:
            return
        self._shared.append(shared)
        self._counts.append(len(members))
        seen, places = self._seen, self._places
        for member in members:
            place = seen.get((member, of_consumers))
            if place is None:
                place = seen[member, of_consumers] = len(self._halves)
                self._halves.append(_half(member, of_consumers))
            places.append(place)

    def to_arrow(self, group: str | None, rows_per_batch: int) -> Iterator[pa.RecordBatch]:
        if not self._places:
            return
        of = schema(TABLE)
        halves = [
            column(values, field.type)
            for values, field in zip(zip(*self._halves, strict=True), list(of)[SHARED_COLUMNS:], strict=True)
        ]
        generation = np.repeat(np.arange(len(self._shared)), self._counts)
        places = np.array(self._places, np.int64)
        if group is not None:
            chosen = np.array([shared[3] == group for shared in self._shared], np.bool_)[generation]
            generation, places = generation[chosen], places[chosen]
        shared = [
            pa.array(values, field.type)
            for values, field in zip(zip(*self._shared, strict=True), list(of)[:SHARED_COLUMNS], strict=True)
        ]
        for start in range(0, len(places), rows_per_batch):
            first = pa.array(generation[start : start + rows_per_batch])
            second = pa.array(places[start : start + rows_per_batch])
            arrays = [one.take(first) for one in shared] + [one.take(second) for one in halves]
            yield pa.record_batch(arrays, schema=of)


def _half(member: bytes, of_consumers: bool) -> Row:
    """The columns from member_id on."""
    member_id, at = _string(member, 0)
    instance_id, at = _string(member, at)
    client_id, at = _string(member, at)
    client_host, at = _string(member, at)
    rebalance_timeout_ms, session_timeout_ms, size = _three_int32(member, at)
    subscription = subscription_of(member[at + 12 : at + 12 + size], of_consumers)
    assignment = assignment_of(member[at + 12 + size + 4 :], of_consumers)
    return (
        member_id, instance_id, None, client_id, client_host, rebalance_timeout_ms, session_timeout_ms,
        subscription.topics, None, None, subscription.owned, assignment.assigned, None, None,
        subscription.readable and assignment.readable, SPLIT_VERSION, joined(subscription.rest, assignment.rest),
    )  # fmt: skip
