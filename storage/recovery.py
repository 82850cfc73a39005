"""Opens the files of a partition, in whatever state a crash has left them.

First the folder is tidied: interrupted compactions are undone or finished, and index files without a log are removed.
After a clean stop, only the end of the last segment is read, to find where the log ends. After a crash, every segment
from the recovery point on is walked batch by batch, and its indexes are built again.

What the walk may find, and what is done:

- A batch that is torn, or fails its checksum, *above* the recovery point: a write that no sync had covered
  when the power went. The log is cut there, later segments go, and one line is logged.
- The same *below* the recovery point, or a log that ends before it: bytes that were known to be on disk are
  damaged. Cutting would silently lose acknowledged data, so the log is not opened (`LogCorrupt`).
- A sync had failed before the crash: what can be read now may be in memory only, so it is written again.
- A sound batch that skips offsets. The checksum does not cover offsets, so this may be a flipped bit, or the result of
  compaction. Compacted logs may skip offsets below the recovery point, and anywhere if there is no recovery point (a
  log that was copied here). Between two segments of an ordinary log, the end of the earlier one is lost: the log is
  cut there. Anything else is damage (`LogCorrupt`).
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Final

from kohort.protocol.record_batch import BatchHeader, CorruptBatch
from kohort.storage.batch_walk import walk_batches, walk_headers
from kohort.storage.disk import Disk, FileInfo
from kohort.storage.errors import LogCorrupt
from kohort.storage.index_entries import CorruptIndex
from kohort.storage.layout import (
    CLEANED,
    DELETED,
    LOG,
    SEGMENT_KINDS,
    SNAPSHOT,
    SWAP,
    SYNC_FAILED_FILE,
    TXN_INDEX,
    parse_segment_file,
    segment_file,
)
from kohort.storage.log_config import LogConfig
from kohort.storage.segment import MAX_RELATIVE_OFFSET, Segment
from kohort.storage.txn_index import TxnIndex
from kohort.storage.txn_recovery import TxnRecovery, rebuild_txn_index

logger = logging.getLogger(__name__)

COPY_BYTES: Final = 1 << 20
ADVICE: Final = (
    "Nothing was changed. Restore the folder from a backup; or, to give up what follows, stop the broker, "
    "cut the file at that byte (truncate -s BYTE FILE), remove .kafka_cleanshutdown if it is there and this "
    "log's line in recovery-point-offset-checkpoint (line 2 counts the lines), and start again"
)


@dataclass(slots=True)
class Opened:
    """The segments in order, and what the walk has found."""

    segments: list[Segment] = field(default_factory=list)
    scanned: list[Segment] = field(default_factory=list)  # segments whose bytes may not be on the medium
    leader_epochs: list[tuple[int, int]] = field(default_factory=list)  # of the scanned batches
    snapshots: list[int] = field(default_factory=list)  # offsets of the producer snapshots
    txn_indexes: set[int] = field(default_factory=set)  # base offsets of the segments that have one
    folder_changed: bool = False
    sync_failed: bool = False  # what can be read may not be on the medium


@dataclass(slots=True)
class OpenRules:
    """What is known about the log before it is opened."""

    config: LogConfig
    clean: bool
    recovery_point: int | None  # None: unknown
    gaps_allowed: bool  # the log is, or was, compacted
    log_start_offset: int = 0
    distrust: bool = False  # a sync or a write has failed, so what can be read may not be on the medium


def open_segments(disk: Disk, folder: str, rules: OpenRules) -> Opened:
    """Tidy the folder, open its segments, and check them as the rules say; LogCorrupt if that fails."""
    opened = Opened()
    try:
        infos = _tidy(disk, folder, disk.scan_folder(folder), rules.config, opened)
    except CorruptBatch as error:
        raise LogCorrupt(f"{error}, in the output of a compaction. {ADVICE}") from error
    bases = sorted(infos)
    for base, following in zip_longest(bases, bases[1:]):
        info = infos[base]
        segment = Segment(disk, folder, base, rules.config, size_bytes=info.size_bytes, next_offset=following)
        segment.created_ms = segment.modified_ms = info.modified_ms
        opened.segments.append(segment)
    try:
        _check(disk, folder, rules, opened)
    except BaseException:  # nobody else knows these files
        for segment in opened.segments:
            segment.release_file()
        raise
    return opened


def _check(disk: Disk, folder: str, rules: OpenRules, opened: Opened) -> None:
    if rules.clean:
        _find_end(opened)
    else:
        _Scan(opened, rules).run()
        if opened.sync_failed or rules.distrust:
            _rewrite(disk, folder, opened)
    _load_txn_indexes(opened)
    end = max(opened.segments[-1].next_offset if opened.segments else 0, rules.log_start_offset)
    known = rules.recovery_point
    if known is not None and (end < known or (rules.clean and end != known)):
        raise LogCorrupt(f"{folder} ends at offset {end}, but was on disk up to {known} before. {ADVICE}")


# --- tidying --------------------------------------------------------------------------------------


def _tidy(disk: Disk, folder: str, infos: list[FileInfo], config: LogConfig, opened: Opened) -> dict[int, FileInfo]:
    """Finish or undo what a crash interrupted; returns the remaining .log files by base offset."""
    files = {name: info for info in infos if (name := parse_segment_file(info.name))}
    opened.sync_failed = any(info.name == SYNC_FAILED_FILE for info in infos)
    opened.snapshots = [offset for offset, kind, suffix in files if kind == SNAPSHOT and suffix == ""]
    if not any(suffix for _, _, suffix in files) and not _orphans(files):
        return _logs(files, opened)
    opened.folder_changed = True
    cleaned = [base for base, _, suffix in files if suffix == CLEANED]
    for base, kind, suffix in list(files):
        unfinished = suffix == SWAP and cleaned and base >= min(cleaned)
        if suffix in (DELETED, CLEANED) or unfinished:
            _remove(disk, folder, files, (base, kind, suffix))
    _finish_swap(disk, folder, files, config)
    for orphan in _orphans(files):
        _remove(disk, folder, files, orphan)
    return _logs(files, opened)


def _logs(files: dict[tuple[int, str, str], FileInfo], opened: Opened) -> dict[int, FileInfo]:
    opened.txn_indexes = {base for base, kind, _ in files if kind == TXN_INDEX}
    return {base: info for (base, kind, _), info in files.items() if kind == LOG}


def _orphans(files: dict[tuple[int, str, str], FileInfo]) -> list[tuple[int, str, str]]:
    """Index files without a log."""
    return [
        (base, kind, suffix)
        for base, kind, suffix in files
        if kind in SEGMENT_KINDS and kind != LOG and (base, LOG, suffix) not in files
    ]


def _remove(disk: Disk, folder: str, files: dict[tuple[int, str, str], FileInfo], which: tuple[int, str, str]) -> None:
    disk.unlink(f"{folder}/{segment_file(*which)}")
    del files[which]


def _finish_swap(disk: Disk, folder: str, files: dict[tuple[int, str, str], FileInfo], config: LogConfig) -> None:
    """Replace segments with the complete output of compaction."""
    swapped = [
        Segment(disk, folder, base, config, suffix=SWAP, size_bytes=info.size_bytes)
        for (base, kind, suffix), info in sorted(files.items())
        if suffix == SWAP and kind == LOG
    ]
    for segment in swapped:
        end = segment.base_offset + 1
        for _, header in walk_headers(segment.file(), 0, segment.size_bytes):
            end = max(end, header.next_offset)
        segment.release_file()
        for name in list(files):
            if segment.base_offset <= name[0] < end and name[1] in SEGMENT_KINDS and name[2] == "":
                _remove(disk, folder, files, name)
    if swapped:
        disk.sync_folder(folder)  # or else after a second crash an old segment could be there beside the new one
    for segment in swapped:
        segment.rename("")
        for kind in SEGMENT_KINDS:
            if info := files.pop((segment.base_offset, kind, SWAP), None):
                files[segment.base_offset, kind, ""] = info


def _load_txn_indexes(opened: Opened) -> None:
    """Load the transaction indexes that were not made again from the log, unless they are damaged."""
    for segment in opened.segments:
        if segment.base_offset not in opened.txn_indexes or segment.txn_index is not None:
            continue
        try:
            path = segment.path(TXN_INDEX)
            segment.txn_index = TxnIndex.open(segment.disk, path, segment.base_offset, segment.next_offset)
        except CorruptIndex as problem:
            logger.warning("%s: it is made again from the log", problem)
            try:
                rebuild_txn_index(segment, opened.segments, opened.snapshots)
            except CorruptBatch as error:
                raise LogCorrupt(f"{error}. {ADVICE}") from error


# --- after a clean stop ---------------------------------------------------------------------------


def _find_end(opened: Opened) -> None:
    """Find where the log ends: walk header by header, from the last index entry on."""
    if not opened.segments:
        return
    active = opened.segments[-1]
    if active.size_bytes == 0:
        return
    try:
        entry = active.index.last()
        for _, header in walk_headers(active.file(), entry[1] if entry else 0, active.size_bytes):
            if entry and header.last_offset != entry[0]:
                active.rebuild_indexes()  # the index is wrong; this walks the whole segment
                break
            entry = None
            active.next_offset = header.next_offset
    except CorruptBatch as error:
        raise LogCorrupt(f"{error}, although the broker had stopped cleanly. {ADVICE}") from error
    active.release_file()


# --- after a failed sync --------------------------------------------------------------------------


def _rewrite(disk: Disk, folder: str, opened: Opened) -> None:
    """Write the scanned segments again, because a sync of this log had failed.

    After a failed sync, the system still shows bytes that it could not write, and takes them for written: another sync
    of the same file would succeed without writing them. A copy of the file is really written.
    """
    logger.warning("%s: a sync had failed; %d segments are written anew", folder, len(opened.scanned))
    for segment in opened.scanned:
        copy = disk.open(segment.log_path + CLEANED, create=True, truncate=True)
        try:
            for position in range(0, segment.size_bytes, COPY_BYTES):
                copy.append(segment.file().pread(min(COPY_BYTES, segment.size_bytes - position), position))
            copy.sync()
        finally:
            copy.close()
            segment.release_file()
        disk.rename(segment.log_path + CLEANED, segment.log_path)
    disk.sync_folder(folder)
    with suppress(FileNotFoundError):
        disk.unlink(f"{folder}/{SYNC_FAILED_FILE}")
    opened.folder_changed = True


# --- after a crash --------------------------------------------------------------------------------


class _Scan:
    """The walk over all segments from the recovery point on."""

    def __init__(self, opened: Opened, rules: OpenRules) -> None:
        self.opened = opened
        self.rules = rules
        self.cut = False
        self.transactions = TxnRecovery(opened.segments, opened.snapshots)

    def run(self) -> None:
        segments = self.opened.segments
        expected: int | None = None  # end offset of the previous segment, if it was walked
        for number, segment in enumerate(segments):
            limit = segments[number + 1].base_offset if number + 1 < len(segments) else None
            if limit is not None and self._is_safe(limit):
                continue
            if expected is not None and segment.base_offset > expected and self._cut_between(segment, expected):
                self._drop(number)
                return
            self.opened.scanned.append(segment)
            self.transactions.begin(segment, has_index=segment.base_offset in self.opened.txn_indexes)
            if (sound_bytes := self._walk(segment, limit)) < segment.size_bytes:
                # Remove later segments first, durably: or else a second crash could leave a hole in the log.
                self._drop(number + 1)
                segment.cut_file(sound_bytes)
            self.transactions.end(segment)
            expected = segment.next_offset
            segment.release_file()
            if self.cut:
                return

    def _is_safe(self, offset: int) -> bool:
        return self.rules.recovery_point is not None and offset <= self.rules.recovery_point

    def _walk(self, segment: Segment, limit: int | None) -> int:
        """Index the batches of a segment up to the first bad one; returns how many bytes are good."""
        segment.forget_indexes()
        segment.next_offset = segment.base_offset
        position = 0
        try:
            for header, chunk, at in walk_batches(segment.file(), 0, segment.size_bytes):
                self._check(segment, header, position, limit)
                segment.note(header, position)
                self._note_epoch(header)
                if header.is_transactional:
                    self.transactions.note(segment, header, chunk, at)
                position += header.size_bytes
        except CorruptBatch as error:
            self._decide_to_cut(segment, position, str(error))
        return position

    def _check(self, segment: Segment, header: BatchHeader, position: int, limit: int | None) -> None:
        where = f"{segment.log_path}, batch at byte {position}"
        if header.base_offset < segment.next_offset:
            raise CorruptBatch(f"{where}: offset {header.base_offset} after {segment.next_offset - 1}")
        if (
            header.last_offset - segment.base_offset > MAX_RELATIVE_OFFSET
            or header.record_count > header.last_offset_delta + 1
        ):
            raise CorruptBatch(f"{where}: offsets {header.base_offset} to {header.last_offset} cannot be")
        if limit is not None and header.last_offset >= limit:
            raise CorruptBatch(f"{where}: offset {header.last_offset} belongs into the next segment")
        if header.base_offset > segment.next_offset and not self._may_skip_to(header.base_offset):
            raise LogCorrupt(
                f"{where}: offsets {segment.next_offset} to {header.base_offset - 1} are missing. {ADVICE}"
            )

    def _may_skip_to(self, offset: int) -> bool:
        known = self.rules.recovery_point
        return self.rules.gaps_allowed and (known is None or offset <= known)

    def _cut_between(self, segment: Segment, expected: int) -> bool:
        """Whether to cut the log before this segment, which starts behind the end of the one before."""
        if self._may_skip_to(segment.base_offset):
            return False
        missing = f"{segment.folder}: offsets {expected} to {segment.base_offset - 1} are missing between segments"
        if self.rules.gaps_allowed or self._is_safe(expected + 1):
            raise LogCorrupt(f"{missing}. {ADVICE}")
        logger.warning("%s: their write never reached the disk; the log is cut at %d", missing, expected)
        return True

    def _decide_to_cut(self, segment: Segment, position: int, why: str) -> None:
        end = segment.next_offset
        if self._is_safe(end + 1):
            raise LogCorrupt(f"{why}; this was on disk up to offset {self.rules.recovery_point} before. {ADVICE}")
        lost_bytes = segment.size_bytes - position
        logger.warning("%s: unsynced tail of %d bytes is cut, the log ends at %d", why, lost_bytes, end)
        self.cut = True

    def _drop(self, first: int) -> None:
        """Remove this segment and all later ones: the records before them are lost."""
        dropped = self.opened.segments[first:]
        for segment in dropped:
            logger.warning("%s lies behind the cut and is removed", segment.log_path)
            for path in segment.rename(DELETED):
                segment.disk.unlink(path)
        if dropped:
            dropped[0].disk.sync_folder(dropped[0].folder)
        del self.opened.segments[first:]

    def _note_epoch(self, header: BatchHeader) -> None:
        epochs = self.opened.leader_epochs
        if not epochs or header.partition_leader_epoch > epochs[-1][0]:
            epochs.append((header.partition_leader_epoch, header.base_offset))
