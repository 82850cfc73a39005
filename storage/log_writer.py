"""The part of a partition's log that writes: appends, rolls, flushes, and what happens when the disk fails.

A log belongs to one thread, that of the event loop. Appends happen there, because a write to the page cache takes
microseconds. Syncs take longer: the log gives out a ticket, and another thread syncs it (`begin_flush`, `TicketSync`,
`end_flush`). A log that was never written to has no folder; the first append creates it.

If a sync fails, or a write for another reason than lack of space, the log has failed: `failed` says why, appends raise
LogFailed, and reads still work. A restart finds out what really is on disk.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from kohort.protocol.record_batch import MAGIC_AT, BatchHeader, pack_place, parse_header, unpack_own_header
from kohort.storage.append_check import AppendInfo, place_batches, split_batches
from kohort.storage.batch_walk import walk_headers
from kohort.storage.disk import OUT_OF_SPACE, Buffer, Disk, File
from kohort.storage.errors import InvalidAppend, LogFailed, OutOfSpace
from kohort.storage.flush import FlushTicket, TicketSync, mark_failed
from kohort.storage.layout import PARTITION_METADATA_FILE, format_partition_metadata
from kohort.storage.leader_epochs import LeaderEpochs
from kohort.storage.log_config import LogConfig
from kohort.storage.open_files import OpenFiles
from kohort.storage.segment import Segment
from kohort.storage.spare_descriptor import TOO_MANY_FILES
from kohort.storage.txn_index import AbortedTransaction, TxnIndex, take_files

logger = logging.getLogger(__name__)

LOOK_FOR_FILES_MS = 1000


class LogWriter:
    """The segments of a log, and which of them are not durable yet."""

    def __init__(
        self, disk: Disk, folder: str, config: LogConfig, *,
        topic_id: bytes | None = None, open_files: OpenFiles | None = None,
    ) -> None:  # fmt: skip
        self.disk = disk
        self.folder = folder
        self.config = config
        self.segments: list[Segment] = []
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.recovery_point = 0
        self.checkpointed_recovery_point = 0
        self.cleaned_up_to = 0  # the log is compacted below this offset
        self.last_aborted_offset = -1  # no transaction was aborted above it
        self.failed: str | None = None
        self.leader_epochs = LeaderEpochs(disk, folder, self._epochs_of_batches)
        self._topic_id = topic_id
        self._new_topic_id = topic_id  # to be written to partition.metadata
        self._open_files = open_files or OpenFiles()
        self._exists = False
        self._last_epoch: int | None = None
        self._generation = 0
        self._in_flight: FlushTicket | None = None
        self._dirty: list[Segment] = []  # segments that were written to since their last sync
        self._unsynced_files: list[File] = []  # indexes and other small files
        self._unsynced_txn_indexes: list[TxnIndex] = []
        self._unsynced_folders: list[str] = []
        self._deleted: list[tuple[int, list[str]]] = []  # time of the deletion, and the files to be removed later
        self._flushed_at_ms = 0
        self._look_for_files_at_ms = 0

    @property
    def active(self) -> Segment:
        """The segment that is written to."""
        return self.segments[-1]

    def reconfigure(self, config: LogConfig) -> None:
        """Use these settings from now on."""
        self.config = config
        for segment in self.segments:
            segment.config = config

    @property
    def exists(self) -> bool:
        """Whether the log has a folder on disk."""
        return self._exists

    def _epochs_of_batches(self) -> Iterator[tuple[int, int]]:
        for segment in self.segments:
            for _, header in walk_headers(segment.file(), 0, segment.size_bytes):
                yield header.partition_leader_epoch, header.base_offset
            self._used(segment)

    def _used(self, segment: Segment) -> None:
        """The segment's file may have been opened: close another if too many are open. The active one stays open."""
        if segment is not self.segments[-1] and segment not in self._dirty:
            self._open_files.touch(segment)

    # --- appending -------------------------------------------------------------------------------

    def append(self, batches: Buffer, *, now: int, leader_epoch: int = 0, verify: bool = True) -> AppendInfo:
        """Write offsets into the batches and append them, for a produce request or for the coordinator.

        A bytearray is changed in place; anything else is copied first. `verify=False` skips the checksums, for batches
        that this process has just built.
        """
        headers = split_batches(batches, self.config, verify=verify)
        data = batches if type(batches) is bytearray else bytearray(batches)
        append_time_ms = now if self.config.uses_log_append_time else None
        placed = place_batches(data, headers, self.log_end_offset, leader_epoch, append_time_ms)
        self._write(data, placed, now)
        return AppendInfo(placed[0][0], self.log_end_offset - 1, -1 if append_time_ms is None else append_time_ms)

    def append_checked(self, batch: bytes, header: BatchHeader, *, now: int, leader_epoch: int = 0) -> AppendInfo:
        """Like `append`, for one batch that the caller has checked already."""
        config = self.config
        if config.uses_log_append_time or len(batch) > config.max_message_bytes or header[12] != header[6] + 1:
            return self.append(batch, now=now, leader_epoch=leader_epoch, verify=False)
        offset = self.log_end_offset
        data = pack_place(offset, header[1], leader_epoch) + batch[MAGIC_AT:]
        placed: BatchHeader = tuple.__new__(BatchHeader, (offset, header[1], leader_epoch, *header[3:]))
        self._write(data, [placed], now)
        info: AppendInfo = tuple.__new__(AppendInfo, (offset, self.log_end_offset - 1, -1))
        return info

    def append_placed(self, batch: bytes, now: int) -> None:
        """Append one batch that this process has built for the end of this log. Nothing has to be checked.

        max.message.bytes is for what clients send: a record that the coordinator has decided on must be kept.
        """
        header = unpack_own_header(batch)
        if header[0] != self.log_end_offset:
            raise InvalidAppend(f"a batch at offset {header[0]}; the log goes on at {self.log_end_offset}")
        if self.config.uses_log_append_time:
            data = bytearray(batch)
            self._write(data, place_batches(data, [parse_header(batch)], header[0], header[2], now), now)
        else:
            self._write(batch, [header], now)

    def record_aborted(self, aborted: AbortedTransaction) -> None:
        """Note in the transaction index that this transaction was aborted. Its marker was appended just now.

        If that fails the log has failed: its readers would take the records for committed.
        """
        with self._failing("transaction index"):
            if self.active.txn_index is None:
                self._folder_changed()
            index = self.active.record_aborted(aborted)
        if index not in self._unsynced_txn_indexes:
            self._unsynced_txn_indexes.append(index)
        self.last_aborted_offset = aborted.last_offset

    def append_as_is(self, batches: Buffer, *, now: int) -> AppendInfo:
        """Append batches that have their offsets already, without a change, as when copying another log."""
        headers = split_batches(batches, self.config, verify=True)
        expected = self.log_end_offset
        for header in headers:
            if header.base_offset < expected:
                raise InvalidAppend(f"a batch at offset {header.base_offset}; the log goes on at {expected}")
            expected = header.next_offset
        self._write(batches, headers, now)
        return AppendInfo(headers[0].base_offset, self.log_end_offset - 1, -1)

    def _write(self, data: Buffer, headers: list[BatchHeader], now: int) -> None:
        if now >= self._look_for_files_at_ms:
            self._fail_without_files(now)
        if self.failed is not None:
            raise LogFailed(self.failed)
        last = headers[-1]
        max_timestamp = last[8] if len(headers) == 1 else max(header[8] for header in headers)
        active = self.segments[-1] if self.segments else None
        try:
            is_full = active is None or active.must_roll(len(data), max_timestamp, last[0] + last[6], now)
        except OSError as error:  # the first append after a start opens the file
            if error.errno in TOO_MANY_FILES:
                self._write_failed(None, error)
            raise
        if active is None or is_full:
            active = self._next_segment(now)
        try:
            active.append(data, headers)
        except OSError as error:
            self._write_failed(active, error)
        active.modified_ms = now
        self.log_end_offset = active.next_offset
        if not self._dirty or self._dirty[-1] is not active:
            self._dirty.append(active)
        if last[2] != self._last_epoch:
            self._enter_epochs(headers)

    def _next_segment(self, now: int) -> Segment:
        try:
            if self.segments:
                self.roll(now)
            else:
                self._create(now)
        except OSError as error:
            self._write_failed(None, error)
        return self.segments[-1]

    def _enter_epochs(self, headers: list[BatchHeader]) -> None:
        for header in headers:
            self.leader_epochs.assign(header[2], header[0])
        self._last_epoch = headers[-1][2]
        try:
            self._save_epochs()
        except OSError as error:  # the batches in the log have their epochs, too; `close` tries again
            logger.warning("%s: its leader epochs could not be saved: %s", self.folder, error)

    def _save_epochs(self) -> None:
        if files := self.leader_epochs.save():
            self._unsynced_files += files
            self._folder_changed()

    def _create(self, now: int) -> None:
        """Create the folder and the first segment. A flush makes them durable."""
        if not self._exists:
            self.disk.make_folder(self.folder)
            self._unsynced_folders.append(os.path.dirname(self.folder))
            self._exists = True
        if self._new_topic_id is not None:
            path = f"{self.folder}/{PARTITION_METADATA_FILE}"
            self._unsynced_files.append(self.disk.put_file(path, format_partition_metadata(self._new_topic_id)))
            self._new_topic_id = None
        self._add_segment(now)

    def create(self, now: int) -> None:
        """Create the folder now, and not with the first append."""
        if not self.segments:
            self._create(now)

    def _add_segment(self, now: int) -> None:
        segment = Segment.create(self.disk, self.folder, self.log_end_offset, self.config, now=now)
        self.segments.append(segment)
        self._folder_changed()

    def _folder_changed(self) -> None:
        if self.folder not in self._unsynced_folders:
            self._unsynced_folders.append(self.folder)

    def roll(self, now: int) -> None:
        """Finish the active segment and start a new one at the end of the log."""
        old = self.active
        try:
            self._settle(old)
        except OSError as error:
            if error.errno in TOO_MANY_FILES:  # no sync was tried, so none has failed; the next append rolls it
                raise
            self._fail(f"sync before a roll: {error}")
            raise LogFailed(self.failed) from error
        self._unsynced_files += (
            old.save_indexes()
        )  # if that fails, the log stays as it is, and the next append rolls it
        self._add_segment(now)
        self._dirty.append(self.active)
        if old not in self._dirty:
            self._used(old)

    def _settle(self, old: Segment) -> None:
        """Sync what must be durable before another segment follows this one, so that no crash leaves a hole.

        That is the name of its file, which is nearly always durable by then. In a compacted log it is the content, too:
        missing offsets are normal there, so recovery could not tell that the end of the segment is lost.
        """
        if self.config.compacts and (old in self._dirty or self._in_flight is not None):
            old.file().sync()
        in_flight = self._in_flight.folders if self._in_flight is not None else []
        if self.folder in self._unsynced_folders or self.folder in in_flight:
            self.disk.sync_folder(self.folder)

    def _write_failed(self, segment: Segment | None, error: OSError) -> NoReturn:
        """Remove what a failed write may have left. The log goes on if the reason was lack of space or of descriptors.

        Without a descriptor nothing was written.
        """
        if error.errno not in TOO_MANY_FILES:
            try:
                if segment is not None:
                    segment.file().truncate(segment.size_bytes)
            except OSError as second:
                self._fail(f"write: {error}; and then to undo it: {second}")
            if error.errno not in OUT_OF_SPACE:
                self._fail(f"write: {error}")
        if self.failed is not None:
            raise LogFailed(self.failed) from error
        raise OutOfSpace(f"{self.folder}: nothing was appended: {error}") from error

    @contextmanager
    def _failing(self, what: str) -> Iterator[None]:
        """An OSError inside this block fails the log: a step that is half done cannot be undone."""
        try:
            yield
        except OSError as error:
            self._fail(f"{what}: {error}")
            raise LogFailed(self.failed) from error

    def _fail(self, why: str) -> None:
        if self.failed is None:
            self.failed = f"{self.folder} takes no more writes, a disk operation failed ({why})"
            mark_failed(self.disk, self.folder)
            logger.error("%s. Check the disk, then restart the broker: it reads back what is there", self.failed)

    # --- flushing --------------------------------------------------------------------------------

    def wants_flush(self, now: int) -> bool:
        """Whether to flush the log although nobody waits for it: after a roll, by flush.messages, by flush.ms."""
        unsynced = self.log_end_offset - self.recovery_point
        return unsynced > 0 and (
            len(self._dirty) > 1
            or unsynced >= self.config.flush_messages
            or now - self._flushed_at_ms >= self.config.flush_ms
        )

    def begin_flush(self) -> FlushTicket | None:
        """What to sync so that everything appended so far is durable; None if it is durable, or if the log has failed.

        Only one flush at a time: the next one begins after `end_flush` of this one.
        """
        if self._in_flight is not None:
            raise RuntimeError(f"{self.folder} is being flushed already")
        if self.failed is not None or not (self._dirty or self._unsynced_files or self._unsynced_folders):
            return None
        files = [segment.file() for segment in self._dirty]
        for file in files:
            file.retain()
        if self._unsynced_txn_indexes:
            self._unsynced_files += take_files(self._unsynced_txn_indexes)
        if self._unsynced_files:
            files += self._unsynced_files
            self._unsynced_files = []
        folders, self._unsynced_folders = self._unsynced_folders, []
        ticket = self._in_flight = FlushTicket(self, self.log_end_offset, self._generation, files, folders)
        flushed, self._dirty = self._dirty, []
        if len(flushed) != 1 or flushed[0] is not self.segments[-1]:
            for segment in flushed:
                self._used(segment)
        return ticket

    def end_flush(self, ticket: FlushTicket, now: int = 0) -> None:
        """Note the result of the syncs. If one failed, the log has failed."""
        self._in_flight = None
        for file in ticket.files:
            ticket.error = ticket.error or file.sync_error  # a roll may have synced the same file meanwhile, and failed
            file.close()
        if ticket.error is not None:
            self._fail(f"sync: {ticket.error}")
            return
        if now >= self._look_for_files_at_ms and self._fail_without_files(now):
            return
        if ticket.generation == self._generation:
            if ticket.end_offset > self.recovery_point:
                self.recovery_point = ticket.end_offset
            self._flushed_at_ms = now

    def _fail_without_files(self, now: int) -> bool:
        """Whether somebody has removed the files. To look costs as much as the rest of a flush: once a second."""
        self._look_for_files_at_ms = now + LOOK_FOR_FILES_MS
        is_removed = bool(self.segments) and self.segments[-1].is_removed
        if is_removed:
            self._fail("its files were removed while the broker was running: what it holds now will be lost")
        return is_removed

    def flush(self, now: int = 0) -> None:
        """Make everything durable, in this thread. LogFailed if that fails."""
        if ticket := self.begin_flush():
            TicketSync(self.disk, [ticket]).run()
            self.end_flush(ticket, now)
        if self.failed is not None:
            raise LogFailed(self.failed)

    def checkpointed(self, recovery_point: int) -> None:
        """The checkpoint file of the data folder has this recovery point now."""
        self.checkpointed_recovery_point = recovery_point

    def close(self) -> None:
        """Flush, with the indexes, and close all files. LogFailed if the disk fails; the files are closed then, too."""
        try:
            self.save_indexes()
            self.flush()
        finally:
            self.abandon()

    def save_indexes(self) -> None:
        """Write the indexes of the active segment, so that they need not be rebuilt after a clean stop."""
        if self.failed is None and self.segments and (files := self.active.save_indexes()):
            self._unsynced_files += files
            self._folder_changed()
        self._save_epochs()

    def abandon(self) -> None:
        """Close all files as they are."""
        for segment in self.segments:
            self._open_files.forget(segment)
        self._unsynced_files += take_files(self._unsynced_txn_indexes)
        for file in self._unsynced_files:
            file.close()
        self._unsynced_files = []
