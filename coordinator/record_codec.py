"""Packs records of a coordinator's log into Kafka's record batches, ready to append.

The generated codec can pack every kind of record. Nearly all records are committed offsets, and those are packed in two
quicker ways. In a new commit (CommitRecords) the first part of the key is the same for all partitions of a topic, and
most metadata is empty. A commit that recurs (PlannedCommit) has a template in which only the offsets and the time are
new. Tests compare the bytes of all three ways.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct, calcsize
from typing import Any

from kohort.coordinator.outcome import (
    AtomicRecords,
    CommitRecords,
    CommitRow,
    LogEntry,
    MarkerRecord,
    OffsetTombstones,
    PackedRecords,
    PlannedCommit,
    Record,
    StepRecords,
    TransactionalCommit,
)
from kohort.protocol.commit_record import (
    EMPTY_METADATA,
    PARTITION_BYTES,
    PLAIN_VALUE_BYTES,
    TIME_BYTES,
    VERSION_BYTES,
    key_prefix,
    pack_expiring_value,
    pack_partition,
    pack_tags,
    pack_value,
)
from kohort.protocol.log_records import CONSUMER_OFFSETS
from kohort.protocol.record_batch import (
    build_encoded,
    build_marker,
    build_transactional,
    encode_headers,
    encode_record,
    place_record,
    place_records,
)
from kohort.protocol.record_types import RecordTypes
from kohort.protocol.structs import shared_struct
from kohort.protocol.varint import SMALL_VARINTS, encode_varint
from kohort.protocol.wire import NO_UUID

MAX_BATCH_BYTES = 900_000  # a batch must stay below max.message.bytes
MAX_REMEMBERED_BYTES = 1_000  # of group id and headers; the cache of layouts stays small
ONE_BYTE_DELTAS = 64  # offset deltas below this number take one byte
DELTA_LIMITS = (ONE_BYTE_DELTAS, 1 << 13, 1 << 20)  # those below take one, two, three bytes; no batch has more records
NO_HEADERS = encode_headers(())

_int64 = Struct(">q").pack
_PLAIN_VALUE_START = encode_varint(PLAIN_VALUE_BYTES) + VERSION_BYTES  # then come offset and leader epoch
_EMPTY_METADATA = bytes([EMPTY_METADATA])


def batch_bytes(record: Record) -> int:
    """The size of a batch with this record alone."""
    return len(batches([record], 0, 0)[0])


def add_packed(packed: PackedRecords, record: Record) -> None:
    """Pack the record behind those that are packed already."""
    row = encode_record(packed.count, *_key_and_value(record, CONSUMER_OFFSETS), encode_headers(record.headers))
    packed.packed.append(row)
    packed.count += 1
    packed.size_bytes += len(row)


class PackedCommit:
    """Packs the records of one commit, part by part; they have the offset deltas of a batch of their own."""

    __slots__ = ("_packed", "count", "size_bytes")

    def __init__(self) -> None:
        self._packed: list[bytes] = []
        self.count = 0
        self.size_bytes = 0

    def add(self, part: CommitRecords) -> None:
        prefix = key_prefix(part.group, part.topic)
        packed = [
            encode_record(delta, prefix + pack_partition(row.partition_index), _value(part, row), part.headers)
            for delta, row in enumerate(part.rows, self.count)
        ]
        self._packed += packed
        self.count += len(packed)
        self.size_bytes += sum(map(len, packed))

    def joined(self) -> bytes:
        return b"".join(self._packed)


def batches(
    records: Sequence[LogEntry],
    first_offset: int,
    now: int,
    max_bytes: int = MAX_BATCH_BYTES,
    types: RecordTypes = CONSUMER_OFFSETS,
) -> list[bytes]:
    """The records in one batch if possible.

    There are several batches if the records do not fit into one, or if a commit that recurs would not be within the
    first 64 records of its batch.
    """
    if len(records) == 1 and type(records[0]) is PlannedCommit:  # the usual write
        commit = records[0]
        return [commit.template.batch(first_offset, commit.offsets, commit.now, now)]
    if (
        records
        and type(records[0]) is StepRecords
        and (batch := _batch_of_steps(records, first_offset, now, max_bytes, types))
    ):
        return [batch]
    made = Batches(first_offset, now, max_bytes, types)
    for record in records:
        if type(record) is PlannedCommit:
            made.add_planned(record)
        elif type(record) is CommitRecords:
            made.add_commit(record)
        elif type(record) is StepRecords:
            made.add_step(record)
        elif type(record) is AtomicRecords:
            made.add_atomic(record)
        elif type(record) is PackedRecords:
            made.add_packed(record)
        elif type(record) is OffsetTombstones:
            made.add_tombstones(record)
        elif type(record) is TransactionalCommit:
            made.add_transactional(record)
        elif type(record) is MarkerRecord:
            made.add_marker(record)
        else:
            assert type(record) is Record
            made.add(*_key_and_value(record, types), encode_headers(record.headers))
    made.finish()
    return made.done


def _batch_of_steps(
    entries: Sequence[LogEntry], first_offset: int, now: int, max_bytes: int, types: RecordTypes
) -> bytes | None:
    """One batch of steps, as while a group converges. None: there is something else, or it may not fit."""
    fields: list[bytes] = []
    for entry in entries:
        if type(entry) is not StepRecords:
            return None
        fields += entry.fields
    body = place_records(fields)
    if body is None or len(body) > max_bytes:
        return None
    return build_encoded(body, len(fields), now, first_offset, types.base_sequence)


class Batches:
    """Collects records into batches. `done` are the finished batches; the records of the open one are in `_body`."""

    __slots__ = ("_body", "_count", "_first_offset", "_max_bytes", "_now", "_size", "_types", "done")

    def __init__(self, first_offset: int, now: int, max_bytes: int, types: RecordTypes) -> None:
        self._types = types
        self._max_bytes = max_bytes
        self._first_offset = first_offset
        self._now = now
        self._body: list[bytes] = []
        self._count = 0  # records in the body
        self._size = 0  # bytes in the body
        self.done: list[bytes] = []

    def add(self, key: bytes, value: bytes | None, packed_headers: bytes) -> None:
        packed = encode_record(self._count, key, value, packed_headers)
        if self._body and self._size + len(packed) > self._max_bytes:
            self.finish()
            packed = encode_record(0, key, value, packed_headers)
        self._body.append(packed)
        self._count += 1
        self._size += len(packed)

    def add_atomic(self, atomic: AtomicRecords) -> None:
        """All in one batch. One that is too large for the log is refused there, whole."""
        first = self._count
        packed = [
            encode_record(delta, *_key_and_value(record, self._types), encode_headers(record.headers))
            for delta, record in enumerate(atomic.records, first)
        ]
        if self._size + sum(map(len, packed)) > self._max_bytes and first:
            self.finish()
            self.add_atomic(atomic)
            return
        self._body += packed
        self._count += len(packed)
        self._size += sum(map(len, packed))

    def add_step(self, step: StepRecords) -> None:
        """As add_atomic."""
        first = self._count
        packed = [place_record(delta, fields) for delta, fields in enumerate(step.fields, first)]
        size = sum(map(len, packed))
        if self._size + size > self._max_bytes and first:
            self.finish()
            self.add_step(step)
            return
        self._body += packed
        self._count += len(packed)
        self._size += size

    def add_packed(self, records: PackedRecords) -> None:
        self.finish()
        self._body += records.packed
        self._count += records.count
        self._size += records.size_bytes

    def add_planned(self, commit: PlannedCommit) -> None:
        template = commit.template
        if self._count + template.count > ONE_BYTE_DELTAS or self._size + template.size_bytes > self._max_bytes:
            self.finish()
        if template.count > ONE_BYTE_DELTAS:
            self.done.append(template.batch(self._first_offset, commit.offsets, commit.now, self._now))
            self._first_offset += template.count
            return
        self._body.append(template.pack(self._count, commit.offsets, commit.now))
        self._count += template.count
        self._size += template.size_bytes

    def add_commit(self, commit: CommitRecords) -> None:
        is_short = len(commit.group) + len(commit.headers) <= MAX_REMEMBERED_BYTES
        find = _known_layout if is_short else _layout
        layout = find(commit.group, commit.topic, commit.topic_id, commit.headers)
        if commit.is_plain and layout.fits_plain:
            self._add_plain(commit, layout)
        else:
            self._add_rows(commit, commit.rows, layout.prefix)

    def add_tombstones(self, gone: OffsetTombstones) -> None:
        prefix = key_prefix(gone.group, gone.topic)
        for index in gone.indexes:
            self.add(prefix + pack_partition(index), None, NO_HEADERS)

    def add_transactional(self, commit: TransactionalCommit) -> None:
        self.finish()
        self.done.append(
            build_transactional(
                commit.packed, commit.count, self._now, self._first_offset, self._types.base_sequence,
                commit.producer_id, commit.producer_epoch,
            )
        )  # fmt: skip
        self._first_offset += commit.count

    def add_marker(self, record: MarkerRecord) -> None:
        self.finish()
        marker = record.marker
        self.done.append(
            build_marker(
                marker.commit, producer_id=marker.producer_id, producer_epoch=marker.producer_epoch,
                coordinator_epoch=marker.coordinator_epoch, timestamp=self._now, base_offset=self._first_offset,
            )
        )  # fmt: skip
        self._first_offset += 1

    def _add_rows(self, commit: CommitRecords, rows: Sequence[Any], prefix: bytes) -> None:
        for row in rows:
            self.add(prefix + pack_partition(row.partition_index), _value(commit, row), commit.headers)

    def _add_plain(self, commit: CommitRecords, layout: Layout) -> None:
        """Add rows with plain values. They differ in numbers only, so each is one call of `pack`."""
        rows: Sequence[Any] = commit.rows
        end = _EMPTY_METADATA + _int64(commit.now) + layout.tail
        while rows:
            first = self._count
            plain = layout.plain
            limit, (start, pack, size_bytes) = (
                plain[0] if first < ONE_BYTE_DELTAS else plain[1 + (first >= plain[1][0])]
            )
            room = min(limit - first, (self._max_bytes - self._size) // size_bytes)
            if room <= 0 and self._body:
                self.finish()
                continue
            room = max(room, 1)
            is_short = first + room <= len(SMALL_VARINTS)
            deltas = SMALL_VARINTS[first : first + room] if is_short else _deltas(first, min(room, len(rows)))
            key_start = layout.key_start
            packed = [
                pack(
                    start, delta, key_start, row.partition_index, _PLAIN_VALUE_START,
                    row.committed_offset, row.committed_leader_epoch, end,
                )
                for delta, row in zip(deltas, rows, strict=False)
            ]  # fmt: skip
            self._body += packed
            self._count += len(packed)
            self._size += len(packed) * size_bytes
            rows = rows[room:]

    def finish(self) -> None:
        """Finish the open batch, unless it is empty."""
        if self._body:
            packed = self._body[0] if len(self._body) == 1 else b"".join(self._body)
            batch = build_encoded(packed, self._count, self._now, self._first_offset, self._types.base_sequence)
            self.done.append(batch)
            self._first_offset += self._count
            self._body, self._count, self._size = [], 0, 0


def _value(commit: CommitRecords, row: CommitRow) -> bytes:
    offset, metadata = row.committed_offset, row.committed_metadata or ""
    if commit.expires < 0:
        return pack_value(offset, row.committed_leader_epoch, metadata, commit.now, commit.topic_id)
    return pack_expiring_value(offset, metadata, commit.now, commit.expires)


class Layout:
    """The bytes that the records of one member's commits to one topic have in common."""

    __slots__ = ("fits_plain", "key_start", "plain", "prefix", "tail")

    def __init__(self, prefix: bytes, topic_id: bytes, headers: bytes) -> None:
        self.prefix = prefix
        self.key_start = encode_varint(len(prefix) + PARTITION_BYTES) + prefix
        self.tail = pack_tags(topic_id) + headers  # behind the commit time
        self.fits_plain = topic_id != NO_UUID  # a plain value has a topic id
        # How a record with a plain value is packed, for offset deltas below each of these limits.
        self.plain = [(limit, self._plain(delta_bytes)) for delta_bytes, limit in enumerate(DELTA_LIMITS, 1)]

    def _plain(self, delta_bytes: int) -> tuple[bytes, Callable[..., bytes], int]:
        """For records with a plain value: their first bytes, the function that packs one, and their size."""
        key_start = self.key_start
        end_bytes = len(_EMPTY_METADATA) + TIME_BYTES + len(self.tail)
        rest = f"{delta_bytes}s{len(key_start)}si{len(_PLAIN_VALUE_START)}sqi{end_bytes}s"
        attributes_and_time = b"\0\0"
        length = len(attributes_and_time) + calcsize(f">{rest}")
        start = encode_varint(length) + attributes_and_time
        form = shared_struct(f">{len(start)}s{rest}")
        return start, form.pack, form.size


def _deltas(first: int, count: int) -> Sequence[bytes]:
    """The offset deltas of so many records, packed."""
    return [encode_varint(delta) for delta in range(first, first + count)]


def _layout(group: str, topic: str, topic_id: bytes, headers: bytes) -> Layout:
    return Layout(key_prefix(group, topic), topic_id, headers)


_known_layout = lru_cache(maxsize=2_000)(_layout)


def _key_and_value(record: Record, types: RecordTypes) -> tuple[bytes, bytes | None]:
    kind, key, value, _, version = record
    return types.encode_key(kind, key), None if value is None else types.encode_value(kind, value, version)
