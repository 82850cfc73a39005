"""What time it is, for everything that has a deadline: wall time that does not jump.

A machine's clock is set now and then: by hand, by NTP after a start, when a suspended machine wakes up. Nobody's
session is over because of that, and no rebalance waits an hour longer. So time passes as the steady clock says, and a
step of the wall clock comes in at one moment only, `catch_up`, at which all deadlines are moved along with it.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic_ns, time_ns

LEAST_STEP_MS = 100  # less is not worth following


class Clock:
    __slots__ = ("_steady_ns", "_wall_ns", "offset_ms")

    def __init__(self, wall_ns: Callable[[], int] = time_ns, steady_ns: Callable[[], int] = monotonic_ns) -> None:
        self._wall_ns = wall_ns
        self._steady_ns = steady_ns
        self.offset_ms = 0  # of wall time against the steady clock, as of the last `catch_up`
        self.catch_up()

    def now_ms(self) -> int:
        return self._steady_ns() // 1_000_000 + self.offset_ms

    def catch_up(self) -> int:
        """By how much the time from now on is another than it was; mostly 0."""
        step = self._wall_ns() // 1_000_000 - self.now_ms()
        if abs(step) < LEAST_STEP_MS:
            return 0
        self.offset_ms += step
        return step


CLOCK = Clock()  # of this process
