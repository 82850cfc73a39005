"""The time for everything that has a deadline: wall time that does not jump.

A machine's wall clock is set now and then: by hand, by NTP after a start, when a suspended machine wakes up. That must
not end a session, or make a rebalance wait an hour longer. So this time advances with the steady clock. It follows a
step of the wall clock only in `catch_up`, whose caller moves all deadlines by the same amount.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic_ns, time_ns

LEAST_STEP_MS = 100  # smaller steps of the wall clock are ignored


class Clock:
    __slots__ = ("_steady_ns", "_wall_ns", "offset_ms")

    def __init__(self, wall_ns: Callable[[], int] = time_ns, steady_ns: Callable[[], int] = monotonic_ns) -> None:
        self._wall_ns = wall_ns
        self._steady_ns = steady_ns
        self.offset_ms = 0  # wall time minus steady time, at the last `catch_up`
        self.catch_up()

    def now_ms(self) -> int:
        return self._steady_ns() // 1_000_000 + self.offset_ms

    def catch_up(self) -> int:
        """Follow the wall clock if it was set. Returns by how many milliseconds this time jumped; mostly 0."""
        step = self._wall_ns() // 1_000_000 - self.now_ms()
        if abs(step) < LEAST_STEP_MS:
            return 0
        self.offset_ms += step
        return step


CLOCK = Clock()  # the clock of this process
