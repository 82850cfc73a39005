"""Turns rows of the base tables into the records of each group, in the order of the log.

Times are in milliseconds, as in Kafka. A place is a topic and a partition. Arrow columns are converted column by
column, with one Python object per distinct place or subscription; this makes 200,000 members of 20,000 generations
affordable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kohort.audit.derive.commits import paired
from kohort.protocol.log_records import (
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    CONSUMER_GROUP_MEMBER_METADATA,
    CONSUMER_GROUP_METADATA,
    CONSUMER_GROUP_REGULAR_EXPRESSION,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA,
    GROUP_METADATA,
)

Place = tuple[str, int]

# Shorter names for the types of records that tell a group's history.
CLASSIC_GENERATION: Final = GROUP_METADATA
GROUP_EPOCH: Final = CONSUMER_GROUP_METADATA
MEMBER: Final = CONSUMER_GROUP_MEMBER_METADATA
TARGET_EPOCH: Final = CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA
TARGET: Final = CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER
CURRENT: Final = CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT
PATTERN: Final = CONSUMER_GROUP_REGULAR_EXPRESSION
CLASSIC, CONSUMER = "classic", "consumer"
WALKED = (CLASSIC, CONSUMER)


class Member(NamedTuple):
    """A member as one record has it."""

    member_id: str
    instance_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None
    rebalance_timeout_ms: int | None = None
    topics: frozenset[str] | None = None  # subscription; None: unknown
    assigned: Sequence[Place] | None = ()  # None: cannot be decoded
    owned: Sequence[Place] | None = None  # classic: what the member said it owned when it joined
    pattern: str | None = None  # consumer groups: the regular expression of the subscription, beside `topics`

    @property
    def identity(self) -> str:
        """Instance id, or else member id: a static member that comes back with a new member id is the same owner."""
        return self.member_id if self.instance_id is None else f"static {self.instance_id}"


class GroupRecord(NamedTuple):
    """A classic generation with its members, or an epoch of a consumer group (types 2, 3, 6)."""

    record_type: int
    log_offset: int
    time_ms: int
    tombstone: bool = False
    generation: int | None = None
    protocol: str | None = None
    leader: str | None = None
    state_ms: int | None = None
    join_start_ms: int | None = None
    cause: str | None = None
    trigger: str | None = None
    members: Sequence[Member] = ()


class MemberRecord(NamedTuple):
    """A record about one member of a consumer group (types 5, 7, 8)."""

    record_type: int
    log_offset: int
    time_ms: int
    member: Member
    tombstone: bool = False
    generation: int | None = None  # the member's epoch (8)
    revoking: Sequence[Place] = ()
    server_assignor: str | None = None
    state: int | None = None  # 0: the member has all that it shall have in its epoch, and nothing else (8)


class PatternRecord(NamedTuple):
    """The topics that match a regular expression of a consumer group (type 16)."""

    record_type: int
    log_offset: int
    time_ms: int
    pattern: str
    topics: frozenset[str] = frozenset()
    tombstone: bool = False


AnyRecord = GroupRecord | MemberRecord | PatternRecord
GroupLog = list[AnyRecord]


def group_logs(
    generations: pa.Table, assignments: pa.Table, patterns: Mapping[str, Sequence[PatternRecord]]
) -> Iterator[tuple[str, GroupLog]]:
    """Each classic or consumer group of one log partition with its records in the order of the log."""
    members = _sorted(assignments)
    groups = _sorted(generations)
    told = _MemberColumns(members)
    about = _GroupColumns(groups)
    spans_of_members = _spans(members)
    spans_of_groups = _spans(groups)
    for group_id in sorted(spans_of_groups.keys() | spans_of_members.keys()):
        member_rows = spans_of_members.get(group_id, range(0))
        log = _merged(about, spans_of_groups.get(group_id, range(0)), told, member_rows)
        if group_id in patterns:
            log = sorted([*log, *patterns[group_id]], key=lambda record: record.log_offset)
        yield group_id, log


def _sorted(table: pa.Table) -> pa.Table:
    """Sorted by group and log offset. Share groups have no owners and are left out."""
    walked = table.filter(pc.is_in(table["group_type"], pa.array(WALKED)))
    return walked.sort_by([("group_id", "ascending"), ("log_offset", "ascending")]).combine_chunks()


def _spans(table: pa.Table) -> dict[str, range]:
    if not len(table):
        return {}
    codes, groups = _encoded(table["group_id"])
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    ends = np.append(starts[1:], len(codes))
    return {groups[codes[a]]: range(a, b) for a, b in zip(starts.tolist(), ends.tolist(), strict=True)}


def _merged(about: _GroupColumns, group_rows: range, told: _MemberColumns, member_rows: range) -> GroupLog:
    """The group's records with the members of classic generations put in, and the records about single members."""
    log: GroupLog = []
    classic: dict[int, list[Member]] = {}
    for row in member_rows:
        if told.record_type[row] == CLASSIC_GENERATION:
            classic.setdefault(told.log_offset[row], []).append(told.member(row))
        else:
            log.append(told.record(row))
    log += [about.record(row, classic.get(about.log_offset[row], ())) for row in group_rows]
    log.sort(key=lambda record: record.log_offset)
    return log


# --- columns --------------------------------------------------------------------------------------


class _GroupColumns:
    def __init__(self, table: pa.Table) -> None:
        self.log_offset: list[int] = table["log_offset"].to_pylist()
        texts = [_texts(table[name]) for name in ("protocol", "leader", "cause", "trigger")]
        times = [_ms(table[name]) for name in ("record_time", "state_time", "join_start")]
        self._rows = list(
            zip(
                table["record_type"].to_pylist(), self.log_offset, times[0], _flags(table["tombstone"]),
                table["generation"].to_pylist(), texts[0], texts[1], times[1], times[2], texts[2], texts[3],
                strict=True,
            )
        )  # fmt: skip

    def record(self, row: int, members: Sequence[Member]) -> GroupRecord:
        return GroupRecord(*self._rows[row])._replace(members=members)


class _MemberColumns:
    def __init__(self, table: pa.Table) -> None:
        self.record_type: list[int] = table["record_type"].to_pylist()
        self.log_offset: list[int] = table["log_offset"].to_pylist()
        self._time = _ms(table["record_time"])
        self._tombstone = _flags(table["tombstone"])
        self._generation = table["generation"].to_pylist()
        self._assignor = _texts(table["server_assignor"])
        self._revoking = _places(table["revoking"])
        self._state = table["state"].to_pylist()
        readable = table["readable"].to_pylist()
        assigned = _places(table["assigned"])
        self._members = list(
            map(
                Member, _texts(table["member_id"]), _texts(table["instance_id"]), _texts(table["client_id"]),
                _texts(table["client_host"]), table["rebalance_timeout_ms"].to_pylist(), _topics(table),
                [() if places is None and ok else places for places, ok in zip(assigned, readable, strict=True)],
                _places(table["owned"]), _texts(table["subscribed_regex"]),
            )
        )  # fmt: skip

    def member(self, row: int) -> Member:
        return self._members[row]

    def record(self, row: int) -> MemberRecord:
        return MemberRecord(
            self.record_type[row], self.log_offset[row], self._time[row], self._members[row], self._tombstone[row],
            self._generation[row], self._revoking[row] or (), self._assignor[row], self._state[row],
        )  # fmt: skip


def _ms(column: pa.ChunkedArray) -> list[Any]:
    """Milliseconds since 1970, whatever unit and zone the column has."""
    listed: list[Any] = column.cast(pa.timestamp("ms"), safe=False).cast(pa.int64()).to_pylist()
    return listed


def _flags(column: pa.ChunkedArray) -> list[bool]:
    return [bool(flag) for flag in column.to_pylist()]


def _encoded(column: pa.ChunkedArray) -> tuple[Any, list[Any]]:
    """Codes (-1 for null), and the value of each code."""
    array = _one_array(column)
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    codes = array.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return codes, array.dictionary.to_pylist()


def _texts(column: pa.ChunkedArray) -> list[Any]:
    """One string object per distinct text."""
    codes, values = _encoded(column)
    values.append(None)  # values[-1]: the value for code -1
    return [values[code] for code in codes.tolist()]


def _one_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    if isinstance(column, pa.Array):
        return column
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _slices(column: pa.ChunkedArray, items: list[Any], kind: type) -> list[Any]:
    """Rows of a list column, given its flattened items; None for null."""
    array = _one_array(column)
    offsets = (array.offsets.to_numpy() - array.offsets[0].as_py()).tolist() if len(array) else [0]
    valid = array.is_valid().to_pylist()
    return [
        kind(items[start:end]) if ok else None
        for start, end, ok in zip(offsets, offsets[1:], valid, strict=False)
    ]  # fmt: skip


def _places(column: pa.ChunkedArray) -> list[list[Place] | None]:
    array = _one_array(column)
    if array.null_count == len(array):
        return [None] * len(array)
    items = _one_array(_list_items(array))
    topics = items.field("topic")
    if items.type.get_field_index("topic_id") >= 0:  # a topic without a known name is called by its id
        topics = pc.coalesce(topics, items.field("topic_id"))
    codes, names = _encoded(topics)
    numbers = items.field("partition").to_numpy(zero_copy_only=False)
    _, firsts, which = np.unique(
        paired(codes.astype(np.int64), numbers.astype(np.int64)), return_index=True, return_inverse=True
    )
    places = [(names[code], number) for code, number in zip(codes[firsts], numbers[firsts].tolist(), strict=True)]
    return _slices(array, [places[code] for code in which.tolist()], list)


def _list_items(array: pa.Array) -> pa.Array:
    """The items of all rows of the array, which may be a slice of a larger one."""
    first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
    return array.values.slice(first, last - first)


def _topics(table: pa.Table) -> list[frozenset[str] | None]:
    """Topics that each member subscribes to by name; None if unknown."""
    array = _one_array(table["subscribed_topics"])
    if array.null_count == len(array):
        return [None] * len(array)
    as_set = cache(frozenset[str])  # one object for all equal subscriptions
    rows = _slices(array, _texts(_list_items(array)), tuple)
    return [None if names is None else as_set(names) for names in rows]
