"""One descriptor in reserve, for what must be done even when the process may open no more files.

A folder is synced through a descriptor of its own. If none is free, the spare one is closed to make room.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Final

TOO_MANY_FILES: Final = frozenset({errno.EMFILE, errno.ENFILE})


class SpareDescriptor:
    def __init__(self) -> None:
        self._lock = Lock()
        self._spare = -1

    def set_aside(self) -> None:
        if self._spare < 0:
            with suppress(OSError):
                self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def release(self) -> None:
        if self._spare >= 0:
            os.close(self._spare)
            self._spare = -1

    @contextmanager
    def opened(self, path: str, flags: int) -> Iterator[int]:
        """A descriptor of the path during the block, in place of the spare one if no other is free. For any thread."""
        try:
            fd = os.open(path, flags)
        except OSError as problem:
            if problem.errno not in TOO_MANY_FILES:
                raise
            with self._lock:
                self.release()
                try:
                    with _closing(os.open(path, flags)) as fd:
                        yield fd
                finally:
                    self.set_aside()
            return
        with _closing(fd):
            yield fd


@contextmanager
def _closing(fd: int) -> Iterator[int]:
    try:
        yield fd
    finally:
        os.close(fd)
