"""Work in slices on the event loop, one piece after the other, between everything else."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from time import monotonic_ns
from typing import Final, cast

SLICE_NS: Final = 4_000_000


class Work:
    def __init__(self, call_soon: Callable[[Callable[[], object]], object]) -> None:
        self._call_soon = call_soon
        self._waiting: deque[Iterator[None]] = deque()
        self._is_called = False

    def add(self, steps: Iterator[None]) -> None:
        self._waiting.append(steps)
        if not self._is_called:
            self._is_called = True
            self._call_soon(self._go_on)

    def _go_on(self) -> None:
        until = monotonic_ns() + SLICE_NS
        try:
            while self._waiting and monotonic_ns() < until:
                if next(self._waiting[0], _DONE) is _DONE:
                    self._waiting.popleft()
        except BaseException:
            self._waiting.popleft()  # the next piece must not suffer for a bug in this one
            raise
        finally:
            self._is_called = bool(self._waiting)
            if self._is_called:
                self._call_soon(self._go_on)


class _Done:
    pass


_DONE = cast("None", _Done())
