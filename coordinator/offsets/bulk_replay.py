"""The quick way to replay committed offsets, which are nearly all of a log.

A million of them have to be read within seconds at start. What they have in common is not read again: the part of the
key before the partition number leads straight to the map it belongs into, and a value without metadata is one unpack.
Whatever is not that plain goes the ordinary way, and then nothing remembered here may be stale: `forget` is called.
"""

from __future__ import annotations

from struct import Struct

from kohort.coordinator.offsets.store import NO_EXPIRY, ByPartition, CommittedOffset, OffsetStore

_PARTITION = Struct(">i")
_OFFSET_EPOCH_TIME = Struct(">qixq")  # between version and tagged fields, with empty metadata
_VERSION_4 = b"\x00\x04"
_EMPTY = 1  # a compact length
_TOPIC_ID_TAG = b"\x01\x00\x10"
_PLAIN_BYTES = 42

_new = tuple.__new__


class BulkReplay:
    def __init__(self, store: OffsetStore) -> None:
        self._store = store
        self._maps: dict[bytes, ByPartition] = {}
        self._topic_ids: dict[bytes, bytes] = {}  # one object for each id, however many offsets have it

    def replay(self, key: bytes, value: bytes | None, log_offset: int) -> bool:
        """False if this record is none of the plain ones, or of a place that is not known yet."""
        partitions = self._maps.get(key[:-4])
        if (
            partitions is None
            or value is None
            or len(value) != _PLAIN_BYTES
            or value[:2] != _VERSION_4
            or value[14] != _EMPTY
            or value[23:26] != _TOPIC_ID_TAG
        ):
            return False
        offset, leader_epoch, commit_timestamp = _OFFSET_EPOCH_TIME.unpack_from(value, 2)
        topic_id = value[26:]
        topic_id = self._topic_ids.setdefault(topic_id, topic_id)
        partitions[_PARTITION.unpack_from(key, len(key) - 4)[0]] = _new(
            CommittedOffset, (offset, leader_epoch, "", commit_timestamp, NO_EXPIRY, topic_id, log_offset)
        )
        return True

    def learn(self, key: bytes, group_id: str, topic: str) -> None:
        """Where further keys like this one lead to."""
        self._maps[key[:-4]] = self._store.partitions_of(group_id, topic)

    def forget(self) -> None:
        self._maps.clear()
