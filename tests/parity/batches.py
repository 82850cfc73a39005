"""Record batches for scenarios: the same bytes for both brokers."""

from __future__ import annotations

import time
from struct import Struct

from crc32c import crc32c

from kohort.protocol.record_batch import (
    BATCH_HEADER_BYTES,
    CRC_AT,
    CRC_START,
    TRANSACTIONAL,
    BatchHeader,
    Record,
    pack_header,
    rebuild_batch,
    unpack_header,
)

# An hour ago: retention of both brokers would take records of a fixed time in the past away.
START_MS = int(time.time()) * 1000 - 3_600_000

_CRC = Struct(">I")


def batch(
    count: int = 3,
    *,
    start_ms: int = START_MS,
    step_ms: int = 1000,
    size_bytes: int = 10,
    key: bytes | None = b"key",
    base_offset: int = 0,
    compression: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
    transactional: bool = False,
) -> bytes:
    """`count` records, a step apart in time; `producer` is (id, epoch, first sequence)."""
    records = [
        Record(base_offset + index, start_ms + index * step_ms, key, b"%d" % (index % 10) * size_bytes)
        for index in range(count)
    ]
    attributes = compression | (TRANSACTIONAL if transactional else 0)
    like = BatchHeader(base_offset, 0, -1, 2, 0, attributes, count - 1, start_ms, 0, *producer, count)
    return rebuild_batch(like, records)


def changed(original: bytes, *, keep_crc: bool = False, **fields: int) -> bytes:
    """The batch with header fields that no producer would write; its CRC is made right unless told otherwise."""
    header = BatchHeader(*unpack_header(original))._replace(**fields)
    data = bytearray(pack_header(*header) + original[BATCH_HEADER_BYTES:])
    if not keep_crc and "crc" not in fields:
        _CRC.pack_into(data, CRC_AT, crc32c(bytes(data[CRC_START:])))
    return bytes(data)
