"""Records of the coordinator's log as Kafka's bytes: batches of them, ready to append.

Every kind of record can be packed by its generated codec. Committed offsets are nearly all of them, and have two ways
of their own here. In a commit that is new (CommitRecords) the key's first part is the same for every partition of a
topic, and most metadata is empty. A commit that recurs (PlannedCommit) has a template, in which only offsets and the
time are new. Tests compare all ways byte by byte.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Any

from kohort.coordinator.outcome import CommitRecords, LogEntry, PlannedCommit, Record
from kohort.protocol.log_records import OFFSET_COMMIT, encode_key, encode_value
from kohort.protocol.messages.log_offset_commit import OffsetCommitKey
from kohort.protocol.record_batch import build_encoded, encode_headers, encode_record
from kohort.protocol.structs import shared_struct
from kohort.protocol.varint import SMALL_VARINTS, encode_varint
from kohort.protocol.wire import NO_UUID, uvarint

if TYPE_CHECKING:
    from kohort.coordinator.commit_template import CommitTemplate

MAX_BATCH_BYTES = 900_000  # a batch must stay below max.message.bytes
BASE_SEQUENCE = 0  # not -1: that is what Kafka's coordinator writes
MAX_REMEMBERED_BYTES = 1_000  # of group and headers: 2,000 layouts should not take 200 MB
ONE_BYTE_DELTAS = 64  # offset deltas below this are one byte

_int32 = Struct(">i").pack
_int64 = Struct(">q").pack
_version_offset_epoch = Struct(">hqi").pack  # version 4
_PLAIN_VALUE_BYTES = 42  # version, offset, epoch, empty metadata, time, and one tagged field: 16 bytes of topic id
V4 = b"\x00\x04"  # what a value begins with
_VALUE_START = encode_varint(_PLAIN_VALUE_BYTES) + V4
_TOPIC_ID_TAG = b"\x01\x00\x10"  # one tagged field, number 0, 16 bytes


def batch_bytes(record: Record) -> int:
    """The size of a batch with this record alone."""
    return len(batches([record], 0, 0)[0])


def batches(records: Sequence[LogEntry], first_offset: int, now: int, max_bytes: int = MAX_BATCH_BYTES) -> list[bytes]:
    """More than one batch if the records do not fit into one, or a commit that recurs would stand behind the 64th."""
    if len(records) == 1 and type(records[0]) is PlannedCommit:  # the usual write, without the ceremony
        commit = records[0]
        return [commit.plan.template.batch(first_offset, commit.offsets, commit.now, now)]
    made = Batches(first_offset, now, max_bytes)
    for record in records:
        if type(record) is PlannedCommit:
            made.add_planned(record)
        elif type(record) is CommitRecords:
            made.add_commit(record)
        else:
            assert type(record) is Record
            made.add(*_key_and_value(record), encode_headers(record.headers))
    made.finish()
    return made.done


class Batches:
    """Batches in the making: the last one is open."""

    __slots__ = ("_body", "_count", "_first_offset", "_max_bytes", "_now", "_size", "done")

    def __init__(self, first_offset: int, now: int, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._first_offset = first_offset
        self._now = now
        self._body: list[bytes] = []
        self._count = 0  # of the records in the body
        self._size = 0
        self.done: list[bytes] = []

    def add(self, key: bytes, value: bytes | None, packed_headers: bytes) -> None:
        packed = encode_record(self._count, key, value, packed_headers)
        if self._body and self._size + len(packed) > self._max_bytes:
            self.finish()
            packed = encode_record(0, key, value, packed_headers)
        self._body.append(packed)
        self._count += 1
        self._size += len(packed)

    def add_planned(self, commit: PlannedCommit) -> None:
        template: CommitTemplate = commit.plan.template
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

    def _add_rows(self, commit: CommitRecords, rows: Sequence[Any], prefix: bytes) -> None:
        for row in rows:
            self.add(prefix + _int32(row.partition_index), _pack_committed(commit, row), commit.headers)

    def _add_plain(self, commit: CommitRecords, layout: Layout) -> None:
        """Rows that differ in numbers only: each is one pack, and everything that they share is bytes already."""
        rows: Sequence[Any] = commit.rows
        end = b"\x01" + _int64(commit.now) + layout.tail
        while rows:
            first = self._count
            if first >= len(SMALL_VARINTS):
                self._add_rows(commit, rows, layout.prefix)
                return
            is_short = first < ONE_BYTE_DELTAS
            start, pack, size_bytes = layout.short if is_short else layout.long
            limit = ONE_BYTE_DELTAS if is_short else len(SMALL_VARINTS)
            room = min(limit - first, (self._max_bytes - self._size) // size_bytes)
            if room <= 0 and self._body:
                self.finish()
                continue
            room = max(room, 1)
            key_start = layout.key_start
            packed = [
                pack(
                    start, delta, key_start, row.partition_index, _VALUE_START,
                    row.committed_offset, row.committed_leader_epoch, end,
                )
                for delta, row in zip(SMALL_VARINTS[first : first + room], rows, strict=False)
            ]  # fmt: skip
            self._body += packed
            self._count += len(packed)
            self._size += len(packed) * size_bytes
            rows = rows[room:]

    def finish(self) -> None:
        """Close the open batch, if there is anything in it."""
        if self._body:
            self.done.append(_build(self._body, self._count, self._first_offset, self._now))
            self._first_offset += self._count
            self._body, self._count, self._size = [], 0, 0


class Layout:
    """What the records of one member's commits to one topic have in common."""

    __slots__ = ("fits_plain", "key_start", "long", "prefix", "short", "tail")

    def __init__(self, prefix: bytes, topic_id: bytes, headers: bytes) -> None:
        self.prefix = prefix
        self.key_start = encode_varint(len(prefix) + 4) + prefix
        self.tail = _TOPIC_ID_TAG + topic_id + headers  # behind the commit's time
        self.fits_plain = topic_id != NO_UUID
        self.short = self._plain(1)
        self.long = self._plain(2)

    def _plain(self, delta_bytes: int) -> tuple[bytes, Callable[..., bytes], int]:
        """How a record without metadata begins, what packs the whole, and how long it is."""
        key_start = self.key_start
        end_bytes = 9 + len(self.tail)
        length = 2 + delta_bytes + len(key_start) + 4 + len(_VALUE_START) + 12 + end_bytes
        start = encode_varint(length) + b"\0\0"
        form = shared_struct(f">{len(start)}s{delta_bytes}s{len(key_start)}si{len(_VALUE_START)}sqi{end_bytes}s")
        return start, form.pack, form.size


def _layout(group: str, topic: str, topic_id: bytes, headers: bytes) -> Layout:
    return Layout(encode_key(OFFSET_COMMIT, OffsetCommitKey(group, topic, 0))[:-4], topic_id, headers)


_known_layout = lru_cache(maxsize=2_000)(_layout)


def _build(body: list[bytes], count: int, base_offset: int, now: int) -> bytes:
    packed = body[0] if len(body) == 1 else b"".join(body)
    return build_encoded(packed, count, now, base_offset, BASE_SEQUENCE)


def _key_and_value(record: Record) -> tuple[bytes, bytes | None]:
    kind, key, value, _, version = record
    return encode_key(kind, key), None if value is None else encode_value(kind, value, version)


def _pack_committed(commit: CommitRecords, row: Any) -> bytes:
    start = _version_offset_epoch(4, row.committed_offset, row.committed_leader_epoch)
    return start + packed_text(row.committed_metadata or "") + _int64(commit.now) + packed_tags(commit.topic_id)


def packed_text(text: str) -> bytes:
    encoded = text.encode()
    return uvarint(len(encoded) + 1) + encoded


def packed_tags(topic_id: bytes) -> bytes:
    return _TOPIC_ID_TAG + topic_id if topic_id != NO_UUID else b"\0"
