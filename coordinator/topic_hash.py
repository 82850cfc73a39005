"""Kafka's hash of the topics that a group is subscribed to. It is kept in the group's record and tells whether they
have changed.

    topic   byte 0 | id | name | count of partitions | of each partition: its index, and the racks of its replicas
    name    UTF-16 code units | their count
    group   the topics' hashes, in the order of their names

Numbers are little endian, and XXH3 hashes all of it. Racks are written like names, behind their length. Kohort is one
broker, so each partition has its one rack, or none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from struct import Struct
from typing import TYPE_CHECKING

from kohort.coordinator.api import Steps, in_slices

if TYPE_CHECKING:
    from kohort.coordinator.shard_state import Topics

_int32 = Struct("<i").pack
_int64 = Struct("<q").pack
_uint64 = Struct("<Q").pack
MAX_CACHED_TOPICS = 50_000


def group_hash(topics: Topics, names: Iterable[str], rack: str) -> int:
    """The hash of the topics that exist; 0 if there are none."""
    hashes = [
        _topic_hash(topic_id, name, topics.partition_count(name), rack)
        for name in names
        if (topic_id := topics.topic_id(name)) is not None
    ]
    return _signed(_hash(b"".join(hashes))) if hashes else 0


def hash_in_steps(topics: Topics, names: Iterable[str], rack: str) -> Steps[None]:
    """Hash very many topics ahead of time, so that `group_hash` finds their hashes."""
    for some in in_slices(names):
        group_hash(topics, some, rack)
        yield


@lru_cache(maxsize=MAX_CACHED_TOPICS)
def _topic_hash(topic_id: bytes, name: str, partition_count: int, rack: str) -> bytes:
    high, low = (int.from_bytes(half, signed=True) for half in (topic_id[:8], topic_id[8:]))
    start = b"\0" + _int64(high) + _int64(low) + _text(name) + _int32(partition_count)
    racks = _int32(_length(rack)) + _text(rack) if rack else b""
    return _uint64(_hash(start + b"".join([_int32(index) + racks for index in range(partition_count)])))


def _text(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass") + _int32(_length(text))


def _length(text: str) -> int:
    """In UTF-16 code units, as Java counts."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _hash(data: bytes) -> int:
    return _xxh3()(data)


@cache
def _xxh3() -> Callable[[bytes], int]:
    from xxhash import xxh3_64_intdigest  # with the first group, not at the start of the broker

    return xxh3_64_intdigest


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number
