"""A thread for what blocks: syncing files, compacting logs. Work goes in, and the event loop hears when it is done."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Thread

logger = logging.getLogger(__name__)

Work = Callable[[], object]
Post = Callable[[Work], object]  # loop.call_soon_threadsafe

SWITCH_INTERVAL_S = 0.000_5  # how long the event loop may have to wait for its turn; Python's default is 5 ms


@contextmanager
def quick_switches(wanted: bool) -> Iterator[None]:
    """Let a thread that computes give way to the event loop sooner than usual.

    The interval holds for the whole process. So it is not `wanted` inside a user's test, whose process it is.
    """
    if not wanted:
        yield
        return
    usual_s = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        yield
    finally:
        sys.setswitchinterval(usual_s)


class Worker:
    """One thread, started with the first piece of work."""

    def __init__(self, name: str, post: Post) -> None:
        self._name = name
        self._post = post
        self._queue: SimpleQueue[tuple[Work, Work] | None] = SimpleQueue()
        self._thread: Thread | None = None

    def run(self, work: Work, done: Work) -> None:
        """Do `work` in the thread, one piece after the other; then call `done` on the event loop."""
        if self._thread is None:
            self._thread = Thread(target=self._serve, name=self._name, daemon=True)
            self._thread.start()
        self._queue.put((work, done))

    def stop(self) -> None:
        """Wait until everything that was asked for is done. `done` of the last pieces may still be on its way."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    def _serve(self) -> None:
        while (item := self._queue.get()) is not None:
            work, done = item
            try:
                work()
            except Exception:
                logger.exception("%s failed; this is a bug", self._name)
            try:
                self._post(done)
            except RuntimeError:  # the event loop is closed already
                return
            del item, work, done  # keep no reference while the thread waits
