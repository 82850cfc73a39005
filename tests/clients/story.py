"""What every client does: the records it writes, and what must come back.

10,000 records over three partitions, record i in partition i % 3 with the offset i // 3, a millisecond apart.
"""

from __future__ import annotations

import time

RECORDS = 10_000
PARTITIONS = 3
START_MS = int(time.time()) * 1000 - 60_000  # near enough to now that no retention takes them away
SEEK_RECORD = 6_000
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


def key(index: int) -> bytes:
    return b"key-%d" % index


def value(index: int) -> bytes:
    return b"value-%d-%s" % (index, b"kohort" * (index % 8))


def timestamp_ms(index: int) -> int:
    return START_MS + index


def partition_of(index: int) -> int:
    return index % PARTITIONS


# (offset, timestamp, key, value), as each client's records are turned into
Row = tuple[int, int, bytes | None, bytes | None]


def expected_rows(partition: int, count: int = RECORDS) -> list[Row]:
    indexes = range(partition, count, PARTITIONS)
    return [(offset, timestamp_ms(index), key(index), value(index)) for offset, index in enumerate(indexes)]


def expected_seek_offset(partition: int) -> int:
    """The first offset at or after the time of SEEK_RECORD."""
    first = next(index for index in range(SEEK_RECORD, RECORDS) if partition_of(index) == partition)
    return first // PARTITIONS


def check_rows(rows: dict[int, list[Row]], count: int = RECORDS) -> None:
    """Everything came back, once, in order, unchanged."""
    assert sorted(rows) == list(range(PARTITIONS))
    for partition in range(PARTITIONS):
        expected = expected_rows(partition, count)
        assert len(rows[partition]) == len(expected)
        assert rows[partition] == expected
