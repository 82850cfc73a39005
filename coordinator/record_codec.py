"""Records of the coordinator's log as Kafka's bytes: batches of them, ready to append.

Every kind of record can be packed by its generated codec. Committed offsets are nearly all of them, and have a way of
their own here: the key's first part is the same for every partition of a topic, and most metadata is empty. A test
compares both ways byte by byte.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct
from typing import Any

from coordinator.outcome import CommitRecords, Headers, Record
from protocol.log_records import encode_key, encode_value
from protocol.messages.log_offset_commit import OffsetCommitKey
from protocol.record_batch import build_encoded, encode_headers, encode_record
from protocol.varint import SMALL_VARINTS, encode_varint
from protocol.wire import NO_UUID, uvarint

OFFSET_COMMIT = 1
MAX_BATCH_BYTES = 900_000  # a batch must stay below max.message.bytes
MAX_CACHED_PREFIXES = 50_000
ONE_BYTE_DELTAS = 64  # offset deltas below this are one byte
MAX_PLAIN_PREFIX_BYTES = 1000

_int32 = Struct(">i").pack
_int64 = Struct(">q").pack
_version_offset_epoch = Struct(">hqi").pack  # version 4
_PLAIN_VALUE_BYTES = 42  # version, offset, epoch, empty metadata, time, and one tagged field: 16 bytes of topic id
_VALUE_START = encode_varint(_PLAIN_VALUE_BYTES) + b"\x00\x04"
_TOPIC_ID_TAG = b"\x01\x00\x10"  # one tagged field, number 0, 16 bytes

_prefixes: dict[tuple[str, str], bytes] = {}


def batches(records: Sequence[Record | CommitRecords], first_offset: int, now: int) -> list[bytes]:
    """More than one batch only if the records do not fit into one."""
    made = Batches(first_offset, now)
    for record in records:
        if type(record) is CommitRecords:
            made.add_commit(record)
        else:
            assert type(record) is Record
            made.add(*_key_and_value(record), _packed_headers(record.headers))
    made.finish()
    return made.done


class Batches:
    """Batches in the making: the last one is open."""

    __slots__ = ("_body", "_first_offset", "_now", "_size", "done")

    def __init__(self, first_offset: int, now: int) -> None:
        self._first_offset = first_offset
        self._now = now
        self._body: list[bytes] = []
        self._size = 0
        self.done: list[bytes] = []

    def add(self, key: bytes, value: bytes | None, packed_headers: bytes) -> None:
        packed = encode_record(len(self._body), key, value, packed_headers)
        if self._body and self._size + len(packed) > MAX_BATCH_BYTES:
            self.finish()
            packed = encode_record(0, key, value, packed_headers)
        self._body.append(packed)
        self._size += len(packed)

    def add_commit(self, commit: CommitRecords) -> None:
        packed_headers = _packed_headers(commit.headers)
        prefix = _key_prefix(commit.group, commit.topic)
        if commit.is_plain and commit.topic_id != NO_UUID and len(prefix) < MAX_PLAIN_PREFIX_BYTES:
            self._add_plain(commit, prefix, packed_headers)
            return
        self._add_rows(commit, commit.rows, prefix, packed_headers)

    def _add_rows(self, commit: CommitRecords, rows: Sequence[Any], prefix: bytes, packed_headers: bytes) -> None:
        for row in rows:
            self.add(prefix + _int32(row.partition_index), _pack_committed(commit, row), packed_headers)

    def _add_plain(self, commit: CommitRecords, prefix: bytes, packed_headers: bytes) -> None:
        """Rows that differ in numbers only: each is one pack, and everything that they share is bytes already."""
        rows: Sequence[Any] = commit.rows
        end = b"\x01" + _int64(commit.now) + _TOPIC_ID_TAG + commit.topic_id + packed_headers
        while rows:
            first = len(self._body)
            if first >= len(SMALL_VARINTS):
                self._add_rows(commit, rows, prefix, packed_headers)
                return
            start, pack, size_bytes = _plain_record(len(prefix), len(end), 1 if first < ONE_BYTE_DELTAS else 2)
            limit = ONE_BYTE_DELTAS if first < ONE_BYTE_DELTAS else len(SMALL_VARINTS)
            room = min(limit - first, (MAX_BATCH_BYTES - self._size) // size_bytes)
            if room <= 0:
                self.finish()
                continue
            key_start = SMALL_VARINTS[len(prefix) + 4] + prefix
            packed = [
                pack(
                    start, delta, key_start, row.partition_index, _VALUE_START,
                    row.committed_offset, row.committed_leader_epoch, end,
                )
                for delta, row in zip(SMALL_VARINTS[first : first + room], rows, strict=False)
            ]  # fmt: skip
            self._body += packed
            self._size += len(packed) * size_bytes
            rows = rows[room:]

    def finish(self) -> None:
        """Close the open batch, if there is anything in it."""
        if self._body:
            self.done.append(_build(self._body, self._first_offset, self._now))
            self._first_offset += len(self._body)
            self._body, self._size = [], 0


@lru_cache(maxsize=4096)
def _plain_record(prefix_bytes: int, end_bytes: int, delta_bytes: int) -> tuple[bytes, Callable[..., bytes], int]:
    """How such a record begins, what packs it, and how long it is."""
    key_bytes = len(SMALL_VARINTS[prefix_bytes + 4]) + prefix_bytes
    length = 2 + delta_bytes + key_bytes + 4 + len(_VALUE_START) + 12 + end_bytes
    start = encode_varint(length) + b"\0\0"
    layout = Struct(f">{len(start)}s{delta_bytes}s{key_bytes}si{len(_VALUE_START)}sqi{end_bytes}s")
    return start, layout.pack, layout.size


@lru_cache(maxsize=10_000)
def _packed_headers(headers: Headers) -> bytes:
    """A member commits many times in a generation, and they are the same."""
    return encode_headers(headers)


def _build(body: list[bytes], base_offset: int, now: int) -> bytes:
    # Base sequence 0, not -1, is what Kafka's coordinator writes.
    return build_encoded(b"".join(body), len(body), timestamp=now, base_offset=base_offset, base_sequence=0)


def _key_and_value(record: Record) -> tuple[bytes, bytes | None]:
    kind, key, value, _, version = record
    return encode_key(kind, key), None if value is None else encode_value(kind, value, version)


def _key_prefix(group: str, topic: str) -> bytes:
    prefix = _prefixes.get((group, topic))
    if prefix is None:
        if len(_prefixes) >= MAX_CACHED_PREFIXES:
            _prefixes.clear()
        prefix = _prefixes[group, topic] = encode_key(OFFSET_COMMIT, OffsetCommitKey(group, topic, 0))[:-4]
    return prefix


def _pack_committed(commit: CommitRecords, row: Any) -> bytes:
    metadata = (row.committed_metadata or "").encode()
    tags = _TOPIC_ID_TAG + commit.topic_id if commit.topic_id != NO_UUID else b"\0"
    start = _version_offset_epoch(4, row.committed_offset, row.committed_leader_epoch)
    return start + uvarint(len(metadata) + 1) + metadata + _int64(commit.now) + tags
