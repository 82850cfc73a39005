"""Compacts logs in a thread of its own, one log at a time, so slowly that clients hardly notice.

The thread reads and writes segments. Swapping the new segments into the log is done on the event loop, to which logs
belong; the thread waits for that. Between two steps the thread rests as long as log.cleaner.io.max.bytes.per.second
demands, and at least as long as the step took: Python runs one thread at a time, and the event loop must not wait.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from threading import Event
from time import perf_counter
from typing import TYPE_CHECKING

from kohort.broker.topics.producer_state import PRODUCERS, Producers
from kohort.broker.topics.stable_offset import is_known, last_stable_offset
from kohort.broker.worker import Worker, quick_switches
from kohort.protocol.errors import MalformedMessage
from kohort.storage.cleanable import CleanableRange, cleanable_range, is_due
from kohort.storage.compactor import Compaction, IoThrottle
from kohort.storage.errors import StorageError

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.worker import Post
    from kohort.storage.layout import TopicPartition
    from kohort.storage.partition_log import PartitionLog
    from kohort.storage.segment import Segment

logger = logging.getLogger(__name__)


class Stopped(Exception):
    """The broker stops, so the compaction in progress ends early."""


class Cleaner:
    def __init__(
        self, broker: Broker, post: Post, clock_ms: Callable[[], int], checkpoint: Callable[[], object]
    ) -> None:
        self.busy_with: PartitionLog | None = None
        self._broker = broker
        self._post = post
        self._now = clock_ms
        self._checkpoint = checkpoint
        self._worker = Worker("kohort-cleaner", post)
        self._stop = Event()

    def run_if_due(self) -> None:
        """Start a run over the dirtiest log, unless one is in progress or none is dirty enough."""
        if self.busy_with is None and (found := self._dirtiest()) is not None:
            key, cleanable = found
            self._start(key, self._broker.logs.logs[key], cleanable)

    def stop(self) -> None:
        self._stop.set()
        self._worker.stop()

    def _dirtiest(self) -> tuple[TopicPartition, CleanableRange] | None:
        best: tuple[TopicPartition, CleanableRange] | None = None
        now = self._now()
        for key, log in self._broker.logs.logs.items():
            if not log.config.compacts or log.failed is not None or len(log.segments) < 2:
                continue
            cleanable = log.cleanable_segments()
            found = cleanable_range(
                cleanable, log.segments[len(cleanable) :],
                cleaned_up_to=log.cleaned_up_to, last_stable_offset=self._stable_offset(key, log),
                config=log.config, now=now,
            )  # fmt: skip
            if found is None or not is_due(found, log.config, now):
                continue
            if best is None or found.dirty_ratio > best[1].dirty_ratio:
                best = key, found
        return best

    def _stable_offset(self, key: TopicPartition, log: PartitionLog) -> int:
        """What lies behind it must stay. If it is not known, the run itself finds out which transactions are open."""
        partition = self._broker.catalog.partition(*key)
        if partition is None or not is_known(self._broker, partition):
            return log.log_end_offset
        return last_stable_offset(self._broker, partition)

    def _start(self, key: TopicPartition, log: PartitionLog, cleanable: CleanableRange) -> None:
        partition = self._broker.catalog.partition(*key)
        producers: Producers | None = partition.extra.get(PRODUCERS) if partition is not None else None
        run = Compaction(
            cleanable, log.config, self._now(),
            prepare_swap=log.prepare_swap,
            swap=lambda made, old: self._swap(log, made, old),
            last_offsets=producers.last_offsets() if producers is not None else {},
            marker_epochs=producers.marker_epochs() if producers is not None else {},
        )  # fmt: skip
        self.busy_with = log
        self._worker.run(lambda: self._work(log, run), lambda: self._finished(log, run))

    # --- in the thread

    def _work(self, log: PartitionLog, run: Compaction) -> None:
        throttle = IoThrottle(self._broker.config.log_cleaner_io_max_bytes_per_second, perf_counter())
        steps = run.steps()
        try:
            with quick_switches(self._broker.owns_process):
                started = perf_counter()
                for io_bytes in steps:
                    now = perf_counter()
                    if self._stop.wait(max(throttle.rest_s(io_bytes, now), now - started)):
                        break
                    started = perf_counter()
        except Stopped:
            pass
        except (MalformedMessage, OSError, StorageError) as problem:
            if log.failed is None:  # otherwise the log was deleted, or its disk failed, and that was logged already
                logger.error("compaction of %s: %s", log.folder, problem)
        finally:
            steps.close()

    def _swap(self, log: PartitionLog, made: Segment, old: Sequence[Segment]) -> None:
        """Swap the new segment into the log, on the event loop, and wait until that is done."""
        done = Event()
        problems: list[Exception] = []

        def swap() -> None:
            try:
                if self._stop.is_set() or log.failed is not None or old[0] not in log.segments:
                    raise StorageError(f"{log.folder} was closed, deleted or failed during its compaction")
                log.swap_segments([made], old, self._now())
            except Exception as problem:
                problems.append(problem)
            finally:
                done.set()

        self._post(swap)
        while not done.wait(0.05):
            if self._stop.is_set():
                raise Stopped  # the event loop waits for this thread to end; the next start finishes the swap
        if problems:
            raise problems[0]

    # --- on the event loop again

    def _finished(self, log: PartitionLog, run: Compaction) -> None:
        self.busy_with = None
        if run.cleaned_up_to is None or log.failed is not None:
            return
        log.cleaned_up_to = run.cleaned_up_to
        logger.info(
            "compacted %s up to offset %d: %d of %d records stay, %d of %d bytes",
            log.folder, run.cleaned_up_to, run.records_after, run.records_before, run.bytes_after, run.bytes_before,
        )  # fmt: skip
        self._checkpoint()
