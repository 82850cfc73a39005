"""Compression of record batches: gzip, snappy, lz4 and zstd, read with a cap on what comes out."""

from typing import Final

DEFAULT_MAX_INFLATED_BYTES: Final = 64 * 1024 * 1024


def inflate(compression: int, block: memoryview, max_inflated_bytes: int) -> bytes:
    raise NotImplementedError


def compress(compression: int, data: bytes | bytearray) -> bytes:
    raise NotImplementedError
