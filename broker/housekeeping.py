"""The regular work of a broker besides requests: retention, compaction, checkpoints, and forgetting old producers.

    retention       every log.retention.check.interval.ms: delete old segments, and files retired long enough ago
    compaction      every log.cleaner.backoff.ms: the log with the largest dirty share, if one is due (`compaction.py`)
    checkpoints     every log.flush.offset.checkpoint.interval.ms: recovery points, log starts, cleaner offsets
    flush.ms        once per second, for topics that have set it
    producers       every ten minutes: forget those that were silent for producer.id.expiration.ms

Logs belong to the event loop's thread, so this work runs there, one log per turn. Only compaction has a thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kohort.broker.compaction import Cleaner
from kohort.broker.topics.producer_state import PRODUCERS
from kohort.storage.errors import StorageError
from kohort.storage.log_config import FOREVER
from kohort.storage.retention import apply_retention

if TYPE_CHECKING:
    from kohort.broker.broker import Broker, Cancellable
    from kohort.broker.worker import Post
    from kohort.storage.partition_log import PartitionLog

logger = logging.getLogger(__name__)

FLUSH_CHECK_MS: Final = 1_000
PRODUCER_CHECK_MS: Final = 600_000
NEVER_MS: Final = 10 * 365 * 86_400_000  # no timer is set further away than ten years


class Housekeeping:
    def __init__(self, broker: Broker, post: Post, clock_ms: Callable[[], int]) -> None:
        self._broker = broker
        self._now = clock_ms
        self._cleaner = Cleaner(broker, post, clock_ms)
        self._timers: dict[str, Cancellable] = {}
        self._is_stopped = False

    def start(self) -> None:
        config = self._broker.config
        self._every("retention", lambda: config.log_retention_check_interval_ms, self._retain_all)
        self._every("checkpoint", lambda: config.log_flush_offset_checkpoint_interval_ms, self.checkpoint)
        self._every("flush", lambda: FLUSH_CHECK_MS, self.flush_overdue)
        self._every("producers", lambda: PRODUCER_CHECK_MS, self.expire_producers)
        if config.log_cleaner_enable:
            self._every("cleaner", lambda: config.log_cleaner_backoff_ms, self._cleaner.run_if_due)

    def stop(self) -> None:
        """Stop all timers. A compaction in progress ends early; the log stays as it was."""
        self._is_stopped = True
        for timer in self._timers.values():
            timer.cancel()
        self._cleaner.stop()

    @property
    def is_compacting(self) -> bool:
        return self._cleaner.busy_with is not None

    def _every(self, name: str, interval_ms: Callable[[], int], work: Callable[[], object]) -> None:
        """Do the work at this interval. The interval is read each time, because the setting may change."""

        def wait() -> None:
            self._timers[name] = self._broker.call_later(min(max(interval_ms(), 1), NEVER_MS) / 1000, turn)

        def turn() -> None:
            try:
                work()
            except Exception:
                logger.exception("%s failed; it will be tried again", name)
            if not self._is_stopped:
                wait()

        wait()

    # --- the rounds

    def _retain_all(self) -> None:
        self._one_by_one(list(self._broker.logs.logs.values()))

    def _one_by_one(self, logs: list[PartitionLog]) -> None:
        """Apply retention to the logs, with a turn of the event loop after each deletion, which may take long."""
        while logs:
            if self.retain(logs.pop()) and logs and not self._is_stopped:
                self._timers["retention of the rest"] = self._broker.call_later(0, lambda: self._one_by_one(logs))
                return

    def retain(self, log: PartitionLog) -> bool:
        """Delete expired segments of one log; True if it took time: something was deleted, or failed."""
        if log.failed is not None or not log.segments or log is self._cleaner.busy_with:
            return False
        try:
            expired = apply_retention(log, self._now())
        except (OSError, StorageError) as problem:
            logger.error("retention in %s: %s", log.folder, problem)
            return True
        if expired:
            logger.info(
                "%s: retention removed %d segments; it starts at %d now", log.folder, len(expired), log.log_start_offset
            )
        return bool(expired)

    def checkpoint(self) -> None:
        try:
            self._broker.logs.checkpoint()
        except OSError as problem:
            logger.error("checkpoints could not be written: %s", problem)

    def flush_overdue(self) -> None:
        now = self._now()
        for log in self._broker.logs.logs.values():
            if log.config.flush_ms < FOREVER and log.failed is None and log.wants_flush(now):
                self._broker.flusher.sync(log)

    def expire_producers(self) -> None:
        oldest = self._now() - self._broker.config.producer_id_expiration_ms
        for topic in self._broker.catalog:
            for partition in topic.partitions:
                if (producers := partition.extra.get(PRODUCERS)) is not None:
                    producers.expire(oldest)
