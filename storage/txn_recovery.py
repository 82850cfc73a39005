"""Makes transaction indexes again from the log, after a crash or if one is damaged.

What an index says follows from the batches: data of a producer opens a transaction, its marker ends it. A transaction
may have begun before the segments that are walked. What was open there is known from the newest producer snapshot at or
below them, and from the headers between the two. That is looked up only if there is a batch of a transaction at all.

    <offset>.snapshot    version int16 (1) | crc int32, CRC-32C of the rest | count int32 | per producer 46 bytes, of
        which only its id and the first offset of its open transaction (-1: none) matter here
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Final

from kohort.protocol.crc32c import crc32c
from kohort.protocol.record_batch import BatchHeader, parse_marker, read_records
from kohort.storage.batch_walk import walk_batches, walk_headers
from kohort.storage.layout import SNAPSHOT, TXN_INDEX, segment_file
from kohort.storage.segment import Segment
from kohort.storage.txn_index import AbortedTransaction, TxnIndex

logger = logging.getLogger(__name__)

_HEAD: Final = Struct(">hIi")
_CRC_END: Final = 6  # what follows is covered by the checksum
_ENTRY: Final = Struct(">q30xq")
SNAPSHOT_VERSION: Final = 1


class TxnRecovery:
    """A walk over the batches of some segments, in the order of the log."""

    def __init__(self, segments: Sequence[Segment], snapshots: Iterable[int]) -> None:
        """`segments`: all of the log. `snapshots`: the offsets of those that there are."""
        self._segments = segments
        self._snapshots = sorted(snapshots)
        self._walked_from = -1
        self._open: dict[int, int] | None = None  # first offset by producer; None: not looked up yet

    def begin(self, segment: Segment, *, has_index: bool) -> None:
        """The batches of this segment come next. Its index becomes empty."""
        if self._walked_from < 0:
            self._walked_from = segment.base_offset
        if has_index:
            segment.txn_index = TxnIndex.create(segment.disk, segment.path(TXN_INDEX))

    def note(self, segment: Segment, header: BatchHeader, chunk: bytes, at: int) -> None:
        """A batch of a transaction: data or a marker."""
        if self._open is None:
            self._open = self._open_at(self._walked_from)
        if not header.is_control:
            self._open.setdefault(header.producer_id, header.base_offset)
            return
        for record in read_records(chunk, at, header=header):
            marker = parse_marker(record.key, record.value)
            if marker is None:
                continue
            first = self._open.pop(header.producer_id, None)
            if first is not None and not marker.commit:
                stable = min(self._open.values(), default=record.offset + 1)
                segment.record_aborted(AbortedTransaction(header.producer_id, first, record.offset, stable))

    def end(self, segment: Segment) -> None:
        """All sound batches of the segment were noted: make its index durable."""
        if segment.txn_index is not None and (file := segment.txn_index.take_file()) is not None:
            try:
                file.sync()
            finally:
                file.close()

    # --- what was open where the walk began

    def _open_at(self, offset: int) -> dict[int, int]:
        found, known_to = _newest_snapshot(self._segments[0], self._snapshots, offset)
        for segment in self._segments:
            if segment.base_offset >= offset:
                break
            if segment.next_offset > known_to:
                for _, header in walk_headers(segment.file(), segment.find(known_to) or 0, segment.size_bytes):
                    if header.is_control:
                        found.pop(header.producer_id, None)
                    elif header.is_transactional:
                        found.setdefault(header.producer_id, header.base_offset)
                segment.release_file()
        return found


def _newest_snapshot(first: Segment, snapshots: Sequence[int], offset: int) -> tuple[dict[int, int], int]:
    """(first offset by producer, offset up to which that is known) from a snapshot at or below this offset."""
    for known_to in reversed(snapshots[: bisect_right(snapshots, offset)]):
        path = f"{first.folder}/{segment_file(known_to, SNAPSHOT)}"
        try:
            return _open_transactions(first.disk.read_file(path)), known_to
        except (ValueError, OSError) as problem:
            logger.warning("%s: %s; an older snapshot is used", path, problem)
    return {}, 0


def _open_transactions(snapshot: bytes) -> dict[int, int]:
    """ValueError if this is no snapshot."""
    if len(snapshot) < _HEAD.size:
        raise ValueError(f"{len(snapshot)} bytes are too short")
    version, crc, count = _HEAD.unpack_from(snapshot)
    if version != SNAPSHOT_VERSION or crc != crc32c(snapshot[_CRC_END:]):
        raise ValueError(f"version {version}, or a wrong checksum")
    if len(snapshot) != _HEAD.size + count * _ENTRY.size:
        raise ValueError(f"{count} producers in {len(snapshot)} bytes")
    entries = _ENTRY.iter_unpack(snapshot[_HEAD.size :])
    return {producer_id: first_offset for producer_id, first_offset in entries if first_offset >= 0}


def rebuild_txn_index(segment: Segment, segments: Sequence[Segment], snapshots: Iterable[int]) -> None:
    """Make the index of one segment again, because its file is damaged. CorruptBatch if the log is damaged, too."""
    walk = TxnRecovery(segments, snapshots)
    walk.begin(segment, has_index=True)
    for header, chunk, at in walk_batches(segment.file(), 0, segment.size_bytes):
        if header.is_transactional:
            walk.note(segment, header, chunk, at)
    walk.end(segment)
    segment.release_file()
