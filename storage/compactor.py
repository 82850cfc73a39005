"""Log compaction: keeps the newest record of each key and removes the others. Offsets do not change.

A run over one log, Kafka's way (KIP-58, KIP-98, KIP-534):

    |  clean: compacted before  |  dirty: the map is made of this  |  young, undecided  | active |
    log start                   first dirty offset                 end offset

1. Transactions: which of those in the dirty part were aborted? One without a marker ends the range.
2. The map: for every key in the dirty part, the offset of its last record that was not aborted. When the
   memory for the map is used up, the range ends there, and the next run goes on from that offset.
3. The rewrite: segments from the log's start to the end of the range, in groups of up to segment.bytes, each
   group into one `.cleaned` segment. A record stays if the map knows no later one for its key. A tombstone
   stays until its delete horizon. The first run that meets it writes this time into its batch (now +
   delete.retention.ms), so that every reader has that long to see the tombstone. A transaction marker is removed in
   the same way when no data of its transaction is left. Aborted data and records without a key are removed at once; the
   entry in the transaction index goes with the next run, which meets no data of it any more.
4. The swap, per group: `.cleaned` is synced and renamed to `.swap`; then the host puts it into the log.

Batches that lose no record are copied byte by byte. The others are built again with the same offsets, producer and
epoch. The last batch of a group stays even if it has no records left: its 61 bytes say where the segment ends.

Nothing here sleeps or starts threads. `Compaction.steps` is a generator that yields how many bytes it has just read
and written. The host runs it in a thread and pauses between the steps for as long as an IoThrottle says. If a run is
interrupted at any step, recovery removes or finishes its files. A record is removed only if a later one for its key is
in a segment that stays, and groups are swapped from the log's start on. So a log in which some groups are swapped and
others not is complete.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

from kohort.protocol.record_batch import (
    LOG_OVERHEAD_BYTES,
    NO_PRODUCER_ID,
    BatchHeader,
    PackedRecord,
    parse_header,
    parse_marker,
    read_packed_records,
    read_records,
    rebuild_batch,
    scan_records,
)
from kohort.storage.cleanable import CleanableRange, group_segments
from kohort.storage.layout import CLEANED, SEGMENT_KINDS, SWAP, segment_file
from kohort.storage.log_config import LogConfig
from kohort.storage.outcomes import STEP_BYTES, AbortedEntries, Outcomes, find_aborted
from kohort.storage.segment import Segment

DEFAULT_MAX_MAP_BYTES: Final = 128 * 1024 * 1024  # Kafka's log.cleaner.dedupe.buffer.size
MAP_ENTRY_BYTES: Final = 256  # a key of up to 64 bytes, its offset, and their entry in a growing dict
MAX_PLAIN_KEY_BYTES: Final = 63
DIGEST_BYTES: Final = 64  # one more than the longest plain key, so a digest is never equal to a plain key
WRITE_BYTES: Final = 1024 * 1024

Steps = Generator[int, None, None]
Swap = Callable[[Segment, Sequence[Segment]], None]


# --- a run ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class Compaction:
    """One run over one log. `steps()` does the work; the other fields have its results."""

    cleanable: CleanableRange
    config: LogConfig
    now: int
    prepare_swap: Callable[[Sequence[Segment]], None]  # of the PartitionLog
    swap: Swap  # runs PartitionLog.swap_segments where the log lives, and returns when that is done
    max_map_bytes: int = DEFAULT_MAX_MAP_BYTES
    last_offsets: Mapping[int, int] = field(default_factory=dict)  # of active producers, by producer id
    marker_epochs: Mapping[int, int] = field(default_factory=dict)  # of those that wrote nothing after a marker

    cleaned_up_to: int | None = None  # the new first dirty offset, once the run is complete
    bytes_before: int = 0
    bytes_after: int = 0
    records_before: int = 0
    records_after: int = 0

    def steps(self) -> Steps:
        """Do the run; yields how many bytes were read and written since the last time."""
        outcomes, offsets = Outcomes(), self._new_map(self.cleanable.end_offset)
        segments = self.cleanable.segments
        yield from _fill(offsets, segments, self.cleanable.first_dirty_offset, None)
        if offsets.met_transaction:  # most logs have no transactions; this one must be read again
            yield from find_aborted(self.cleanable, outcomes)
            segments = _below(segments, outcomes.undecided_from)
            if not segments or segments[-1].next_offset <= self.cleanable.first_dirty_offset:
                return
            offsets = self._new_map(segments[-1].next_offset)
            yield from _fill(offsets, segments, self.cleanable.first_dirty_offset, outcomes)
        kept = _Retention(
            offsets, outcomes, self.now, self.config.delete_retention_ms, self.last_offsets, self.marker_epochs
        )
        covered = [segment for segment in segments if segment.base_offset < offsets.end_offset]
        for group in group_segments(covered, self.config.segment_bytes):
            yield from self._rewrite(group, kept)
        self.cleaned_up_to = offsets.end_offset

    def _new_map(self, end_offset: int) -> _OffsetMap:
        return _OffsetMap(max(1, self.max_map_bytes // MAP_ENTRY_BYTES), end_offset)

    def _rewrite(self, group: Sequence[Segment], kept: _Retention) -> Steps:
        first = group[0]
        output = Segment.create(first.disk, first.folder, first.base_offset, self.config, CLEANED)
        output.modified_ms = group[-1].modified_ms
        try:
            yield from self._filter(group, kept, output)
            output.finish()
            self.prepare_swap([output])
        except (Exception, GeneratorExit):  # no space, a failed sync, or the broker stops: undo the run
            output.release_file()
            _remove_files(output)
            raise
        self.swap(output, group)
        self.bytes_before += sum(segment.size_bytes for segment in group)
        self.bytes_after += output.size_bytes

    def _filter(self, group: Sequence[Segment], kept: _Retention, output: Segment) -> Steps:
        pending, headers = bytearray(), []
        io_bytes = 0
        bytes_left = sum(segment.size_bytes for segment in group)
        for segment in group:
            aborted = AbortedEntries(segment)
            for header, chunk, at in segment.batches():
                size_bytes = LOG_OVERHEAD_BYTES + header[1]
                bytes_left -= size_bytes
                batch, new_header = kept.filter(header, chunk, at, is_last=bytes_left == 0)
                if header.base_offset == kept.last_abort and (entry := aborted.at(kept.last_abort)) is not None:
                    output.record_aborted(entry)
                io_bytes += size_bytes + len(batch)
                self.records_before += header.record_count
                if new_header is not None:
                    pending += batch
                    headers.append(new_header)
                    self.records_after += new_header.record_count
                if len(pending) >= WRITE_BYTES:
                    output.append(pending, headers)
                    pending, headers = bytearray(), []
                if io_bytes >= STEP_BYTES:
                    yield io_bytes
                    io_bytes = 0
        if headers:
            output.append(pending, headers)
        yield io_bytes


def _below(segments: Sequence[Segment], offset: int | None) -> Sequence[Segment]:
    """The segments that end at or before `offset`."""
    return [segment for segment in segments if offset is None or segment.next_offset <= offset]


def _remove_files(segment: Segment) -> None:
    for suffix in (CLEANED, SWAP):
        for kind in SEGMENT_KINDS:
            with suppress(OSError):
                segment.disk.unlink(f"{segment.folder}/{segment_file(segment.base_offset, kind, suffix)}")


# --- the map --------------------------------------------------------------------------------------


class _OffsetMap:
    """Key -> offset of its newest record, in bounded memory."""

    __slots__ = ("end_offset", "max_entries", "met_transaction", "offsets")

    def __init__(self, max_entries: int, end_offset: int) -> None:
        self.offsets: dict[bytes, int] = {}
        self.max_entries = max_entries
        self.end_offset = end_offset  # the map has all keys of records below
        self.met_transaction = False

    def takes(self, header: BatchHeader) -> bool:
        """Whether the batch fits into an empty map. If not, its keys are not in the map, and its tombstones stay."""
        return header.record_count <= self.max_entries

    def add(self, header: BatchHeader, chunk: bytes, at: int) -> None:
        offsets = self.offsets
        end = at + LOG_OVERHEAD_BYTES + header[1]
        for _, offset, _, key, _, _ in scan_records(chunk, at, end, check_crc=False, with_headers=False):
            if key is not None:
                offsets[key if len(key) <= MAX_PLAIN_KEY_BYTES else _digest(key)] = offset

    def holds(self, record: PackedRecord) -> bool:
        """Whether this record is in the map, and so all records of its batch."""
        key = record.key
        if key is None:
            return False
        return self.offsets.get(key if len(key) <= MAX_PLAIN_KEY_BYTES else _digest(key)) == record.offset

    def is_newest(self, key: bytes, offset: int) -> bool:
        newest = self.offsets.get(key if len(key) <= MAX_PLAIN_KEY_BYTES else _digest(key))
        return newest is None or offset >= newest


def _digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=DIGEST_BYTES).digest()


def _fill(offsets: _OffsetMap, segments: Sequence[Segment], first_dirty: int, outcomes: Outcomes | None) -> Steps:
    """Read the dirty part into the map. Without `outcomes`, stops at the first batch of a transaction."""
    io_bytes = 0
    for segment in segments:
        if segment.next_offset <= first_dirty:
            continue
        for header, chunk, at in segment.batches():
            if header[0] + header[6] < first_dirty:
                continue
            io_bytes += LOG_OVERHEAD_BYTES + header[1]
            if io_bytes >= STEP_BYTES:
                yield io_bytes
                io_bytes = 0
            if header.is_transactional:
                if outcomes is None:
                    offsets.met_transaction = True
                    return
                if outcomes.is_aborted(header):
                    continue
            if header.is_control or not offsets.takes(header):
                continue
            if len(offsets.offsets) + header.record_count > offsets.max_entries:
                offsets.end_offset = header.base_offset
                return
            offsets.add(header, chunk, at)
    yield io_bytes


# --- what stays -----------------------------------------------------------------------------------


class _Retention:
    """Decides which records of each batch stay. Batches come in the order of the log."""

    def __init__(
        self,
        offsets: _OffsetMap,
        outcomes: Outcomes,
        now: int,
        delete_retention_ms: int,
        last_offsets: Mapping[int, int],
        marker_epochs: Mapping[int, int],
    ) -> None:
        self.offsets = offsets
        self.outcomes = outcomes
        self.now = now
        self.new_horizon_ms = now + delete_retention_ms
        self.last_offsets = last_offsets
        self.marker_epochs = marker_epochs
        self.last_abort = -1  # the offset of the last marker whose aborted transaction had data until this run
        self.producers_with_data: set[int] = set()  # producers whose transaction has data so far, and no marker yet

    def filter(self, header: BatchHeader, chunk: bytes, at: int, *, is_last: bool) -> tuple[bytes, BatchHeader | None]:
        """The batch for the new segment, and its header; the header is None if nothing of the batch stays."""
        if header.is_control:
            count, horizon_ms = self._judge_marker(header, chunk, at)
        else:
            count, horizon_ms = self._judge_data(header, chunk, at)
        if count == header.record_count and count and horizon_ms is None:
            return chunk[at : at + LOG_OVERHEAD_BYTES + header[1]], header
        if count:
            packed = read_packed_records(chunk, at, header)
            kept = packed if header.is_control else self._kept(header, packed)
            batch = rebuild_batch(header, kept, delete_horizon_ms=horizon_ms)
        elif is_last or self._is_last_of_producer(header):
            batch = rebuild_batch(header, ())
        else:
            return b"", None
        return batch, parse_header(batch)

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        """Whether this is its producer's last batch, whose sequence number serves to recognise duplicates.

        A marker that has begun a new epoch takes the place of the batches before it.
        """
        if header.is_control:
            return self.marker_epochs.get(header.producer_id) == header.producer_epoch
        return header.producer_id != NO_PRODUCER_ID and (
            self.last_offsets.get(header.producer_id) == header.last_offset
        )

    def _judge_data(self, header: BatchHeader, chunk: bytes, at: int) -> tuple[int, int | None]:
        """(how many records stay, the delete horizon to set if any).

        The time of a tombstone begins in the run that removes the older records of its key. That is the run that has
        the tombstone in its map. Tombstones in a batch that did not fit into the map stay for ever, even if the batch
        has become smaller since, or the map larger.
        """
        if header.is_transactional:
            self.producers_with_data.add(header.producer_id)
            if self.outcomes.is_aborted(header):
                return 0, None
        count, has_tombstone = 0, False
        for record in self._kept(header, read_packed_records(chunk, at, header)):
            count += 1
            has_tombstone = has_tombstone or (record.value is None and self.offsets.holds(record))
        if has_tombstone and not header.has_delete_horizon:
            return count, self.new_horizon_ms
        return count, None

    def _kept(self, header: BatchHeader, records: Iterator[PackedRecord]) -> Iterator[PackedRecord]:
        """The records that stay, one at a time: a compressed batch may have millions of records."""
        horizon_ms = header.delete_horizon_ms
        tombstones_stay = horizon_ms is None or self.now < horizon_ms or not self.offsets.takes(header)
        end_offset, is_newest = self.offsets.end_offset, self.offsets.is_newest
        for record in records:
            offset, _, key, value, _ = record
            if offset >= end_offset or (
                key is not None and (value is not None or tombstones_stay) and is_newest(key, offset)
            ):
                yield record

    def _judge_marker(self, header: BatchHeader, chunk: bytes, at: int) -> tuple[int, int | None]:
        """The same for a control batch, which has one record."""
        markers = [parse_marker(r.key, r.value) for r in read_records(chunk, at, header=header)]
        count = len(markers)
        if None in markers:
            return count, None  # another kind of control record: keep it, as we do not know when it is obsolete
        had_data = header.producer_id in self.producers_with_data
        if had_data and any(marker is not None and not marker.commit for marker in markers):
            self.last_abort = header.base_offset
        self.producers_with_data.discard(header.producer_id)
        if had_data or header.base_offset >= self.offsets.end_offset:
            return count, None
        if header.delete_horizon_ms is None:
            return count, self.new_horizon_ms if count else None
        return (0, None) if header.delete_horizon_ms <= self.now else (count, None)


class IoThrottle:
    """Keeps the average rate of reading and writing of a run below a limit."""

    def __init__(self, bytes_per_second: float, now_s: float) -> None:
        self.bytes_per_second = max(bytes_per_second, 1.0)  # 0 would mean to wait for ever
        self._free_at_s = now_s

    def rest_s(self, io_bytes: int, now_s: float) -> float:
        """How many seconds to wait after `io_bytes` were read and written."""
        self._free_at_s = max(self._free_at_s, now_s - 1.0) + io_bytes / self.bytes_per_second
        return max(0.0, self._free_at_s - now_s)
