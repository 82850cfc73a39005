"""The log of one partition: batches in, batches out, in segments that Apache Kafka could have written.

Offsets of a log, in ascending order:

    log_start_offset   records below it were deleted
    recovery_point     records below it are on the medium: every byte was synced
    log_end_offset     the offset that the next record gets

`log_writer.py` has how a log is written and what happens if the disk fails; `recovery.py` has how it is opened.
"""

from __future__ import annotations

import logging
import os
from bisect import bisect_right
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from operator import attrgetter

from kohort.protocol.record_batch import BATCH_HEADER_BYTES, BatchHeader, CorruptBatch, parse_header
from kohort.storage.batch_walk import walk_chunks
from kohort.storage.disk import Disk
from kohort.storage.errors import OffsetOutOfRange
from kohort.storage.layout import (
    DELETED,
    PARTITION_METADATA_FILE,
    SNAPSHOT,
    SWAP,
    CorruptCheckpoint,
    parse_partition_metadata,
    parse_segment_file,
    segment_file,
)
from kohort.storage.log_config import LogConfig
from kohort.storage.log_writer import LogWriter
from kohort.storage.open_files import LogSlice, OpenFiles
from kohort.storage.recovery import Opened, OpenRules, open_segments
from kohort.storage.segment import Segment
from kohort.storage.txn_index import AbortedLookup, AbortedTransaction, Block

logger = logging.getLogger(__name__)
_base_offset = attrgetter("base_offset")


class PartitionLog(LogWriter):
    """The log of one partition. `PartitionLog.open` opens it."""

    @classmethod
    def open(
        cls, disk: Disk, folder: str, config: LogConfig, *,
        recovery_point: int | None = None, clean: bool = False, log_start_offset: int = 0,
        cleaned_up_to: int = 0, topic_id: bytes | None = None, open_files: OpenFiles | None = None,
        distrust: bool = False, now: int = 0,
    ) -> PartitionLog:  # fmt: skip
        """Open the log in `folder`, which need not exist yet. LogCorrupt if synced data is damaged or gone.

        Args:
            recovery_point: from the checkpoint: everything below it was synced. None if the checkpoint does not say.
            clean: the broker had stopped cleanly, so only the end of the log has to be found.
            cleaned_up_to: from the cleaner's checkpoint. If it is above 0, offsets may be missing.
            distrust: a write or sync of this log has failed: write again what may not be on the medium.
        """
        log = cls(disk, folder, config, topic_id=topic_id, open_files=open_files)
        rules = OpenRules(
            config, clean, recovery_point, config.compacts or cleaned_up_to > 0, log_start_offset, distrust
        )
        log.cleaned_up_to = cleaned_up_to
        log._flushed_at_ms = now
        try:
            opened = open_segments(disk, folder, rules)
        except FileNotFoundError:
            if recovery_point:
                logger.warning("%s is gone; it held offsets up to %d", folder, recovery_point)
            log.log_start_offset = log.log_end_offset = log.recovery_point = log_start_offset
            return log
        log._exists = True
        log.segments = opened.segments
        if opened.folder_changed:
            log._unsynced_folders.append(folder)
        end = log.segments[-1].next_offset if log.segments else 0
        if log_start_offset > end:
            log.restart_at(log_start_offset)
            return log
        log.log_end_offset = end
        indexes = [segment.txn_index for segment in log.segments if segment.txn_index is not None]
        log.last_aborted_offset = max((index.last_offset for index in indexes), default=-1)
        log.log_start_offset = max(log_start_offset, log.segments[0].base_offset if log.segments else 0)
        log.recovery_point = end if clean else min(max(recovery_point or 0, log.log_start_offset), end)
        log.checkpointed_recovery_point = min(recovery_point or 0, end)
        if not clean:
            log._take_over(opened)
        return log

    def _take_over(self, opened: Opened) -> None:
        """After a crash: note what may be in the page cache only, to be synced, and bring small files up to date."""
        self._dirty = list(opened.scanned)
        if self.log_end_offset > 0:
            self._unsynced_folders = [os.path.dirname(self.folder), self.folder]
        self._remove_snapshots(opened.snapshots)
        if self.log_end_offset > self.log_start_offset:
            self.leader_epochs.truncate(self.log_end_offset)
            for epoch, start in opened.leader_epochs:
                self.leader_epochs.assign(epoch, start)
        for segment in opened.scanned[:-1]:
            self._unsynced_files += segment.save_indexes()

    def _remove_snapshots(self, offsets: Iterable[int]) -> None:
        """Remove producer snapshots of offsets beyond the end of the log."""
        for offset in offsets:
            if offset > self.log_end_offset:
                self.disk.unlink(f"{self.folder}/{segment_file(offset, SNAPSHOT)}")

    # --- what there is ---------------------------------------------------------------------------

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def topic_id(self) -> bytes | None:
        """The id in partition.metadata; None if there is no (readable) such file."""
        if self._topic_id is None and self._exists:
            path = f"{self.folder}/{PARTITION_METADATA_FILE}"
            with suppress(FileNotFoundError, CorruptCheckpoint):
                self._topic_id = parse_partition_metadata(self.disk.read_file(path), path)
        return self._topic_id

    def segment_of(self, offset: int) -> int:
        """Index of the segment that `offset` belongs to: the last one that starts at or below it."""
        return max(bisect_right(self.segments, offset, key=_base_offset) - 1, 0)

    @property
    def gaps_allowed(self) -> bool:
        """Whether offsets may be missing, because the log is or was compacted."""
        return self.config.compacts or self.cleaned_up_to > 0

    # --- reading ---------------------------------------------------------------------------------

    def read(
        self, offset: int, max_bytes: int, *, min_one_batch: bool = True, up_to: int | None = None
    ) -> LogSlice | None:
        """Batches from the one with `offset` on, all of one segment; None if there are none.

        Args:
            max_bytes: the limit. It may cut the last batch; clients expect that.
            min_one_batch: return the first batch as a whole, even if it is larger than `max_bytes`.
            up_to: only records below this offset (the high watermark, or the last stable offset).
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(f"{offset}; there is {self.log_start_offset} to {self.log_end_offset}")
        limit = self.log_end_offset if up_to is None else min(up_to, self.log_end_offset)
        if offset >= limit:
            return None
        for segment in self.segments[self.segment_of(offset) :]:
            if segment.base_offset >= limit:
                return None
            start = segment.find(offset)
            self._used(segment)
            if start is not None:
                return self._slice(segment, start, max_bytes, min_one_batch, limit)
        return None

    def _slice(self, segment: Segment, start: int, max_bytes: int, min_one_batch: bool, limit: int) -> LogSlice | None:
        end = segment.size_bytes if limit >= segment.next_offset else segment.find(limit)
        length = (segment.size_bytes if end is None else end) - start
        if length > max_bytes:
            length = max_bytes
            if min_one_batch:
                header = parse_header(segment.file().pread(BATCH_HEADER_BYTES, start))
                length = max(length, header.size_bytes)
        return LogSlice(segment.file(), start, length) if length > 0 else None

    def aborted_in(self, offset: int, found: LogSlice, up_to: int) -> list[AbortedTransaction]:
        """The aborted transactions that may have records in this slice, which was read from `offset` up to `up_to`."""
        lookup = self.find_aborted(offset, found, up_to)
        return [each for block in lookup.blocks for each in lookup.read(block)]

    def find_aborted(self, offset: int, found: LogSlice, up_to: int) -> AbortedLookup:
        """Where these transactions stand. There may be very many.

        Some of them may begin behind the slice: only the offset index is asked where that ends.
        """
        blocks: list[Block] = []
        if offset > self.last_aborted_offset:
            return AbortedLookup(blocks, offset, offset)
        segments = self.segments[self.segment_of(offset) :]
        holder = next((segment for segment in segments if segment.holds(found.file)), None)
        upper = up_to if holder is None else min(up_to, holder.offset_behind(found.position + found.length))
        for segment in segments:
            if segment.txn_index is not None and segment.txn_index.find(offset, upper, blocks):
                break
        return AbortedLookup(blocks, offset, upper)

    def batches(self, offset: int | None = None, up_to: int | None = None) -> Iterator[tuple[BatchHeader, bytes, int]]:
        """(header, chunk, place in the chunk) of each batch from `offset` to `up_to`, for a replay.

        CorruptBatch at the first one whose checksum or offset is wrong.
        """
        offset = self.log_start_offset if offset is None else offset
        expected: int | None = None
        for segment in self.segments[self.segment_of(offset) :]:
            for header, chunk, at in segment.batches(segment.find(offset) or 0):
                if up_to is not None and header.base_offset >= up_to:
                    return
                if expected is not None or header.base_offset > max(offset, segment.base_offset):
                    self._check_order(segment, header.base_offset, expected)
                expected = header.next_offset
                if expected > offset:
                    yield header, chunk, at

    def _check_order(self, segment: Segment, offset: int, expected: int | None) -> None:
        """Checksums do not cover offsets, so only their order can show that a bit was flipped."""
        if expected is None:
            expected = segment.base_offset
        if offset < expected or (offset > expected and not self.gaps_allowed):
            raise CorruptBatch(f"{segment.log_path}: a batch with offset {offset} where {expected} should be")

    def chunks(self) -> Iterator[tuple[bytes, int]]:
        """(bytes, how many of them are whole batches) of the whole log: the fastest replay.

        Only sizes and offsets are checked here; `scan_records` checks the checksums. The first chunk may begin below
        the log start offset.
        """
        expected: int | None = None
        with ExitStack() as opened:
            # All files are opened at once: a large log is replayed in steps, and compaction may swap its segments
            # meanwhile. The replay goes on with the old segments, because only these fit to what was read before.
            parts = [
                (segment, segment.size_bytes, opened.enter_context(closing(self.disk.open(segment.log_path))))
                for segment in self.segments[self.segment_of(self.log_start_offset) :]
            ]
            for segment, size_bytes, file in parts:
                for chunk, size, first_offset, next_offset in walk_chunks(
                    file, 0, size_bytes, gaps_allowed=self.gaps_allowed
                ):
                    self._check_order(segment, first_offset, expected)
                    expected = next_offset
                    yield chunk, size

    def offset_for_timestamp(self, timestamp: int) -> Generator[None, None, tuple[int, int, int] | None]:
        """(timestamp, offset, leader epoch) of the first record at or after `timestamp`, if there is one. In steps."""
        for segment in list(self.segments):
            yield
            if segment.next_offset > self.log_start_offset and segment.max_timestamp >= timestamp:
                found = yield from segment.first_at_or_after(timestamp, self.log_start_offset)
                self._used(segment)
                if found is not None:
                    return found
        return None

    def latest_timestamp(self) -> Generator[None, None, tuple[int, int, int] | None]:
        """(timestamp, offset, leader epoch) of the record with the latest timestamp; the first of several. In steps."""
        latest = -1
        for segment in list(self.segments):
            latest = max(latest, segment.max_timestamp)
            yield
        return (yield from self.offset_for_timestamp(latest)) if latest >= 0 else None

    # --- cutting ---------------------------------------------------------------------------------

    def advance_log_start(self, offset: int) -> None:
        """DeleteRecords: readers no longer see records below `offset`; the next retention removes them from disk."""
        if offset > self.log_end_offset:
            raise OffsetOutOfRange(f"{offset}; the log ends at {self.log_end_offset}")
        self.log_start_offset = max(self.log_start_offset, offset)

    def truncate_to(self, offset: int) -> None:
        """Remove every batch that reaches to `offset` or beyond.

        The log then ends where its last remaining batch does, which may be before `offset`. The checkpoint
        of the recovery point must be lowered first: `LogDirectory.truncate` does both.
        """
        if offset >= self.log_end_offset or not self.segments:
            return
        self._generation += 1
        with self._failing("truncation"):
            self._remove(self.segments[self.segment_of(offset) + 1 :])
            active = self.active
            active.truncate(active.size_bytes if (at := active.find(offset)) is None else at)
        if active.txn_index is not None:
            self._unsynced_txn_indexes.append(active.txn_index)
        self._dirty = [segment for segment in self._dirty if segment is not active] + [active]
        self.log_end_offset = active.next_offset
        self.log_start_offset = min(self.log_start_offset, self.log_end_offset)
        self.recovery_point = min(self.recovery_point, self.log_end_offset)
        self.leader_epochs.truncate(self.log_end_offset)
        self._last_epoch = None
        names = map(parse_segment_file, (info.name for info in self.disk.scan_folder(self.folder)))
        self._remove_snapshots([name[0] for name in names if name and name[1:] == (SNAPSHOT, "")])
        self._save_epochs()

    def _remove(self, segments: Sequence[Segment]) -> None:
        """Remove the last segments from the log and from disk, durably, so that a crash never leaves a hole."""
        for segment in reversed(segments):
            self._open_files.forget(segment)
            for path in segment.rename(DELETED):
                self.disk.unlink(path)
            self.disk.sync_folder(self.folder)
        self.segments = [segment for segment in self.segments if segment not in segments]
        self._dirty = [segment for segment in self._dirty if segment not in segments]

    def restart_at(self, offset: int) -> None:
        """Drop everything; the next record gets `offset`."""
        self._generation += 1
        self._remove(list(self.segments))
        self.log_start_offset = self.log_end_offset = self.recovery_point = offset
        self.leader_epochs.truncate(0)
        self._last_epoch = None

    # --- compaction and retention ----------------------------------------------------------------

    def cleanable_segments(self) -> list[Segment]:
        """Segments that compaction may rewrite.

        The active one is not among them, nor any above the recovery point in the checkpoint file. So the scan after a
        crash, which begins at the recovery point, never meets the holes that compaction leaves.
        """
        safe = min(self.checkpointed_recovery_point, self.recovery_point)
        return [segment for segment in self.segments[:-1] if segment.next_offset <= safe]

    def prepare_swap(self, cleaned: Sequence[Segment]) -> None:
        """Rename output of compaction to .swap: from then on, recovery finishes the swap. For any thread."""
        for segment in cleaned:
            segment.rename(SWAP)
        self.disk.sync_folder(self.folder)

    def swap_segments(self, cleaned: Sequence[Segment], old: Sequence[Segment], now: int = 0) -> None:
        """Replace segments with the prepared output of compaction."""
        first = self.segments.index(old[0])
        assert self.segments[first : first + len(old)] == list(old)
        try:
            self._retire(old, now)
            self.disk.sync_folder(self.folder)  # or else after a crash an old segment could be there beside the new one
            for segment in cleaned:
                self._open_files.forget(segment)
                segment.rename("")
        except OSError as error:
            self._fail(f"swap after compaction: {error}")
            raise
        bounds = [segment.base_offset for segment in cleaned[1:]] + [old[-1].next_offset]
        for segment, bound in zip(cleaned, bounds, strict=True):
            segment.next_offset = bound
        self.segments[first : first + len(old)] = cleaned
        self._folder_changed()

    def delete_segments(self, old: Sequence[Segment], now: int) -> None:
        """Retention: remove the oldest segments, the active one too if it is among them."""
        assert self.segments[: len(old)] == list(old)
        if not old:
            return
        is_all = old[-1] is self.active
        if is_all:
            self.roll(now)  # the new segment keeps the end offset in its name
        with self._failing("retention"):
            if is_all:
                self.disk.sync_folder(self.folder)
            self.log_start_offset = max(self.log_start_offset, self.segments[len(old)].base_offset)
            for segment in old:
                self._retire([segment], now)
                self.segments.remove(segment)
                self.disk.sync_folder(self.folder)  # oldest first: a crash must not leave a hole

    def _retire(self, old: Sequence[Segment], now: int) -> None:
        for segment in old:
            self._open_files.forget(segment)
            self._dirty = [dirty for dirty in self._dirty if dirty is not segment]
            paths = segment.rename(DELETED)
            with suppress(FileNotFoundError):
                snapshot = f"{self.folder}/{segment_file(segment.base_offset, SNAPSHOT)}"
                self.disk.rename(snapshot, snapshot + DELETED)
                paths.append(snapshot + DELETED)
            self._deleted.append((now, paths))

    def take_deleted(self, now: int) -> list[str]:
        """Files that were deleted file.delete.delay.ms ago. Any thread may unlink them; large files take a while."""
        delay_ms = self.config.file_delete_delay_ms
        due = [paths for when, paths in self._deleted if now - when >= delay_ms]
        self._deleted = [(when, paths) for when, paths in self._deleted if now - when < delay_ms]
        return [path for paths in due for path in paths]

    def purge_deleted(self, now: int) -> int:
        """Unlink these files in this thread. Returns their number."""
        paths = self.take_deleted(now)
        for path in paths:
            with suppress(FileNotFoundError):
                self.disk.unlink(path)
        return len(paths)
