"""The quick way to replay committed offsets, which are nearly all records of a log.

A million offsets have to be read within seconds at start. Two shortcuts make that possible. The part of the key before
the partition is not decoded again: BulkReplay remembers which map of the store it leads to. And a plain value (see
protocol/commit_record.py) is read by a single unpack.

Every other record is replayed by the normal way. The caller calls `forget` after such a record, because it may have
replaced the maps that are remembered here.
"""

from __future__ import annotations

from kohort.coordinator.offset_store import NO_EXPIRY, ByPartition, CommittedOffset, OffsetStore
from kohort.protocol.commit_record import (
    EMPTY_METADATA,
    PARTITION_BYTES,
    PLAIN_VALUE_BYTES,
    TOPIC_ID_TAG,
    VERSION,
    unpack_partition,
    unpack_plain_value,
)

_WITHOUT_PARTITION = slice(-PARTITION_BYTES)

_new = tuple.__new__


class BulkReplay:
    def __init__(self, store: OffsetStore) -> None:
        self._store = store
        self._maps: dict[bytes, ByPartition] = {}  # by the key without the partition
        self._topic_ids: dict[bytes, bytes] = {}  # interned: a million offsets share one object for each topic

    def replay(self, key: bytes, value: bytes | None, log_offset: int) -> bool:
        """Replay the record and return True. False: the record is not plain, or its key is not known yet."""
        partitions = self._maps.get(key[_WITHOUT_PARTITION])
        if partitions is None or value is None or len(value) != PLAIN_VALUE_BYTES:
            return False
        version, offset, leader_epoch, metadata, commit_timestamp, tag, topic_id = unpack_plain_value(value)
        if version != VERSION or metadata != EMPTY_METADATA or tag != TOPIC_ID_TAG:
            return False
        topic_id = self._topic_ids.setdefault(topic_id, topic_id)
        partitions[unpack_partition(key, len(key) - PARTITION_BYTES)[0]] = _new(
            CommittedOffset, (offset, leader_epoch, "", commit_timestamp, NO_EXPIRY, topic_id, log_offset)
        )
        return True

    def learn(self, key: bytes, group_id: str, topic: str) -> None:
        """Remember where this key, and keys that differ from it only in the partition, lead to."""
        self._maps[key[_WITHOUT_PARTITION]] = self._store.partitions_of(group_id, topic)

    def forget(self) -> None:
        self._maps.clear()
