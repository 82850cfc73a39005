"""How the transactions of a log ended, for a run of compaction: found by reading the part of the log that is dirty."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator, Iterator

from kohort.protocol.record_batch import BatchHeader, parse_marker, read_records
from kohort.storage.cleanable import CleanableRange
from kohort.storage.segment import Segment
from kohort.storage.txn_index import AbortedTransaction

STEP_BYTES = 32 * 1024  # about a millisecond of work, then the throttle may pause


class Outcomes:
    """How the transactions of the dirty part ended. Only aborted ones are kept."""

    def __init__(self) -> None:
        # By producer id: where its aborted transactions began, and where their markers are.
        self.aborted: dict[int, tuple[list[int], list[int]]] = {}
        self.open: dict[int, int] = {}  # producer id: first offset of its transaction
        self.undecided_from: int | None = None

    def note(self, header: BatchHeader, chunk: bytes, at: int) -> None:
        """Note a batch of a transaction: data begins it, a marker ends it."""
        if not header.is_control:
            self.open.setdefault(header.producer_id, header.base_offset)
            return
        for record in read_records(chunk, at, header=header):
            marker = parse_marker(record.key, record.value)
            if marker is None:
                continue
            first = self.open.pop(header.producer_id, None)
            if first is not None and not marker.commit:
                firsts, markers = self.aborted.setdefault(header.producer_id, ([], []))
                firsts.append(first)
                markers.append(record.offset)

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether this data was aborted."""
        if header.producer_id not in self.aborted:
            return False
        firsts, markers = self.aborted[header.producer_id]
        number = bisect_right(firsts, header.base_offset) - 1
        return number >= 0 and header.base_offset < markers[number]


def find_aborted(cleanable: CleanableRange, outcomes: Outcomes) -> Generator[int, None, None]:
    """Read the dirty part, and go on until the ends of all its transactions are known."""
    io_bytes = 0
    for segment in (*cleanable.segments, *cleanable.following):
        if segment.next_offset <= cleanable.first_dirty_offset or segment.size_bytes == 0:
            continue
        behind = segment.base_offset >= cleanable.end_offset
        if behind and not any(first < cleanable.end_offset for first in outcomes.open.values()):
            break
        for header, chunk, at in segment.batches():
            if header.is_transactional and header.last_offset >= cleanable.first_dirty_offset:
                outcomes.note(header, chunk, at)
            io_bytes += header.size_bytes
            if io_bytes >= STEP_BYTES:
                yield io_bytes
                io_bytes = 0
    undecided = [first for first in outcomes.open.values() if first < cleanable.end_offset]
    outcomes.undecided_from = min(undecided, default=None)
    yield io_bytes


class AbortedEntries:
    """What the transaction index of a segment says of markers, which are asked for in the order of the log."""

    def __init__(self, segment: Segment) -> None:
        self._entries: Iterator[AbortedTransaction] = iter(segment.txn_index or ())
        self._next = next(self._entries, None)

    def at(self, marker_offset: int) -> AbortedTransaction | None:
        while self._next is not None and self._next.last_offset < marker_offset:
            self._next = next(self._entries, None)
        found = self._next
        return found if found is not None and found.last_offset == marker_offset else None
