"""Keeps looks at the broker and its restarts apart, because both come from any thread.

A look in progress is finished before the broker goes down, and a look that comes while it is down waits until it is up
again. So a test, or another thread of it, need not know that the broker is being restarted.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Turnstile:
    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._holder: int | None = None  # the thread that has closed it

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Go in; wait while it is closed. Who is in may go in again. So may the thread that has closed it."""
        me = threading.get_ident()
        with self._changed:
            self._changed.wait_for(lambda: self._holder in (None, me))
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Wait until nobody is in, and let nobody in."""
        me = threading.get_ident()
        with self._changed:
            self._changed.wait_for(lambda: self._holder is None and self._inside == 0)
            self._holder = me
        try:
            yield
        finally:
            with self._changed:
                self._holder = None
                self._changed.notify_all()
