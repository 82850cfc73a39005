"""The data folder: all logs of a broker, its lock, its checkpoints, and the marker of a clean stop.

Start: take the lock, read the checkpoints, open every partition. If the last stop was not clean, what was recovered is
synced before any client can read it. Then the marker is removed, before the first write.

Stop: sync every log with its indexes, write the checkpoints, and after that the marker. With the marker, the next start
knows that each log ends at its recovery point.

A partition whose log is damaged does not stop the others: it is listed in `failed` with the reason, for the
broker to tell clients and the operator.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from typing import Final

from kohort.storage.checkpoints import Checkpoint, CheckpointFiles
from kohort.storage.disk import Disk
from kohort.storage.errors import LogCorrupt, LogFailed, StorageError
from kohort.storage.flush import TicketSync
from kohort.storage.layout import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_FILE,
    DELETED_FOLDER_SUFFIX,
    HIGH_WATERMARKS_FILE,
    LOCK_FILE,
    LOG_STARTS_FILE,
    RECOVERY_POINTS_FILE,
    TopicPartition,
    deleted_folder,
    parse_partition_folder,
    partition_folder,
)
from kohort.storage.log_config import LogConfig
from kohort.storage.open_files import OpenFiles
from kohort.storage.partition_log import PartitionLog

logger = logging.getLogger(__name__)

CLEAN_SHUTDOWN: Final = b'{"version":0,"brokerEpoch":-1}'


class LogDirectory:
    """All logs of one data folder. `LogDirectory.open` opens it, and `close` closes it."""

    def __init__(self, disk: Disk, path: str, config_of: Callable[[str], LogConfig]) -> None:
        self.disk = disk
        self.path = path
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.failed: dict[TopicPartition, str] = {}
        self.was_clean = False
        self._config_of = config_of
        self._open_files = OpenFiles()
        self._lock = disk.lock(f"{path}/{LOCK_FILE}")
        self._writer = CheckpointFiles(disk, path)

    @classmethod
    def open(
        cls,
        disk: Disk,
        path: str,
        config_of: Callable[[str], LogConfig] = lambda _: LogConfig(),
        *,
        once_locked: Callable[[], object] = lambda: None,
        now: int = 0,
    ) -> LogDirectory:
        """Open every log of the folder, which must exist. FolderInUse if another process has it.

        Args:
            config_of: the settings of a topic's logs.
            once_locked: called when no other process can change the folder any more, before the first log is opened.
        """
        directory = cls(disk, path, config_of)
        try:
            once_locked()
            directory._open_all(now)
        except BaseException:
            directory.abandon()
            raise
        return directory

    def _open_all(self, now: int) -> None:
        names = self.disk.scan_folder(self.path)
        self.was_clean = any(info.name == CLEAN_SHUTDOWN_FILE for info in names)
        checkpoints = {name: self._writer.read(name) for name in (RECOVERY_POINTS_FILE, LOG_STARTS_FILE, CLEANER_FILE)}
        for info in names:
            if not info.is_folder:
                continue
            if info.name.endswith(DELETED_FOLDER_SUFFIX):
                self.erase(f"{self.path}/{info.name}")
            elif key := parse_partition_folder(info.name):
                self._open_one(key, checkpoints, now)
        self._fail_missing_logs(checkpoints)
        if self.was_clean:
            self.disk.unlink(f"{self.path}/{CLEAN_SHUTDOWN_FILE}")
            self.disk.sync_folder(self.path)
        else:
            self.flush(now)
            self.checkpoint()

    def _open_one(self, key: TopicPartition, checkpoints: dict[str, dict[TopicPartition, int]], now: int) -> None:
        try:
            self.logs[key] = PartitionLog.open(
                self.disk, f"{self.path}/{partition_folder(*key)}", self._config_of(key[0]),
                recovery_point=checkpoints[RECOVERY_POINTS_FILE].get(key), clean=self.was_clean,
                log_start_offset=checkpoints[LOG_STARTS_FILE].get(key, 0),
                cleaned_up_to=checkpoints[CLEANER_FILE].get(key, 0), open_files=self._open_files, now=now,
            )  # fmt: skip
        except (LogCorrupt, OSError) as error:
            self._give_up(key, checkpoints, str(error))

    def _fail_missing_logs(self, checkpoints: dict[str, dict[TopicPartition, int]]) -> None:
        """A log with a recovery point whose folder is missing has failed: it must not start again as an empty log."""
        for key, offset in checkpoints[RECOVERY_POINTS_FILE].items():
            if offset > 0 and key not in self.logs and key not in self.failed:
                self._give_up(key, checkpoints, _folder_is_gone(offset))

    def _give_up(self, key: TopicPartition, checkpoints: dict[str, dict[TopicPartition, int]], why: str) -> None:
        logger.error("partition %s-%d is not available: %s", *key, why)
        self.failed[key] = why
        self._writer.keep(key, checkpoints)

    def erase(self, folder: str) -> None:
        """Remove the folder of a deleted partition. Blocks; any thread may do it. The next start tries again."""
        try:
            for info in self.disk.scan_folder(folder):
                self.disk.unlink(f"{folder}/{info.name}")
            self.disk.remove_folder(folder)
        except OSError as problem:
            logger.error("a deleted partition could not be removed: %s", problem)

    # --- partitions ------------------------------------------------------------------------------

    def log(self, topic: str, partition: int, *, topic_id: bytes | None = None) -> PartitionLog:
        """The log of a partition. A new log is created on disk by its first append, or by `create`."""
        key = (topic, partition)
        found = self.logs.get(key)
        if found is None:
            if key in self.failed:
                raise LogFailed(self.failed[key])
            found = PartitionLog(
                self.disk, f"{self.path}/{partition_folder(topic, partition)}", self._config_of(topic),
                topic_id=topic_id, open_files=self._open_files,
            )  # fmt: skip
            self.logs[key] = found
        return found

    def reopen(self, topic: str, partition: int, now: int = 0) -> PartitionLog:
        """Open a failed log again, as after a crash, from what is known to be on disk. Blocks.

        What was appended after the last good sync stays if it can still be read; it is written again and synced.
        LogCorrupt, LogFailed or OSError if that is not possible; then the log stays unavailable. The caller must make
        sure that no flush of this log is in flight.
        """
        key = (topic, partition)
        known = self._known_of(key)
        old = self.logs.pop(key, None)
        if old is not None:
            old.abandon()
            old.failed = old.failed or f"{old.folder} was opened anew"
        try:
            log = PartitionLog.open(
                self.disk, f"{self.path}/{partition_folder(topic, partition)}", self._config_of(topic),
                recovery_point=known[RECOVERY_POINTS_FILE].get(key), distrust=True,
                log_start_offset=known[LOG_STARTS_FILE].get(key, 0),
                cleaned_up_to=known[CLEANER_FILE].get(key, 0),
                topic_id=old.topic_id if old is not None else None, open_files=self._open_files, now=now,
            )  # fmt: skip
            if (durable_up_to := known[RECOVERY_POINTS_FILE].get(key, 0)) > 0 and not log.exists:
                raise LogCorrupt(_folder_is_gone(durable_up_to))
            log.flush(now)
        except (StorageError, OSError) as error:
            self._give_up(key, known, str(error))
            raise
        self.logs[key] = log
        self.failed.pop(key, None)
        self._writer.release(key)
        return log

    def _known_of(self, key: TopicPartition) -> dict[str, dict[TopicPartition, int]]:
        """Recovery point, start offset and cleaner's progress of a log, in the form of checkpoints."""
        log = self.logs.get(key)
        if log is None:
            names = (RECOVERY_POINTS_FILE, LOG_STARTS_FILE, CLEANER_FILE)
            return {name: {} if (kept := self._writer.kept(name, key)) is None else {key: kept} for name in names}
        return {
            RECOVERY_POINTS_FILE: {key: log.recovery_point},
            LOG_STARTS_FILE: {key: log.log_start_offset},
            CLEANER_FILE: {key: log.cleaned_up_to},
        }

    def delete(self, keys: Iterable[TopicPartition]) -> None:
        """Delete partitions: first from the checkpoints, then from the data folder. Blocks."""
        there = self._let_go(keys)
        if there:
            self.checkpoint()
            renamed = self._rename(there)
            self.disk.sync_folder(self.path)
            for folder in renamed:
                self.erase(folder)

    def put_away(self, keys: Iterable[TopicPartition]) -> list[str]:
        """Delete partitions without waiting for the disk. Returns their renamed folders, for `erase`.

        Before `erase`, write the checkpoints and sync the data folder. After a crash in between, the caller must know
        by itself what was deleted. A partition whose folder cannot be renamed is listed in `failed`:
        its files must not become those of a new log.
        """
        return self._rename(self._let_go(keys))

    def _let_go(self, keys: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Forget the logs. Returns those that may have a folder."""
        there = []
        for key in keys:
            log = self.logs.pop(key, None)
            if log is not None:
                log.abandon()
                log.failed = log.failed or f"{log.folder} was deleted"
            if key in self.failed or (log is not None and log.exists):
                there.append(key)
                self.failed.pop(key, None)
                self._writer.release(key)
        return there

    def _rename(self, keys: Iterable[TopicPartition]) -> list[str]:
        return [target for key in keys if (target := self._put_away(key)) is not None]

    def _put_away(self, key: TopicPartition) -> str | None:
        """Give the folder of a deleted partition a name that nobody opens. None: it has none, or that has failed."""
        folder = f"{self.path}/{partition_folder(*key)}"
        target = f"{self.path}/{deleted_folder(*key, os.urandom(16).hex())}"
        try:
            self.disk.rename(folder, target)
        except FileNotFoundError:
            return None
        except OSError as problem:
            self.failed[key] = f"the folder of the deleted topic could not be put away: {problem}"
            logger.error("partition %s-%d is not available: %s", *key, self.failed[key])
            return None
        return target

    def truncate(self, topic: str, partition: int, offset: int) -> None:
        """Cut a log, after its recovery point in the checkpoint was lowered."""
        log = self.logs[topic, partition]
        log.recovery_point = min(log.recovery_point, log.log_start_offset)
        self.checkpoint()
        log.truncate_to(offset)

    # --- checkpoints -----------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Write recovery points, log start offsets, high watermarks and the cleaner's progress. Blocks."""
        plan = self.plan_checkpoint()
        plan.write()
        self.checkpoint_written(plan)

    def plan_checkpoint(self) -> Checkpoint:
        """The same in three steps: plan here, `write` in any thread, and `checkpoint_written` here again."""
        points = self._recovery_points()
        starts = {
            key: log.log_start_offset
            for key, log in self._existing()
            if log.log_start_offset > (log.segments[0].base_offset if log.segments else 0)
        }
        contents = {
            RECOVERY_POINTS_FILE: points,
            # One broker has no followers, so the high watermark is the end of the log.
            HIGH_WATERMARKS_FILE: {key: log.log_end_offset for key, log in self._existing()},
            LOG_STARTS_FILE: starts,
            CLEANER_FILE: {key: log.cleaned_up_to for key, log in self._existing() if log.cleaned_up_to > 0},
        }
        return self._writer.plan(contents, points)

    def checkpoint_written(self, plan: Checkpoint) -> None:
        """Tell each log its recovery point in the checkpoint files."""
        if plan.is_in_force:
            for key, point in plan.recovery_points.items():
                if key in self.logs:
                    self.logs[key].checkpointed(point)

    def _existing(self) -> list[tuple[TopicPartition, PartitionLog]]:
        return [(key, log) for key, log in self.logs.items() if log.exists]

    def _recovery_points(self) -> dict[TopicPartition, int]:
        return {key: log.recovery_point for key, log in self._existing()}

    # --- the end ---------------------------------------------------------------------------------

    def flush(self, now: int = 0) -> None:
        """Make every log durable, in this thread. Logs whose disk fails are marked as failed."""
        tickets = [ticket for log in self.logs.values() if (ticket := log.begin_flush()) is not None]
        TicketSync(self.disk, tickets).run()
        for ticket in tickets:
            ticket.log.end_flush(ticket, now)

    def close(self, now: int = 0) -> None:
        """Stop cleanly. No flush may be in flight. StorageError: the stop was not clean; the next start recovers."""
        try:
            for log in self.logs.values():
                log.save_indexes()
            self.flush(now)
            self.checkpoint()
            broken = [log.failed for log in self.logs.values() if log.failed is not None] + list(self.failed.values())
            if broken:
                raise StorageError(f"no clean stop: {'; '.join(broken)}")
            self.disk.write_file(f"{self.path}/{CLEAN_SHUTDOWN_FILE}", CLEAN_SHUTDOWN)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close all files as they are, as if the process had crashed. What is appended afterwards is refused."""
        for log in self.logs.values():
            log.abandon()
            log.failed = log.failed or f"{log.folder} was closed"
        self._lock.release()


def _folder_is_gone(offset: int) -> str:
    return (
        f"its folder is gone, with offsets up to {offset}. Restore it; or, to start anew, stop "
        f"the broker and remove its line from {RECOVERY_POINTS_FILE} (line 2 counts the lines)"
    )
