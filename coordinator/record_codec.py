"""Records of the coordinator's log as Kafka's bytes: batches of them, ready to append.

Every kind of record can be packed by its generated codec. Committed offsets are nearly all of them, and have a way of
their own here: the key's first part is the same for every partition of a topic, and most metadata is empty. A test
compares both ways byte by byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from coordinator.offsets.store import CommittedOffset
from coordinator.outcome import CommitRecord, Record
from protocol.log_records import encode_key, encode_value
from protocol.messages.log_offset_commit import OffsetCommitKey
from protocol.record_batch import build_encoded, encode_headers, encode_record
from protocol.varint import encode_varint
from protocol.wire import NO_UUID, uvarint

OFFSET_COMMIT = 1
MAX_BATCH_BYTES = 900_000  # a batch must stay below max.message.bytes
MAX_CACHED_PREFIXES = 50_000
ONE_BYTE_DELTAS = 64  # offset deltas below this are one byte
MIN_RUN = 3  # from here on a format of their own pays

_int32 = Struct(">i").pack
_int64 = Struct(">q").pack
_version_offset_epoch = Struct(">hqi").pack  # version 4
_WITHOUT_METADATA = Struct(">hqiBqBBB16s")  # and one tagged field: 16 bytes of topic id
_TOPIC_ID_TAG = b"\x01\x00\x10"  # one tagged field, number 0, 16 bytes

_prefixes: dict[tuple[str, str], bytes] = {}


def batches(records: Sequence[Record | CommitRecord], first_offset: int, now: int) -> list[bytes]:
    """More than one batch only if the records do not fit into one."""
    made: list[bytes] = []
    body: list[bytes] = []
    size = at = 0
    headers: object = None
    packed_headers = b"\0"
    while at < len(records):
        record = records[at]
        if record.headers is not headers:  # those of one commit share theirs
            headers = record.headers
            packed_headers = encode_headers(record.headers)
        if type(record) is CommitRecord:
            run = _alike(records, at, ONE_BYTE_DELTAS - len(body))
            if len(run) >= MIN_RUN:
                body += _pack_alike(run, len(body), packed_headers)
                size += len(run) * len(body[-1])
                at += len(run)
                continue
            key = _key_prefix(record.group, record.topic) + _int32(record.partition)
            value: bytes | None = _pack_committed(record.committed)
        else:
            assert type(record) is Record
            key, value = _key_and_value(record)
        packed = encode_record(len(body), key, value, packed_headers)
        if body and size + len(packed) > MAX_BATCH_BYTES:
            made.append(_build(body, first_offset, now))
            first_offset += len(body)
            body, size = [], 0
            packed = encode_record(0, key, value, packed_headers)
        body.append(packed)
        size += len(packed)
        at += 1
    if body:
        made.append(_build(body, first_offset, now))
    return made


def _alike(records: Sequence[Record | CommitRecord], at: int, limit: int) -> list[CommitRecord]:
    """From `at` on, the offsets of one commit to one topic, all without metadata: they differ in numbers only."""
    first = records[at]
    assert type(first) is CommitRecord
    topic_id = first.committed.topic_id
    run: list[CommitRecord] = []
    for record in records[at : at + max(0, limit)]:
        if (
            type(record) is not CommitRecord
            or record.topic is not first.topic
            or record.group is not first.group
            or record.headers is not first.headers
            or record.committed.metadata
            or record.committed.topic_id is not topic_id
        ):
            break
        run.append(record)
    return [] if topic_id == NO_UUID else run


def _pack_alike(run: list[CommitRecord], first_delta: int, packed_headers: bytes) -> list[bytes]:
    """The records, each in one pack: everything that they share is bytes already."""
    prefix = _key_prefix(run[0].group, run[0].topic)
    key_start = encode_varint(len(prefix) + 4) + prefix
    value_start = encode_varint(_WITHOUT_METADATA.size) + b"\x00\x04"
    end = _TOPIC_ID_TAG + run[0].committed.topic_id + packed_headers
    fixed_bytes = 3 + 4 + 21  # attributes, two deltas; partition; offset, epoch, empty metadata, time
    start = encode_varint(len(key_start) + len(value_start) + len(end) + fixed_bytes) + b"\0\0"
    pack = Struct(f">{len(start)}sB{len(key_start)}si{len(value_start)}sqiBq{len(end)}s").pack
    return [
        pack(
            start, delta << 1, key_start, record.partition, value_start,
            record.committed.offset, record.committed.leader_epoch, 1, record.committed.commit_timestamp, end,
        )
        for delta, record in enumerate(run, first_delta)
    ]  # fmt: skip


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


def _pack_committed(committed: CommittedOffset) -> bytes:
    if not committed.metadata and committed.topic_id != NO_UUID:
        return _WITHOUT_METADATA.pack(
            4, committed.offset, committed.leader_epoch, 1, committed.commit_timestamp, 1, 0, 16, committed.topic_id
        )
    metadata = committed.metadata.encode()
    tags = _TOPIC_ID_TAG + committed.topic_id if committed.topic_id != NO_UUID else b"\0"
    start = _version_offset_epoch(4, committed.offset, committed.leader_epoch)
    return start + uvarint(len(metadata) + 1) + metadata + _int64(committed.commit_timestamp) + tags
