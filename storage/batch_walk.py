"""Walks over the batches of a log file: with their bytes and checksums, or only over their headers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kohort.protocol.record_batch import (
    BATCH_HEADER_BYTES,
    LAST_OFFSET_DELTA_AT,
    LOG_OVERHEAD_BYTES,
    BatchHeader,
    CorruptBatch,
    parse_header,
    unpack_last_offset_delta,
    unpack_offset_and_length,
    verify_crc,
)
from kohort.storage.disk import File

CHUNK_BYTES: Final = 1 << 20
HEADER_CHUNK_BYTES: Final = 1 << 13  # two index intervals: one read finds most offsets


def walk_batches(
    file: File, position: int, end: int, *, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[tuple[BatchHeader, bytes, int]]:
    """(header, chunk, where the batch starts in the chunk) of each batch in [position, end) of the file.

    Reads large chunks, checks every CRC, and raises CorruptBatch with the place in the file at the first
    batch that is not whole and sound. `read_records(chunk, at, header=header)` decodes it without a copy.
    """
    wanted = chunk_bytes
    while position < end:
        chunk = _read(file, position, min(wanted, end - position))
        wanted = chunk_bytes
        at, size = 0, len(chunk)
        try:
            while size - at >= BATCH_HEADER_BYTES:
                header = parse_header(chunk, at)
                batch_bytes = LOG_OVERHEAD_BYTES + header[1]
                if at + batch_bytes > size:
                    if position + at + batch_bytes > end:
                        raise CorruptBatch(f"is cut off: {end - position - at} of {batch_bytes} bytes")
                    wanted = max(chunk_bytes, batch_bytes)
                    break
                verify_crc(chunk, at, header)
                yield header, chunk, at
                at += batch_bytes
            else:
                if position + size >= end and at < size:
                    raise CorruptBatch(f"is cut off: {size - at} bytes")
        except CorruptBatch as error:
            raise CorruptBatch(f"{file.path}, batch at byte {position + at}: {error}") from None
        position += at


def walk_chunks(
    file: File, position: int, end: int, *, gaps_allowed: bool = False, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[tuple[bytes, int, int, int]]:
    """(chunk, how much of it is whole batches, first offset, next offset), for `scan_records` to decode.

    Checks that sizes and offsets add up, and leaves the checksums to `scan_records`.
    """
    wanted = chunk_bytes
    while position < end:
        chunk = _read(file, position, min(wanted, end - position))
        wanted = chunk_bytes
        at, size = 0, len(chunk)
        first_offset = next_offset = -1
        while size - at >= BATCH_HEADER_BYTES:
            base_offset, length = unpack_offset_and_length(chunk, at)
            batch_bytes = LOG_OVERHEAD_BYTES + length
            if batch_bytes < BATCH_HEADER_BYTES or position + at + batch_bytes > end:
                raise CorruptBatch(f"{file.path}, batch at byte {position + at}: {batch_bytes} bytes cannot be")
            if at + batch_bytes > size:
                wanted = max(chunk_bytes, batch_bytes)
                break
            if next_offset < 0:
                first_offset = next_offset = base_offset
            if base_offset < next_offset or (base_offset > next_offset and not gaps_allowed):
                raise CorruptBatch(f"{file.path}, batch at byte {position + at}: offset {base_offset}")
            next_offset = base_offset + unpack_last_offset_delta(chunk, at + LAST_OFFSET_DELTA_AT)[0] + 1
            at += batch_bytes
        else:
            if position + size >= end and at < size:
                raise CorruptBatch(f"{file.path}, batch at byte {position + at}: is cut off: {size - at} bytes")
        if at:
            yield chunk, at, first_offset, next_offset
        position += at


def _read(file: File, position: int, size_bytes: int) -> bytes:
    chunk = file.pread(size_bytes, position)
    if len(chunk) < size_bytes:
        raise CorruptBatch(f"{file.path} ends at byte {position + len(chunk)}, before its last batch does")
    return chunk


def walk_headers(file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each batch in [position, end). Cheap, but it does not see damage behind the headers."""
    chunk, start = b"", position
    while position < end:
        if position + BATCH_HEADER_BYTES > start + len(chunk):
            chunk, start = _read(file, position, min(HEADER_CHUNK_BYTES, end - position)), position
        try:
            header = parse_header(chunk, position - start)
            if position + LOG_OVERHEAD_BYTES + header[1] > end:
                raise CorruptBatch(f"is cut off: {end - position} bytes are there")
        except CorruptBatch as error:
            raise CorruptBatch(f"{file.path}, batch at byte {position}: {error}") from None
        yield position, header
        position += LOG_OVERHEAD_BYTES + header[1]
