"""Decodes committed offsets, which are nearly all records of a log, many at once.

protocol/commit_record.py draws their bytes, in all versions. The same strings come again and again, so equal bytes are
found first and decoded once per block. Records that do not fit the picture are left to the generated codecs (rows.py).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from kohort.audit.decode.columns import optional, texts, times
from kohort.audit.decode.rows import header_int32, header_text
from kohort.audit.decode.schemas import schema, uuid_text
from kohort.audit.decode.split import Records
from kohort.audit.decode.vector import (
    MAX_DISTINCT_BYTES,
    Array,
    distinct,
    int16_at,
    integers_at,
    pick_rows,
    uvarints,
    windows,
)
from kohort.protocol.commit_record import (
    LEADER_EPOCH_AT,
    METADATA_AT,
    METADATA_AT_WITHOUT_EPOCH,
    MIN_KEY_BYTES,
    NO_TAGS,
    OFFSET_AT,
    PARTITION_BYTES,
    TAGS_WITH_TOPIC_ID_BYTES,
    TIME_BYTES,
    TOPIC_ID_BYTES,
    TOPIC_ID_TAG,
    VERSION,
    read_key_prefix,
)
from kohort.protocol.log_records import OFFSET_COMMIT
from kohort.protocol.record_batch import Headers
from kohort.protocol.wire import NO_UUID

TABLE: Final = "offset_commits"
KNOWN_VERSIONS: Final = VERSION + 1
REMEMBERED: Final = 50_000  # decoded texts that are kept for the next block
ONE_ID: Final = int.from_bytes(TOPIC_ID_TAG, "big")
TAIL_BYTES: Final = TIME_BYTES + TAGS_WITH_TOPIC_ID_BYTES


class Commits(NamedTuple):
    """Decoded commits, column by column. A string is a code: an index into a list of texts, or -1 for none."""

    records: Records
    names: list[tuple[str, str]]  # group and topic
    metadata_texts: list[str]
    topic_ids: list[bytes]
    name: Array
    partition: Array
    version: Array  # -1: a tombstone
    offset: Array
    epoch: Array
    metadata: Array
    commit_ms: Array
    expire_ms: Array  # -1: none
    topic_id: Array

    def pick(self, which: Array) -> Commits:
        columns = (column[which] for column in self[4:])
        return Commits(self.records.pick(which), self.names, self.metadata_texts, self.topic_ids, *columns)

    def of_group(self, group_id: str) -> Array:
        """Which commits belong to this group."""
        return np.array([name[0] == group_id for name in self.names], np.bool_)[self.name]

    def topics(self) -> dict[bytes, str]:
        """Topic id -> name."""
        pairs = np.unique(np.stack([self.topic_id, self.name])[:, self.topic_id >= 0], axis=1)
        return {self.topic_ids[id_]: self.names[name][1] for id_, name in pairs.T.tolist()}


def decode(records: Records) -> tuple[Commits, Array]:
    """Decode records of the types 0 and 1; and which of the records were decoded. The others have an unusual form."""
    buffer = records.buffer
    usual = (records.key_size >= MIN_KEY_BYTES) & (records.key_size <= MAX_DISTINCT_BYTES)
    usual &= (records.value_size < 0) | (records.value_size >= 2)
    kept = np.flatnonzero(usual)
    if len(kept) < len(usual):
        records = records.pick(kept)
    name, names, good = _names(records)
    partition = integers_at(buffer, records.key + records.key_size - PARTITION_BYTES, ">i4")
    values, fine = _values(records)
    has_versions = int16_at(buffer, records.key) == OFFSET_COMMIT  # type 0 exists in value version 0 only
    good &= fine & ((values.version <= 0) | has_versions)
    metadata, metadata_texts, fine = _metadata(records, values, good)
    good &= fine
    topic_id, topic_ids = _topic_ids(records, values, name, good)
    found = Commits(
        records, names, metadata_texts, topic_ids, name, partition, values.version, values.offset, values.epoch,
        metadata, values.commit_ms, values.expire_ms, topic_id,
    )  # fmt: skip
    if good.all():
        return found, usual
    usual[kept[~good]] = False
    return found.pick(good), usual


def _names(records: Records) -> tuple[Array, list[tuple[str, str]], Array]:
    """Group and topic of each record, and whether they could be decoded."""
    sizes = records.key_size - PARTITION_BYTES
    codes, firsts = distinct(records.buffer, records.key, sizes)
    found = [
        _group_and_topic(records.buffer[start : start + size].tobytes())
        for start, size in zip(records.key[firsts].tolist(), sizes[firsts].tolist(), strict=True)
    ]
    readable = np.array([pair is not None for pair in found], np.bool_)
    return codes, [pair or ("", "") for pair in found], readable[codes]


@lru_cache(maxsize=REMEMBERED)
def _group_and_topic(prefix: bytes) -> tuple[str, str] | None:
    return read_key_prefix(prefix)


class _Values(NamedTuple):
    version: Array
    offset: Array
    epoch: Array
    metadata: Array  # position
    metadata_size: Array
    commit_ms: Array
    expire_ms: Array
    topic_id: Array  # position, -1: none


def _values(records: Records) -> tuple[_Values, Array]:
    """All fields but texts, and which values have the expected form. Of a tombstone only `version` has a meaning."""
    buffer, start = records.buffer, records.value
    version = np.where(records.value_size < 0, -1, int16_at(buffer, start)).astype(np.int32)
    offset, epoch = integers_at(buffer, start + OFFSET_AT, ">i8"), integers_at(buffer, start + LEADER_EPOCH_AT, ">i4")
    size, metadata = uvarints(buffer, start + METADATA_AT)
    size -= 1
    older = np.flatnonzero((version < 4) & (version >= 0))
    if len(older):
        epoch[older] = np.where(version[older] == 3, epoch[older], -1)
        at = start[older] + np.where(version[older] == 3, METADATA_AT, METADATA_AT_WITHOUT_EPOCH)
        size[older], metadata[older] = int16_at(buffer, at), at + 2
    tail = metadata + size
    end = start + np.maximum(records.value_size, 0)
    good = (size >= 0) & (version < KNOWN_VERSIONS) & (tail >= metadata) & (tail + TIME_BYTES <= end)
    tail = np.where(good, tail, 0)
    commit_ms = integers_at(buffer, tail, ">i8")
    left = end - tail
    tags = integers_at(buffer, tail + TIME_BYTES, ">i4") >> 8  # the first three bytes: count, tag, size
    tagged = (left == TAIL_BYTES) & (tags == ONE_ID) & (version == 4)
    untagged = (left == TIME_BYTES + len(NO_TAGS)) & (tags >> 16 == 0)
    expire_ms = np.full(len(version), -1, np.int64)
    if len(older):
        explicit = version == 1
        expire_ms[explicit] = integers_at(buffer, tail[explicit] + TIME_BYTES, ">i8")
        untagged = np.where(version == 4, untagged, left == np.where(explicit, 2 * TIME_BYTES, TIME_BYTES))
    good = (good & (tagged | untagged)) | (version == -1)
    topic_id = np.where(tagged, tail + TIME_BYTES + len(TOPIC_ID_TAG), -1)
    return _Values(version, offset, epoch, metadata, size, commit_ms, expire_ms, topic_id), good


def _metadata(records: Records, values: _Values, good: Array) -> tuple[Array, list[str], Array]:
    told = good & (values.version >= 0)
    codes = np.where(told, 0, -1).astype(np.int32)
    texts = [""]
    some = np.flatnonzero(told & (values.metadata_size > 0))
    if not len(some):
        return codes, texts, good
    long = values.metadata_size > MAX_DISTINCT_BYTES
    some = some[~long[some]]
    starts, sizes = values.metadata[some], values.metadata_size[some]
    found, firsts = distinct(records.buffer, starts, sizes)
    codes[some] = found + 1
    for start, size in zip(starts[firsts].tolist(), sizes[firsts].tolist(), strict=True):
        texts.append(records.buffer[start : start + size].tobytes().decode("utf-8", "java"))
    return codes, texts, ~(long & told)


def _topic_ids(records: Records, values: _Values, name: Array, good: Array) -> tuple[Array, list[bytes]]:
    """The topic id of each record as a code, and the ids. A topic keeps its id until it is deleted."""
    codes = np.full(len(good), -1, np.int32)
    some = np.flatnonzero(good & (values.topic_id >= 0) & (values.version >= 0))
    if not len(some):
        return codes, []
    starts, found = values.topic_id[some], name[some]
    firsts = np.zeros(int(found.max()) + 1, np.int64)
    firsts[found] = np.arange(len(some))
    every = windows(records.buffer, starts, TOPIC_ID_BYTES).view(np.uint64)
    if (every != pick_rows(every[firsts], found)).any():
        found, firsts = distinct(records.buffer, starts, np.full(len(some), TOPIC_ID_BYTES))
    ids = [one.tobytes() for one in every[firsts]]
    codes[some] = np.array([-1 if id_ == NO_UUID else n for n, id_ in enumerate(ids)], np.int32)[found]
    return codes, ids


# --- to Arrow ------------------------------------------------------------------------------------------------------


def to_arrow(commits: Commits, log_partition: int, producer_id: Array, transaction: pa.Array) -> pa.RecordBatch:
    """Rows of offset_commits. `producer_id` and `transaction` are columns with a value for each commit."""
    records, told = commits.records, commits.version >= 0
    key_type = int16_at(records.buffer, records.key).astype(np.int32)
    committers = [_committer(one) for one in records.sets]
    columns = {
        "log_partition": np.full(len(told), log_partition, np.int32),
        "log_offset": records.offset,
        "record_time": times(records.time_ms),
        "group_id": texts([group for group, _ in commits.names], commits.name),
        "topic": texts([topic for _, topic in commits.names], commits.name),
        "partition": commits.partition,
        "tombstone": ~told,
        "offset": optional(commits.offset, told),
        "offset_epoch": optional(commits.epoch, told),
        "metadata": texts(commits.metadata_texts, commits.metadata),
        "commit_time": times(np.where(told, commits.commit_ms, -1)),
        "expire_time": times(commits.expire_ms),
        "topic_id": texts([uuid_text(one) for one in commits.topic_ids], commits.topic_id),
        "member_id": texts([member for member, _ in committers], records.headers),
        "generation": pa.array([number for _, number in committers], pa.int32()).take(pa.array(records.headers)),
        "producer_id": producer_id,
        "transaction": transaction,
        "key_version": key_type,
        "value_version": optional(commits.version, told),
    }
    of = schema(TABLE)
    arrays = [
        one if isinstance(one, pa.Array) else pa.array(one, field.type)
        for field, one in zip(of, columns.values(), strict=True)
    ]
    assert list(columns) == of.names
    return pa.record_batch(arrays, schema=of)


@lru_cache(maxsize=REMEMBERED)
def _committer(headers: Headers) -> tuple[str | None, int | None]:
    """Member and generation of a commit, from the record headers that Kohort writes."""
    return header_text(headers, b"kohort.member"), header_int32(headers, b"kohort.generation")
