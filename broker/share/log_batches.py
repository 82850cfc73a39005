"""Which whole batches are in a slice of a log, and the part of the slice that holds some of them."""

from __future__ import annotations

from collections.abc import Sequence

from kohort.coordinator.delivery.states import LogBatch
from kohort.protocol.record_batch import (
    BATCH_HEADER_BYTES,
    LAST_OFFSET_DELTA_AT,
    LOG_OVERHEAD_BYTES,
    CorruptBatch,
    unpack_last_offset_delta,
    unpack_offset_and_length,
)
from kohort.storage.open_files import LogSlice

CHUNK_BYTES = 8_192


class FoundBatches:
    """The whole batches at the beginning of a slice; a cut one at its end is none."""

    __slots__ = ("batches", "ends")

    def __init__(self, found: LogSlice, until: int) -> None:
        """Looks no further once a batch begins behind the offset `until`."""
        self.batches: list[LogBatch] = []
        self.ends: list[int] = []  # where each batch ends in the slice
        chunk, chunk_at, at, size = b"", 0, 0, found.length
        while size - at >= BATCH_HEADER_BYTES:
            place = at - chunk_at
            if place + BATCH_HEADER_BYTES > len(chunk):
                chunk, chunk_at, place = found.file.pread(min(CHUNK_BYTES, size - at), found.position + at), at, 0
                if len(chunk) < BATCH_HEADER_BYTES:
                    raise CorruptBatch(f"{found.file.path} ends within a batch")
            base_offset, length = unpack_offset_and_length(chunk, place)
            end = at + LOG_OVERHEAD_BYTES + length
            if end > size or base_offset > until:
                return
            if length < BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES:
                raise CorruptBatch(f"{found.file.path}, batch at byte {found.position + at}: {length} bytes")
            last_offset = base_offset + unpack_last_offset_delta(chunk, place + LAST_OFFSET_DELTA_AT)[0]
            self.batches.append(LogBatch(base_offset, last_offset))
            self.ends.append(end)
            at = end

    def trim(self, found: LogSlice, first: int, last: int) -> None:
        """Leave in the slice only the batches that have records from `first` to `last`."""
        begin, end = _bounds(self.batches, first, last)
        start = self.ends[begin - 1] if begin else 0
        found.position += start
        found.length = self.ends[end] - start


def _bounds(batches: Sequence[LogBatch], first: int, last: int) -> tuple[int, int]:
    begin = end = 0
    for index, batch in enumerate(batches):
        if batch.base_offset <= first:
            begin = index
        if batch.base_offset > last:
            break
        end = index
    return begin, end
