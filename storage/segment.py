"""One segment of a log: a `.log` file of batches, and two indexes to find a position in it.

Only the last segment of a log, the active one, is written to. Indexes are kept in memory, and written to disk when the
segment is rolled or closed. A segment that was opened from disk loads its indexes at their first use. Every entry that
is used is checked: if it does not point at the batch that it names, both indexes are rebuilt from the log.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Sequence
from contextlib import closing, suppress
from typing import Final

from kohort.protocol.record_batch import LOG_OVERHEAD_BYTES, NO_TIMESTAMP, BatchHeader, CorruptBatch
from kohort.protocol.record_stream import stream_heads
from kohort.storage.batch_walk import walk_batches, walk_headers
from kohort.storage.disk import Buffer, Disk, File
from kohort.storage.index_entries import CorruptIndex
from kohort.storage.layout import INDEX, LOG, SEGMENT_KINDS, TIME_INDEX, TXN_INDEX, segment_file
from kohort.storage.log_config import LogConfig
from kohort.storage.offset_index import ENTRY_BYTES as INDEX_ENTRY_BYTES
from kohort.storage.offset_index import OffsetIndex
from kohort.storage.time_index import ENTRY_BYTES as TIME_INDEX_ENTRY_BYTES
from kohort.storage.time_index import TimeIndex
from kohort.storage.txn_index import AbortedTransaction, TxnIndex

logger = logging.getLogger(__name__)

MAX_RELATIVE_OFFSET: Final = 2**31 - 1
RECENT_BATCHES: Final = 256
UNKNOWN: Final = -2  # the timestamp has not been looked up yet


class Segment:
    """Batches from `base_offset` up to `next_offset`, in `size_bytes` of one file."""

    __slots__ = (
        "_bytes_since_index", "_file", "_first_timestamp", "_index", "_indexes_changed", "_max_timestamp",
        "_max_timestamp_offset", "_recent", "_time_index", "base_offset", "config", "created_ms", "disk",
        "folder", "modified_ms", "next_offset", "size_bytes", "suffix", "txn_index",
    )  # fmt: skip

    def __init__(
        self, disk: Disk, folder: str, base_offset: int, config: LogConfig, *,
        suffix: str = "", size_bytes: int = 0, next_offset: int | None = None, modified_ms: int = 0,
    ) -> None:  # fmt: skip
        self.disk = disk
        self.folder = folder
        self.base_offset = base_offset
        self.config = config
        self.suffix = suffix
        self.size_bytes = size_bytes
        self.next_offset = base_offset if next_offset is None else next_offset
        self.created_ms = self.modified_ms = modified_ms
        self._file: File | None = None
        self._index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._indexes_changed = False
        self._bytes_since_index = 0
        self._max_timestamp = NO_TIMESTAMP
        self._max_timestamp_offset = base_offset
        self._first_timestamp = UNKNOWN
        self._recent: dict[int, int] = {}  # base offset -> position of the batches that were appended last
        self.txn_index: TxnIndex | None = None  # None: no transaction was aborted in this segment

    @classmethod
    def create(
        cls, disk: Disk, folder: str, base_offset: int, config: LogConfig, suffix: str = "", *, now: int = 0
    ) -> Segment:
        """A new, empty segment; `suffix` is ".cleaned" for the output of compaction."""
        segment = cls(disk, folder, base_offset, config, suffix=suffix, modified_ms=now)
        segment._file = disk.open(segment.path(LOG), create=True, truncate=True)
        segment._index, segment._time_index = OffsetIndex(base_offset), TimeIndex(base_offset)
        segment._indexes_changed = True
        return segment

    def path(self, kind: str) -> str:
        """The path of the file of this kind."""
        return f"{self.folder}/{segment_file(self.base_offset, kind, self.suffix)}"

    @property
    def log_path(self) -> str:
        return self.path(LOG)

    def file(self) -> File:
        """The open `.log` file. A caller that keeps it must call `retain`."""
        if self._file is None:
            self._file = self.disk.open(self.path(LOG))
        return self._file

    @property
    def is_open(self) -> bool:
        return self._file is not None

    @property
    def is_removed(self) -> bool:
        """Whether somebody has removed the file that is written to. Only an open file can tell."""
        return self._file is not None and self._file.is_removed()

    def release_file(self) -> None:
        """Close the file; the next use opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    # --- writing ---------------------------------------------------------------------------------

    def append(self, data: Buffer, headers: Sequence[BatchHeader]) -> None:
        """Append whole batches. `headers`: their headers. After an OSError the segment has noted none of them."""
        if self._index is None:
            self._load_indexes()
        (self._file or self.file()).append(data)
        position = self.size_bytes
        for header in headers:
            self._note(header, position)
            position += LOG_OVERHEAD_BYTES + header[1]
        self.size_bytes = position

    def _note(self, header: BatchHeader, position: int) -> None:
        """Note a batch at `position`: update timestamps, indexes and end offset."""
        last_offset = header[0] + header[6]
        if header[8] > self._max_timestamp:
            self._max_timestamp, self._max_timestamp_offset = header[8], last_offset
        if self._bytes_since_index > self.config.index_interval_bytes:
            assert self._index is not None
            assert self._time_index is not None
            self._index.append(last_offset, position)
            self._time_index.maybe_append(self._max_timestamp, self._max_timestamp_offset)
            self._bytes_since_index = 0
        if position == 0:
            self._first_timestamp = header[8]
        if len(self._recent) >= RECENT_BATCHES:
            self._recent.clear()
        self._recent[header[0]] = position
        self._bytes_since_index += LOG_OVERHEAD_BYTES + header[1]
        self._indexes_changed = True
        self.next_offset = last_offset + 1

    def record_aborted(self, aborted: AbortedTransaction) -> TxnIndex:
        """Note a transaction whose marker is in this segment. Returns the index, which is to be synced."""
        if self.txn_index is None:
            self.txn_index = TxnIndex.create(self.disk, self.path(TXN_INDEX))
        self.txn_index.append(aborted)
        return self.txn_index

    def must_roll(self, size_bytes: int, max_timestamp: int, last_offset: int, now: int) -> bool:
        """Whether an append of this size, time and last offset needs a new segment."""
        if self.size_bytes == 0:
            return last_offset - self.base_offset > MAX_RELATIVE_OFFSET
        config = self.config
        if self.size_bytes + size_bytes > config.segment_bytes or last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
            return True
        first = self._first_timestamp
        if first == UNKNOWN:
            first = self.first_timestamp
        waited_ms = max_timestamp - first if first >= 0 else now - self.created_ms
        if waited_ms > config.segment_ms:
            return True
        # An entry has at most 12 bytes, for a batch of at least 61, so the indexes of a short file cannot be full.
        return self.size_bytes > 2 * config.segment_index_bytes - 128 and self._indexes_are_full()

    def _indexes_are_full(self) -> bool:
        """Whether one of the indexes has room only for the last entry, which is written when the segment ends."""
        limit = self.config.segment_index_bytes
        return (len(self.index) + 1) * INDEX_ENTRY_BYTES >= limit or (
            len(self.time_index) + 2
        ) * TIME_INDEX_ENTRY_BYTES >= limit

    def save_indexes(self) -> list[File]:
        """Write both indexes if they changed. The caller must sync and close the files that are returned."""
        if not self._indexes_changed or self._index is None or self._time_index is None:
            return []
        self._time_index.maybe_append(self._max_timestamp, self._max_timestamp_offset)
        files: list[File] = []
        try:
            for kind, content in ((INDEX, self._index.to_bytes()), (TIME_INDEX, self._time_index.to_bytes())):
                file = self.disk.open(self.path(kind), create=True, truncate=True)
                files.append(file)
                if content:
                    file.append(content)
        except BaseException:
            for file in files:
                file.close()
                with suppress(OSError):  # half an index would be trusted; a missing one is rebuilt
                    self.disk.unlink(file.path)
            raise
        self._indexes_changed = False
        return files

    def finish(self) -> None:
        """Write the indexes, sync all files that were written and close them. The folder is not synced."""
        files = self.save_indexes()
        if self.txn_index is not None and (file := self.txn_index.take_file()) is not None:
            files.append(file)
        try:
            self.file().sync()
            for file in files:
                file.sync()
        finally:
            for file in files:
                file.close()
            self.release_file()

    def truncate(self, position: int) -> None:
        """Cut the file at the start of a batch; the segment then ends with its last remaining batch."""
        self.cut_file(position)
        self.next_offset = self.base_offset
        self.rebuild_indexes()
        if self.txn_index is not None:
            self.txn_index.truncate(self.base_offset, self.next_offset)

    def cut_file(self, position: int) -> None:
        """Cut only the file; the caller must correct indexes and end offset."""
        self.file().truncate(position)
        self.size_bytes = position

    # --- indexes ---------------------------------------------------------------------------------

    @property
    def index(self) -> OffsetIndex:
        if self._index is None:
            self._load_indexes()
        assert self._index is not None
        return self._index

    @property
    def time_index(self) -> TimeIndex:
        if self._time_index is None:
            self._load_indexes()
        assert self._time_index is not None
        return self._time_index

    @property
    def max_timestamp(self) -> int:
        """The latest timestamp of any batch, -1 if there is none."""
        if self._index is None:
            self._load_indexes()
        return self._max_timestamp

    @property
    def first_timestamp(self) -> int:
        """The time from which the age of the segment is counted: the latest timestamp of its first batch."""
        if self._first_timestamp == UNKNOWN:
            first = next(walk_headers(self.file(), 0, self.size_bytes), None)
            self._first_timestamp = first[1].max_timestamp if first else NO_TIMESTAMP
        return self._first_timestamp

    def _load_indexes(self) -> None:
        try:
            data = self.disk.read_file(self.path(INDEX)), self.disk.read_file(self.path(TIME_INDEX))
            index = OffsetIndex.from_bytes(self.base_offset, data[0], self.size_bytes)
            time_index = TimeIndex.from_bytes(self.base_offset, data[1])
            if self.size_bytes and not len(time_index):
                raise CorruptIndex("the time index of a finished segment is empty")
        except FileNotFoundError:
            self.rebuild_indexes()
        except CorruptIndex as error:
            self._distrust_indexes(str(error))
        else:
            self._index, self._time_index = index, time_index
            self._max_timestamp, self._max_timestamp_offset = time_index.last()
            last = index.last()
            self._bytes_since_index = self.size_bytes - last[1] if last else self.size_bytes
            if not self._is_true(*time_index.last()):
                self._distrust_indexes("the last entry of the time index is wrong")

    def rebuild_indexes(self) -> None:
        """Build both indexes again from the log file, and check every batch."""
        self.forget_indexes()
        position = 0
        for header, _, _ in walk_batches(self.file(), 0, self.size_bytes):
            self._note(header, position)
            position += header.size_bytes

    def forget_indexes(self) -> None:
        """Start with empty indexes, for `note` to fill."""
        self._index, self._time_index = OffsetIndex(self.base_offset), TimeIndex(self.base_offset)
        self._bytes_since_index = 0
        self._max_timestamp, self._max_timestamp_offset = NO_TIMESTAMP, self.base_offset
        self._first_timestamp = UNKNOWN
        self._indexes_changed = True
        self._recent.clear()

    def note(self, header: BatchHeader, position: int) -> None:
        """Index a batch that is in the file already. For recovery, which walks the file itself."""
        self._note(header, position)

    # --- reading ---------------------------------------------------------------------------------

    def batches(self, position: int = 0) -> Generator[tuple[BatchHeader, bytes, int], None, None]:
        """`walk_batches` over the present content, with a file handle of its own, so that any thread may call it."""
        file, end = self.disk.open(self.log_path), self.size_bytes
        try:
            yield from walk_batches(file, position, end)
        finally:
            file.close()

    def find(self, offset: int) -> int | None:
        """Position of the first batch that ends at or after `offset`; None if the segment ends before it."""
        recent = self._recent.get(offset)
        if recent is not None:
            return recent
        if offset >= self.next_offset:
            return None
        for position, header in walk_headers(self.file(), self._start_for(offset), self.size_bytes):
            if header[0] + header[6] >= offset:
                return position
        return None

    def holds(self, file: File) -> bool:
        """Whether this is the open file of the segment."""
        return self._file is file

    def offset_behind(self, position: int) -> int:
        """An offset behind all batches that begin before `position`, as near as the index knows one."""
        if position >= self.size_bytes:
            return self.next_offset
        return self.index.offset_at_or_after(position) or self.next_offset

    def _start_for(self, offset: int) -> int:
        """A position at or before the batch with `offset`, from the index if its entry is right."""
        named, position = self.index.lookup(offset)
        if position == 0:
            return 0
        with suppress(CorruptBatch):
            _, header = next(walk_headers(self.file(), position, self.size_bytes))
            if header.last_offset == named:
                return position
        self._distrust_indexes(f"no batch at byte {position} ends with offset {named}")
        return self.index.lookup(offset)[1]

    def _is_true(self, timestamp: int, offset: int) -> bool:
        """Whether an entry of the time index is right: the batch has that timestamp and offset."""
        if timestamp == NO_TIMESTAMP:
            return True
        with suppress(CorruptBatch):
            for _, header in walk_headers(self.file(), self._start_for(offset), self.size_bytes):
                if header.last_offset >= offset:
                    return header.base_offset <= offset and header.max_timestamp == timestamp
        return False

    def _distrust_indexes(self, why: str) -> None:
        logger.warning("%s: rebuilding its indexes: %s", self.log_path, why)
        self.rebuild_indexes()

    def first_at_or_after(
        self, timestamp: int, start_offset: int
    ) -> Generator[None, None, tuple[int, int, int] | None]:
        """(timestamp, offset, leader epoch) of the first record at or after both of these. In steps."""
        entry = self.time_index.lookup(timestamp)
        if not self._is_true(*entry):
            self._distrust_indexes(f"no batch with offset {entry[1]} has the time {entry[0]}")
            entry = self.time_index.lookup(timestamp)
        position = self._start_for(max(entry[1], start_offset))
        with closing(self.batches(position)) as batches:  # a file of its own: the segment may be closed between steps
            for header, chunk, at in batches:
                yield
                if header.max_timestamp >= timestamp and header.last_offset >= start_offset:
                    for head in stream_heads(chunk, header, at):
                        if head is None:
                            yield
                            continue
                        found = header.max_timestamp if header.is_log_append_time else header[7] + head.timestamp_delta
                        offset = header.base_offset + head.offset_delta
                        if found >= timestamp and offset >= start_offset:
                            return found, offset, header.partition_leader_epoch
        return None

    # --- names -----------------------------------------------------------------------------------

    def rename(self, suffix: str) -> list[str]:
        """Change the suffix of all files of the segment; returns their new paths."""
        renamed = []
        for kind in reversed(
            SEGMENT_KINDS
        ):  # the .log file last, so that it is never beside the indexes of another segment
            source = self.path(kind)
            target = source.removesuffix(self.suffix) + suffix
            with suppress(FileNotFoundError):
                self.disk.rename(source, target)
                renamed.append(target)
        self.suffix = suffix
        if self.txn_index is not None:
            self.txn_index.path = self.path(TXN_INDEX)
        return renamed
