"""Which whole batches are in a slice of a log, which of these were aborted, and the part that holds some of them."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from kohort.coordinator.delivery.states import LogBatch
from kohort.protocol.record_batch import (
    ATTRIBUTES_AT,
    BATCH_HEADER_BYTES,
    CONTROL,
    LAST_OFFSET_DELTA_AT,
    LOG_OVERHEAD_BYTES,
    PRODUCER_ID_AT,
    TRANSACTIONAL,
    CorruptBatch,
    unpack_last_offset_delta,
    unpack_offset_and_length,
)
from kohort.storage.open_files import LogSlice
from kohort.storage.txn_index import AbortedTransaction

CHUNK_BYTES = 8_192
_unpack_attributes = Struct(">h").unpack_from
_unpack_producer_id = Struct(">q").unpack_from


class FoundBatches:
    """The whole batches at the beginning of a slice; a cut one at its end is none."""

    __slots__ = ("_is_single", "aborted", "batches", "ends")

    def __init__(self, found: LogSlice, until: int, aborted: Sequence[AbortedTransaction] = ()) -> None:
        """Looks no further once a batch begins behind the offset `until`. `aborted`: transactions that may be in it."""
        self.batches: list[LogBatch] = []
        self.aborted: list[LogBatch] = []
        transactions = _Aborted(aborted)
        self.ends: list[int] = []  # where each batch ends in the slice
        self._is_single = False  # the slice has no other whole batch
        chunk, chunk_at, at, size = b"", 0, 0, found.length
        while size - at >= BATCH_HEADER_BYTES:
            place = at - chunk_at
            if place + BATCH_HEADER_BYTES > len(chunk):
                chunk, chunk_at, place = found.file.pread(min(CHUNK_BYTES, size - at), found.position + at), at, 0
                if len(chunk) < BATCH_HEADER_BYTES:
                    raise CorruptBatch(f"{found.file.path} ends within a batch")
            base_offset, length = unpack_offset_and_length(chunk, place)
            end = at + LOG_OVERHEAD_BYTES + length
            if end > size:
                break
            if base_offset > until:
                return
            if length < BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES:
                raise CorruptBatch(f"{found.file.path}, batch at byte {found.position + at}: {length} bytes")
            last_offset = base_offset + unpack_last_offset_delta(chunk, place + LAST_OFFSET_DELTA_AT)[0]
            batch = LogBatch(base_offset, last_offset)
            self.batches.append(batch)
            if aborted and transactions.have(chunk, place, base_offset):
                self.aborted.append(batch)
            self.ends.append(end)
            at = end
        self._is_single = len(self.ends) == 1

    def trim(self, found: LogSlice, first: int, last: int) -> None:
        """Leave in the slice only the batches that have records from `first` to `last`. As in Kafka, a slice with a
        single batch stays as it is, also if the beginning of another one is in it.
        """
        if self._is_single:
            return
        begin, end = _bounds(self.batches, first, last)
        start = self.ends[begin - 1] if begin else 0
        found.position += start
        found.length = self.ends[end] - start


class _Aborted:
    """Aborted transactions, by producer, in the order in which they ended. Batches are asked about in their order."""

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        self._by_producer: dict[int, list[AbortedTransaction]] = {}
        for each in sorted(aborted, key=lambda one: one.last_offset, reverse=True):
            self._by_producer.setdefault(each.producer_id, []).append(each)

    def have(self, chunk: bytes, place: int, base_offset: int) -> bool:
        """Whether the batch whose header begins there is data of one of them."""
        (attributes,) = _unpack_attributes(chunk, place + ATTRIBUTES_AT)
        if attributes & (TRANSACTIONAL | CONTROL) != TRANSACTIONAL:
            return False
        left = self._by_producer.get(_unpack_producer_id(chunk, place + PRODUCER_ID_AT)[0], [])
        while left and left[-1].last_offset < base_offset:
            left.pop()
        return bool(left) and left[-1].first_offset <= base_offset


def _bounds(batches: Sequence[LogBatch], first: int, last: int) -> tuple[int, int]:
    begin = end = 0
    for index, batch in enumerate(batches):
        if batch.base_offset <= first:
            begin = index
        if batch.base_offset > last:
            break
        end = index
    return begin, end
