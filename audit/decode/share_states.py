"""Decodes the records of __share_group_state, many at once.

    key             | type int16: 0 snapshot, 1 update | group: int16 size, bytes | topic id, 16 bytes | partition int32
    snapshot        | version int16 | snapshot epoch int32 | state epoch int32 | leader epoch int32 | start offset int64
                    | created, written: int64 | number of batches + 1, varint | batches | tags
    update          | version int16 | snapshot epoch int32 | leader epoch int32 | start offset int64
                    | number of batches + 1, varint | batches | tags
    batch           | first, last offset: int64 | state int8 | deliveries int16 | no tags: a byte 0
    tags            | a byte 0, or: 1, 0, 4, complete count int32

A record that does not fit the picture is left to the generated codecs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from struct import Struct
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from kohort.audit.decode.columns import optional, texts, times
from kohort.audit.decode.rows import header_text
from kohort.audit.decode.schemas import from_rows, micros, schema, uuid_text
from kohort.audit.decode.split import Records
from kohort.audit.decode.vector import MAX_DISTINCT_BYTES, Array, distinct, int16_at, integers_at, uvarints
from kohort.coordinator.share_state.headers import CAUSE, MEMBER
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.record_batch import Headers
from kohort.protocol.record_types import UnknownRecord
from kohort.protocol.share_state_records import SHARE_GROUP_STATE, SHARE_SNAPSHOT, SHARE_UPDATE

Row: TypeAlias = tuple[Any, ...]

TABLE: Final = "share_states"
ROWS_PER_BATCH: Final = 20_000
KEY_TAIL: Final = Struct(">16si")
KEY_BYTES: Final = 4 + KEY_TAIL.size  # with an empty group id
BATCH_BYTES: Final = 20
BATCH_TAGS_AT: Final = 19
SNAPSHOT_FIELDS_BYTES: Final = 38  # before the number of batches
UPDATE_FIELDS_BYTES: Final = 18
ONE_TAG: Final = 0x010004  # the first three bytes of tags with the complete count
ONE_TAG_BYTES: Final = 7
MOST_BATCHES: Final = 1 << 24  # so that sizes stay small numbers; a record with more cannot be sound


class Place(NamedTuple):
    group_id: str
    topic_id: bytes
    partition: int


class Values(NamedTuple):
    """The fields of records, column by column. Of a tombstone only the first two columns have a meaning."""

    is_snapshot: Array
    tombstone: Array
    snapshot_epoch: Array
    state_epoch: Array
    leader_epoch: Array
    start_offset: Array
    complete_count: Array  # -1: the record does not say
    create_ms: Array
    write_ms: Array
    batch_count: Array
    batch_at: Array  # position of the first batch

    def pick(self, which: Array) -> Values:
        return Values(*(column[which] for column in self))


class ShareStates(NamedTuple):
    """Decoded records of a log partition."""

    log_partition: int
    records: Records  # those of `values`
    places: list[Place]
    place: Array  # index into `places`
    values: Values
    odd: list[tuple[Place, Row]]  # rows of unusual records, without group, topic, topic id and partition
    unreadable: list[Row]  # rows of other_records

    def topic_ids(self) -> set[str]:
        return {uuid_text(place.topic_id) for place in [*self.places, *(place for place, _ in self.odd)]}


def decode(records: Records, log_partition: int) -> ShareStates:
    """Decode every record: into columns, or one by one."""
    usual = (records.key_size >= KEY_BYTES) & (records.key_size <= MAX_DISTINCT_BYTES)
    usual &= (records.value_size < 0) | (records.value_size > UPDATE_FIELDS_BYTES)
    numbers = np.flatnonzero(usual)
    mine = records.pick(numbers)
    place, places, good = _places(mine)
    values, fine = _values(mine)
    good &= fine
    numbers_of_odd = np.concatenate([np.flatnonzero(~usual), numbers[~good]])
    odd, unreadable = _one_by_one(records, np.sort(numbers_of_odd).tolist(), log_partition)
    if not good.all():
        mine, place, values = mine.pick(good), place[good], values.pick(good)
    return ShareStates(log_partition, mine, places, place, values, odd, unreadable)


def _places(records: Records) -> tuple[Array, list[Place], Array]:
    """The place of each record, all places, and which records have a sound key."""
    codes, firsts = distinct(records.buffer, records.key, records.key_size)
    found = [
        _place(records.buffer[start : start + size].tobytes())
        for start, size in zip(records.key[firsts].tolist(), records.key_size[firsts].tolist(), strict=True)
    ]
    readable = np.array([place is not None for place in found], np.bool_)
    return codes, [place or Place("", bytes(16), 0) for place in found], readable[codes]


@lru_cache(maxsize=50_000)
def _place(key: bytes) -> Place | None:
    kind, size = int.from_bytes(key[:2], "big", signed=True), int.from_bytes(key[2:4], "big", signed=True)
    if kind not in (SHARE_SNAPSHOT, SHARE_UPDATE) or size != len(key) - KEY_BYTES:
        return None
    return Place(key[4 : 4 + size].decode("utf-8", "java"), *KEY_TAIL.unpack_from(key, 4 + size))


def _values(records: Records) -> tuple[Values, Array]:
    """The fields of all records, and which values have the expected form. Tombstones have."""
    buffer, start = records.buffer, records.value
    snapshot = int16_at(buffer, records.key) == SHARE_SNAPSHOT
    tombstone = records.value_size < 0
    fields_bytes = np.where(snapshot, SNAPSHOT_FIELDS_BYTES, UPDATE_FIELDS_BYTES)
    count, at = uvarints(buffer, start + fields_bytes)
    good = (int16_at(buffer, start) == 0) & (records.value_size > fields_bytes) & (count > 0) & (count <= MOST_BATCHES)
    count = np.where(good & ~tombstone, count - 1, 0)
    tail, end = at + count * BATCH_BYTES, start + np.maximum(records.value_size, 0)
    left = end - tail
    safe_tail = np.where(good & (left > 0), tail, 0)
    tags = integers_at(buffer, safe_tail, ">i4") >> 8
    plain = (left == 1) & (tags >> 16 == 0)
    tagged = (left == ONE_TAG_BYTES) & (tags == ONE_TAG)
    good &= plain | tagged
    complete = np.where(tagged & good, integers_at(buffer, safe_tail + 3, ">i4"), -1)
    count = np.where(good, count, 0)
    rows, positions = batch_positions(at, count)
    with_tags = np.unique(rows[buffer[positions + BATCH_TAGS_AT] != 0])
    good[with_tags] = False
    leader_at = np.where(snapshot, start + 10, start + 6)
    columns = Values(
        snapshot, tombstone, integers_at(buffer, start + 2, ">i4"), integers_at(buffer, start + 6, ">i4"),
        integers_at(buffer, leader_at, ">i4"), integers_at(buffer, leader_at + 4, ">i8"), complete,
        np.where(snapshot, integers_at(buffer, start + 22, ">i8"), -1),
        np.where(snapshot, integers_at(buffer, start + 30, ">i8"), -1), count, at,
    )  # fmt: skip
    return columns, good | tombstone


def batch_positions(at: Array, count: Array) -> tuple[Array, Array]:
    """The row of each batch, and where it begins."""
    rows = np.repeat(np.arange(len(count)), count)
    first = np.cumsum(count) - count
    return rows, at[rows] + BATCH_BYTES * (np.arange(len(rows)) - first[rows])


# --- one by one ----------------------------------------------------------------------------------------------------


def _one_by_one(
    records: Records, numbers: list[int], log_partition: int
) -> tuple[list[tuple[Place, Row]], list[Row]]:  # fmt: skip
    odd: list[tuple[Place, Row]] = []
    unreadable: list[Row] = []
    for number in numbers:
        key, value = records.key_bytes(number), records.value_bytes(number)
        start = (log_partition, int(records.offset[number]), micros(int(records.time_ms[number])))
        kind, problem, detail = None, "no key", "a record without a key says nothing about any share group"
        if key is not None:
            try:
                kind, named = SHARE_GROUP_STATE.decode_key(key)
                if not isinstance(named, UnknownRecord):
                    told = None if value is None else SHARE_GROUP_STATE.decode_value(kind, value)
                    place = Place(named.group_id, named.topic_id, named.partition)
                    odd.append((place, _odd_row(start, kind, told, records.sets[records.headers[number]])))
                    continue
                problem, detail = "unknown", f"record type {kind}, which a newer Kafka has introduced"
            except MalformedMessage as wrong:
                problem, detail = "undecodable", str(wrong)
        shown = [None if raw is None else raw.hex() for raw in (key, value)]
        unreadable.append((*start, kind, None, value is None, *shown, problem, detail))
    return odd, unreadable


def _odd_row(start: Row, kind: int, value: Any, headers: Headers) -> Row:
    cause, member = _told(headers)
    if value is None:
        return (*start, kind, True, *(None,) * 8, cause, member, None)
    batches = [
        (one.first_offset, one.last_offset, one.delivery_state, one.delivery_count) for one in value.state_batches
    ]
    complete = value.delivery_complete_count
    return (
        *start, kind, False, value.snapshot_epoch, getattr(value, "state_epoch", None), value.leader_epoch,
        value.start_offset, None if complete < 0 else complete, micros(getattr(value, "create_timestamp", None)),
        micros(getattr(value, "write_timestamp", None)), batches, cause, member, 0,
    )  # fmt: skip


# --- to Arrow ------------------------------------------------------------------------------------------------------


def to_arrow(found: ShareStates, names: Mapping[str, str], group: str | None) -> Iterator[pa.RecordBatch]:
    """Rows of share_states, of one group if it is named. `names`: topic id -> name."""
    wanted = np.array([group in (None, place.group_id) for place in found.places], np.bool_)
    which = np.flatnonzero(wanted[found.place]) if len(found.place) else found.place
    if len(which):
        yield _columns_to_arrow(found, names, which)
    rows = []
    for place, row in found.odd:
        if group in (None, place.group_id):
            id_ = uuid_text(place.topic_id)
            rows.append((*row[:3], place.group_id, names.get(id_), id_, place.partition, *row[3:]))
    for start in range(0, len(rows), ROWS_PER_BATCH):
        yield from_rows(TABLE, rows[start : start + ROWS_PER_BATCH])


def _columns_to_arrow(found: ShareStates, names: Mapping[str, str], which: Array) -> pa.RecordBatch:
    records, place, values = found.records.pick(which), found.place[which], found.values.pick(which)
    snapshot, real = values.is_snapshot, ~values.tombstone
    ids = [uuid_text(one.topic_id) for one in found.places]
    told = [_told(one) for one in records.sets]
    columns = {
        "log_partition": np.full(len(which), found.log_partition, np.int32),
        "log_offset": records.offset,
        "record_time": times(records.time_ms),
        "group_id": texts([one.group_id for one in found.places], place),
        "topic": texts([names.get(id_) for id_ in ids], place),
        "topic_id": texts(ids, place),
        "partition": np.array([one.partition for one in found.places], np.int32)[place],
        "record_type": np.where(snapshot, SHARE_SNAPSHOT, SHARE_UPDATE).astype(np.int32),
        "tombstone": ~real,
        "snapshot_epoch": optional(values.snapshot_epoch, real),
        "state_epoch": optional(values.state_epoch, real & snapshot),
        "leader_epoch": optional(values.leader_epoch, real),
        "start_offset": optional(values.start_offset, real),
        "complete_count": optional(values.complete_count, real & (values.complete_count >= 0)),
        "create_time": times(np.where(real, values.create_ms, -1)),
        "write_time": times(np.where(real, values.write_ms, -1)),
        "batches": _batches(records.buffer, values.batch_at, values.batch_count, real),
        "cause": texts([cause for cause, _ in told], records.headers),
        "member_id": texts([member for _, member in told], records.headers),
        "value_version": optional(np.zeros(len(which), np.int32), real),
    }
    of = schema(TABLE)
    assert list(columns) == of.names
    arrays = [
        one if isinstance(one, pa.Array) else pa.array(one, field.type)
        for field, one in zip(of, columns.values(), strict=True)
    ]
    return pa.record_batch(arrays, schema=of)


def _batches(buffer: Array, at: Array, count: Array, real: Array) -> pa.ListArray:
    kind = schema(TABLE).field("batches").type
    _, positions = batch_positions(at, count)
    columns = [
        integers_at(buffer, positions, ">i8"),
        integers_at(buffer, positions + 8, ">i8"),
        buffer[positions + 16].view(np.int8).astype(np.int32),
        int16_at(buffer, positions + 17).astype(np.int32),
    ]
    items = pa.StructArray.from_arrays([pa.array(one) for one in columns], fields=list(kind.value_type))
    offsets = pa.array(np.concatenate([[0], np.cumsum(count)]), pa.int32())
    return pa.ListArray.from_arrays(offsets, items, type=kind, mask=None if real.all() else pa.array(~real))


@lru_cache(maxsize=50_000)
def _told(headers: Headers) -> tuple[str | None, str | None]:
    """Cause and member, from the record headers that Kohort writes."""
    return header_text(headers, CAUSE), header_text(headers, MEMBER)
