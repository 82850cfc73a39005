"""Syncs logs in a thread of its own: one flush is in flight, and the logs that became dirty meanwhile are the next one.

`storage.shared_sync` decides what is synced when; this module runs the syncs in a thread. Answers to Produce leave when
the records are in the page cache, as with Kafka, and wait for no sync. A log is synced here when it rolled, when
flush.messages or flush.ms say so, and when an answer must wait for the disk: Produce with flush.messages=1, and by
default everything that the coordinator writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.broker.clock import CLOCK
from kohort.broker.worker import Worker
from kohort.storage.shared_sync import Flush, Ready, SharedSync

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kohort.broker.worker import Post
    from kohort.storage.disk import Disk
    from kohort.storage.log_writer import LogWriter


class Flusher:
    def __init__(
        self, disk: Disk, post: Post, *, call_soon: Post | None = None, clock_ms: Callable[[], int] = CLOCK.now_ms
    ) -> None:
        """`post` may be called from any thread, `call_soon` from the event loop's alone, where it is cheaper."""
        self._syncs = SharedSync(disk, sync=True)
        self._worker = Worker("kohort-flusher", post)
        self._call_soon = call_soon or post
        self._now = clock_ms
        self._turn_is_due = False

    def sync(self, log: LogWriter, ready: Ready | None = None) -> None:
        """Make durable what the log holds now; then `ready(None)`, or `ready(error)` if that cannot be."""
        self._syncs.appended(log, ready)
        if not self._turn_is_due and self._syncs.in_flight is None:
            self._turn_is_due = True
            self._call_soon(self._turn)  # later in this turn of the event loop, which may bring more logs to sync

    def sync_all(self, logs: Sequence[LogWriter], ready: Callable[[], None]) -> None:
        """Make durable what the logs hold now, then call `ready()`. A log that could not be synced has failed by then.

        The logs become dirty at the same time, so one flush syncs all of them.
        """
        for log in logs[:-1]:
            self._syncs.appended(log)
        self.sync(logs[-1], lambda _: ready())

    def _turn(self) -> None:
        self._turn_is_due = False
        if (flush := self._syncs.take()) is not None:
            self._worker.run(flush.run, lambda: self._finished(flush))

    def _finished(self, flush: Flush) -> None:
        if flush is self._syncs.in_flight:
            self._syncs.finished(flush, self._now())
            self._turn()

    def abandon(self) -> None:
        """Finish the flush in flight, and sync nothing more."""
        self._worker.stop()

    def stop(self) -> None:
        """Finish the flush in flight, and then sync what waits behind it, before this returns."""
        self._worker.stop()
        while True:
            if self._syncs.in_flight is not None:
                self._syncs.finished(self._syncs.in_flight, self._now())
            flush = self._syncs.take()
            if flush is None:
                return
            flush.run()
