"""Log compaction: keeps the newest record of each key, and forgets the rest without moving an offset.

A run over one log, Kafka's way (KIP-58, KIP-98, KIP-534):

    |  clean: compacted before  |  dirty: the map is made of this  |  young, undecided  | active |
    log start                   first dirty offset                 end offset

1. Transactions: which of those in the dirty part were aborted? One without a marker ends the range.
2. The map: for every key in the dirty part, the offset of its last record that was not aborted. When the
   memory for the map is used up, the range ends there, and the next run goes on from that offset.
3. The rewrite: segments from the log's start to the end of the range, in groups of up to segment.bytes, each
   group into one `.cleaned` segment. A record stays if the map knows no later one for its key. A tombstone
   stays until its delete horizon: the first run that meets it writes into its batch when that will be (now +
   delete.retention.ms), so that every reader has that long to see it. A transaction marker goes the same way
   once no data of its transaction is left. Aborted data goes at once, records without a key too.
4. The swap, per group: `.cleaned` is synced and becomes `.swap`; then the host lets the log take it in.

Batches that lose nothing are copied byte by byte. The others are built anew around the same offsets, producer
and epoch. The last batch of a group stays even if nothing is left in it: 61 bytes that say where it ends.

Nothing here sleeps or starts threads. `Compaction.steps` is a generator that yields how many bytes it has
just read and written; the host runs it in a thread and rests between the steps as an IoThrottle says. A run
that dies, at any step, leaves files that recovery removes or finishes. A record is dropped only when a later
one for its key is in a segment that stays, and groups are swapped from the log's start on, so a log with
some groups swapped and others not is as good as the one before.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

from protocol.record_batch import (
    LOG_OVERHEAD_BYTES,
    NO_PRODUCER_ID,
    BatchHeader,
    Record,
    parse_header,
    parse_marker,
    read_records,
    rebuild_batch,
    scan_records,
)
from storage.cleanable import CleanableRange, group_segments
from storage.layout import CLEANED, SEGMENT_KINDS, SWAP, segment_file
from storage.log_config import LogConfig
from storage.segment import Segment

DEFAULT_MAX_MAP_BYTES: Final = 128 * 1024 * 1024  # Kafka's log.cleaner.dedupe.buffer.size
MAP_ENTRY_BYTES: Final = 256  # a key of up to 64 bytes, its offset, and their place in a dict that grows
MAX_PLAIN_KEY_BYTES: Final = 63
DIGEST_BYTES: Final = 64  # one more than a plain key, so the two never meet
STEP_BYTES: Final = 64 * 1024  # about a millisecond of work, then the throttle may pause
WRITE_BYTES: Final = 1024 * 1024

Steps = Generator[int, None, None]
Swap = Callable[[Segment, Sequence[Segment]], None]


# --- a run ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class Compaction:
    """One run over one log: `steps()` does it, the other fields say what came of it."""

    cleanable: CleanableRange
    config: LogConfig
    now: int
    prepare_swap: Callable[[Sequence[Segment]], None]  # PartitionLog's, called here
    swap: Swap  # runs PartitionLog.swap_segments where the log lives, and returns when that is done
    max_map_bytes: int = DEFAULT_MAX_MAP_BYTES
    last_offsets: Mapping[int, int] = field(default_factory=dict)  # of active producers, by producer id

    cleaned_up_to: int | None = None  # the new first dirty offset, once the run is complete
    bytes_before: int = 0
    bytes_after: int = 0
    records_before: int = 0
    records_after: int = 0

    def steps(self) -> Steps:
        """Do the run; yields how many bytes were read and written since the last time."""
        outcomes = _Outcomes()
        yield from _find_aborted(self.cleanable, outcomes)
        segments, end_offset = _below(self.cleanable, outcomes.undecided_from)
        if not segments or end_offset <= self.cleanable.first_dirty_offset:
            return
        offsets = _OffsetMap(max(1, self.max_map_bytes // MAP_ENTRY_BYTES), end_offset)
        yield from _fill(offsets, segments, self.cleanable.first_dirty_offset, outcomes)
        kept = _Retention(offsets, outcomes, self.now, self.config.delete_retention_ms, self.last_offsets)
        covered = [segment for segment in segments if segment.base_offset < offsets.end_offset]
        for group in group_segments(covered, self.config.segment_bytes):
            yield from self._rewrite(group, kept)
        self.cleaned_up_to = offsets.end_offset

    def _rewrite(self, group: Sequence[Segment], kept: _Retention) -> Steps:
        first = group[0]
        output = Segment.create(first.disk, first.folder, first.base_offset, self.config, CLEANED)
        output.modified_ms = group[-1].modified_ms
        try:
            yield from self._filter(group, kept, output)
            output.finish()
            self.prepare_swap([output])
        except (Exception, GeneratorExit):  # no space, a bad sync, the broker stops: as if it had never begun
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
            for header, chunk, at in segment.batches():
                bytes_left -= header.size_bytes
                batch = kept.filter(header, chunk, at, is_last=bytes_left == 0)
                io_bytes += header.size_bytes + len(batch)
                self.records_before += header.record_count
                if batch:
                    pending += batch
                    headers.append(parse_header(batch))
                    self.records_after += headers[-1].record_count
                if len(pending) >= WRITE_BYTES:
                    output.append(pending, headers)
                    pending, headers = bytearray(), []
                if io_bytes >= STEP_BYTES:
                    yield io_bytes
                    io_bytes = 0
        if headers:
            output.append(pending, headers)
        yield io_bytes


def _below(cleanable: CleanableRange, offset: int | None) -> tuple[Sequence[Segment], int]:
    """The range, cut back to the segments that lie wholly below `offset`."""
    segments = [s for s in cleanable.segments if offset is None or s.next_offset <= offset]
    return segments, segments[-1].next_offset if segments else 0


def _remove_files(segment: Segment) -> None:
    for suffix in (CLEANED, SWAP):
        for kind in SEGMENT_KINDS:
            with suppress(OSError):
                segment.disk.unlink(f"{segment.folder}/{segment_file(segment.base_offset, kind, suffix)}")


# --- transactions ---------------------------------------------------------------------------------


class _Outcomes:
    """How the transactions of the dirty part ended: only the aborted ones are written down."""

    def __init__(self) -> None:
        self.aborted: dict[
            int, tuple[list[int], list[int]]
        ] = {}  # producer id: first offsets, marker offsets
        self.open: dict[int, int] = {}  # producer id: first offset of its transaction
        self.undecided_from: int | None = None

    def note(self, header: BatchHeader, chunk: bytes, at: int) -> None:
        """Account for a batch of a transaction: data opens one, a marker ends it."""
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


def _find_aborted(cleanable: CleanableRange, outcomes: _Outcomes) -> Steps:
    """Read the dirty part, and as much behind it as it takes to see how its transactions end."""
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


# --- the map --------------------------------------------------------------------------------------


class _OffsetMap:
    """Key -> offset of its newest record, in bounded memory."""

    __slots__ = ("end_offset", "max_entries", "offsets")

    def __init__(self, max_entries: int, end_offset: int) -> None:
        self.offsets: dict[bytes, int] = {}
        self.max_entries = max_entries
        self.end_offset = end_offset  # the map knows everything below

    def add(self, header: BatchHeader, chunk: bytes, at: int) -> None:
        offsets = self.offsets
        batch = scan_records(chunk, at, at + header.size_bytes, check_crc=False, with_headers=False)
        for _, offset, _, key, _, _ in batch:
            if key is not None:
                offsets[key if len(key) <= MAX_PLAIN_KEY_BYTES else _digest(key)] = offset

    def is_newest(self, key: bytes, offset: int) -> bool:
        newest = self.offsets.get(key if len(key) <= MAX_PLAIN_KEY_BYTES else _digest(key))
        return newest is None or offset >= newest


def _digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=DIGEST_BYTES).digest()


def _fill(offsets: _OffsetMap, segments: Sequence[Segment], first_dirty: int, outcomes: _Outcomes) -> Steps:
    io_bytes = 0
    for segment in segments:
        if segment.next_offset <= first_dirty:
            continue
        for header, chunk, at in segment.batches():
            if header.last_offset < first_dirty:
                continue
            io_bytes += header.size_bytes
            if io_bytes >= STEP_BYTES:
                yield io_bytes
                io_bytes = 0
            if header.is_control or (header.is_transactional and outcomes.is_aborted(header)):
                continue
            known = len(offsets.offsets)
            if known and known + header.record_count > offsets.max_entries:
                offsets.end_offset = header.base_offset
                return
            offsets.add(header, chunk, at)
    yield io_bytes


# --- what stays -----------------------------------------------------------------------------------


class _Retention:
    """Decides batch by batch, in the order of the log, what is left of each."""

    def __init__(
        self,
        offsets: _OffsetMap,
        outcomes: _Outcomes,
        now: int,
        delete_retention_ms: int,
        last_offsets: Mapping[int, int],
    ) -> None:
        self.offsets = offsets
        self.outcomes = outcomes
        self.now = now
        self.new_horizon_ms = now + delete_retention_ms
        self.last_offsets = last_offsets
        self.producers_with_data: set[int] = set()  # data of their transaction was met, its marker not yet

    def filter(self, header: BatchHeader, chunk: bytes, at: int, *, is_last: bool) -> bytes:
        """The batch as it goes into the new segment; empty if it goes nowhere."""
        if header.is_control:
            records, changed, horizon_ms = self._filter_marker(header, chunk, at)
        else:
            records, changed, horizon_ms = self._filter_data(header, chunk, at)
        if not changed and horizon_ms is None:
            return chunk[at : at + LOG_OVERHEAD_BYTES + header.batch_length]
        if records:
            return rebuild_batch(header, records, delete_horizon_ms=horizon_ms)
        if is_last or self._is_last_of_producer(header):
            return rebuild_batch(header, ())
        return b""

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        """A producer's last batch holds its sequence number, by which the broker knows duplicates."""
        return header.producer_id != NO_PRODUCER_ID and (
            self.last_offsets.get(header.producer_id) == header.last_offset
        )

    def _filter_data(
        self, header: BatchHeader, chunk: bytes, at: int
    ) -> tuple[Sequence[Record], bool, int | None]:
        """(records that stay, whether that is fewer or none, delete horizon to set if any)."""
        if header.is_transactional:
            self.producers_with_data.add(header.producer_id)
            if self.outcomes.is_aborted(header):
                return (), True, None
        horizon_ms = header.delete_horizon_ms
        tombstones_stay = horizon_ms is None or self.now < horizon_ms
        end_offset, is_newest = self.offsets.end_offset, self.offsets.is_newest
        records, has_tombstone = [], False
        for record in read_records(chunk, at, header=header):
            if record.offset < end_offset:
                if record.key is None or not is_newest(record.key, record.offset):
                    continue
                if record.value is None:
                    if not tombstones_stay:
                        continue
                    has_tombstone = True
            records.append(record)
        set_horizon = has_tombstone and horizon_ms is None
        changed = not records or len(records) < header.record_count
        return records, changed, self.new_horizon_ms if set_horizon else None

    def _filter_marker(
        self, header: BatchHeader, chunk: bytes, at: int
    ) -> tuple[Sequence[Record], bool, int | None]:
        records = tuple(read_records(chunk, at, header=header))
        if any(parse_marker(record.key, record.value) is None for record in records):
            return records, False, None  # some other control record; nobody knows when it stops to matter
        had_data = header.producer_id in self.producers_with_data
        self.producers_with_data.discard(header.producer_id)
        if not records:
            return (), True, None
        if had_data or header.base_offset >= self.offsets.end_offset:
            return records, False, None
        if header.delete_horizon_ms is None:
            return records, False, self.new_horizon_ms
        return ((), True, None) if header.delete_horizon_ms <= self.now else (records, False, None)


class IoThrottle:
    """Keeps the average of a run's reading and writing below a rate; the host asks how long to rest."""

    def __init__(self, bytes_per_second: float, now_s: float) -> None:
        self.bytes_per_second = bytes_per_second
        self._free_at_s = now_s

    def rest_s(self, io_bytes: int, now_s: float) -> float:
        """How many seconds to wait after `io_bytes` were read and written."""
        self._free_at_s = max(self._free_at_s, now_s - 1.0) + io_bytes / self.bytes_per_second
        return max(0.0, self._free_at_s - now_s)
