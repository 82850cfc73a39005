"""Syncs logs off the event loop: one flush in flight, and whatever became dirty meanwhile is the next one.

The rule lives in `storage.group_commit`; this gives it a thread. By default an answer leaves when the records are in
the page cache, as with Kafka, and nobody waits here. Logs come here when they rolled, when flush.messages or flush.ms
say so, and when someone (flush.messages=1, the coordinator) answers only what is on disk.
"""

from __future__ import annotations

from time import time
from typing import TYPE_CHECKING

from kohort.broker.worker import Worker
from kohort.storage.group_commit import Flush, GroupCommit, Ready

if TYPE_CHECKING:
    from collections.abc import Callable

    from kohort.broker.worker import Post
    from kohort.storage.disk import Disk
    from kohort.storage.log_writer import LogWriter


class Flusher:
    def __init__(self, disk: Disk, post: Post, *, clock: Callable[[], float] = time) -> None:
        self._commit = GroupCommit(disk, sync=True)
        self._worker = Worker("kohort-flusher", post)
        self._post = post
        self._clock = clock
        self._turn_is_due = False

    def sync(self, log: LogWriter, ready: Ready | None = None) -> None:
        """Make durable what the log holds now; then `ready(None)`, or `ready(error)` if that cannot be."""
        self._commit.appended(log, ready)
        if not self._turn_is_due and self._commit.in_flight is None:
            self._turn_is_due = True
            self._post(self._turn)  # at the end of this turn, with whatever else it brings

    def _turn(self) -> None:
        self._turn_is_due = False
        if (flush := self._commit.take()) is not None:
            self._worker.run(flush.run, lambda: self._finished(flush))

    def _finished(self, flush: Flush) -> None:
        if flush is self._commit.in_flight:
            self._commit.finished(flush, int(self._clock() * 1000))
            self._turn()

    def stop(self) -> None:
        """Finish what is in flight and what waits for it, here and now."""
        self._worker.stop()
        while True:
            if self._commit.in_flight is not None:
                self._commit.finished(self._commit.in_flight, int(self._clock() * 1000))
            flush = self._commit.take()
            if flush is None:
                return
            flush.run()
