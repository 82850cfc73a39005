"""The regular work of a broker besides requests: retention, compaction, checkpoints, and forgetting old producers.

    retention       every log.retention.check.interval.ms: delete old segments, and files retired long enough ago
    compaction      every log.cleaner.backoff.ms: the log with the largest dirty share, if one is due (`compaction.py`)
    checkpoints     every log.flush.offset.checkpoint.interval.ms: recovery points, log starts, cleaner offsets
    flush.ms        once per second, for topics that have set it
    producers       every producer.id.expiration.check.interval.ms: forget those that were silent for
                    producer.id.expiration.ms

Logs belong to the event loop's thread, so this work runs there, in steps between requests (`steps.py`). Files are
unlinked and checkpoints written by a thread, and compaction has another one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from kohort.broker.compaction import Cleaner
from kohort.broker.steps import SLICE_NS, Steps, take_steps
from kohort.broker.topics.producer_state import PRODUCERS
from kohort.broker.worker import Worker
from kohort.storage.errors import StorageError
from kohort.storage.log_config import FOREVER
from kohort.storage.retention import apply_retention

if TYPE_CHECKING:
    from kohort.broker.broker import Broker, Cancellable
    from kohort.broker.worker import Post
    from kohort.storage.checkpoints import Checkpoint
    from kohort.storage.partition_log import PartitionLog

logger = logging.getLogger(__name__)

FLUSH_CHECK_MS: Final = 1_000
NEVER_MS: Final = 10 * 365 * 86_400_000  # no timer is set further away than ten years


class Housekeeping:
    def __init__(self, broker: Broker, post: Post, clock_ms: Callable[[], int]) -> None:
        self._broker = broker
        self._now = clock_ms
        self._cleaner = Cleaner(broker, post, clock_ms, self.checkpoint)
        self._worker = Worker("kohort-housekeeping", post)
        self.is_checkpointing = False  # checkpoints
        self._timers: dict[str, Cancellable] = {}
        self._is_stopped = False

    def start(self) -> None:
        config = self._broker.config
        self._every("retention", lambda: config.log_retention_check_interval_ms, self._retain_all)
        self._every("checkpoint", lambda: config.log_flush_offset_checkpoint_interval_ms, self.checkpoint)
        self._every("flush", lambda: FLUSH_CHECK_MS, self.flush_overdue)
        self._every("producers", lambda: config.producer_id_expiration_check_interval_ms, self.expire_producers)
        if config.log_cleaner_enable:
            self._every("cleaner", lambda: config.log_cleaner_backoff_ms, self._cleaner.run_if_due)

    def stop(self) -> None:
        """Stop all timers. A compaction in progress ends early; the log stays as it was."""
        self._is_stopped = True
        for timer in self._timers.values():
            timer.cancel()
        self._cleaner.stop()
        self._worker.stop()

    @property
    def is_compacting(self) -> bool:
        return self._cleaner.busy_with is not None

    def _every(self, name: str, interval_ms: Callable[[], int], work: Callable[[], Steps[None] | None]) -> None:
        """Do the work at this interval. The interval is read each time, because the setting may change."""

        def wait() -> None:
            self._timers[name] = self._broker.call_later_by_clock(min(max(interval_ms(), 1), NEVER_MS) / 1000, turn)

        def turn() -> None:
            try:
                steps = work()
            except Exception:
                logger.exception("%s failed; it will be tried again", name)
                steps = None
            go_on(steps)

        def go_on(steps: Steps[None] | None) -> None:
            try:
                is_done = steps is None or take_steps(steps, SLICE_NS) is not None
            except Exception:
                logger.exception("%s failed; it will be tried again", name)
                is_done = True
            if self._is_stopped:
                return
            if is_done:
                wait()
            else:
                self._timers[name] = self._broker.call_later(0, lambda: go_on(steps))

        wait()

    # --- the rounds

    def _retain_all(self) -> Steps[None]:
        for log in list(self._broker.logs.logs.values()):
            removed = 0
            while self._expire_oldest(log):
                removed += 1
                yield
            if removed:
                logger.info(
                    "%s: retention removed %d segments; it starts at %d now", log.folder, removed, log.log_start_offset
                )
            if paths := log.take_deleted(self._now()):
                self._worker.run(partial(self._unlink, paths), lambda: None)
            yield

    def _expire_oldest(self, log: PartitionLog) -> bool:
        """Delete the oldest segment of the log, if it has expired. False: it has not, or it could not be deleted."""
        if log.failed is not None or not log.segments or log is self._cleaner.busy_with:
            return False
        try:
            return bool(apply_retention(log, self._now(), at_most=1))
        except (OSError, StorageError) as problem:
            logger.error("retention in %s: %s", log.folder, problem)
            return False

    def _unlink(self, paths: list[str]) -> None:
        """Unlink files, in the thread: the file system takes a while for large ones."""
        for path in paths:
            try:
                self._broker.disk.unlink(path)
            except FileNotFoundError:
                pass  # the topic was deleted meanwhile
            except OSError as problem:
                logger.error("a file that retention or compaction replaced could not be removed: %s", problem)

    def checkpoint(self) -> None:
        """Write down recovery points and the like, in the thread, unless it is still busy with the last ones."""
        if not self.is_checkpointing:
            self.is_checkpointing = True
            plan = self._broker.logs.plan_checkpoint()
            self._worker.run(lambda: self._write(plan), lambda: self._written(plan))

    def _write(self, plan: Checkpoint) -> None:
        try:
            plan.write()
        except OSError as problem:
            logger.error("checkpoints could not be written: %s", problem)

    def _written(self, plan: Checkpoint) -> None:
        self.is_checkpointing = False
        self._broker.logs.checkpoint_written(plan)

    def flush_overdue(self) -> Steps[None]:
        now = self._now()
        for log in list(self._broker.logs.logs.values()):
            if log.config.flush_ms < FOREVER and log.failed is None and log.wants_flush(now):
                self._broker.flusher.sync(log)
            yield

    def expire_producers(self) -> Steps[None]:
        oldest = self._now() - self._broker.config.producer_id_expiration_ms
        for topic in list(self._broker.catalog):
            for partition in list(topic.partitions):
                if (producers := partition.extra.get(PRODUCERS)) is not None:
                    producers.expire(oldest)
                yield
