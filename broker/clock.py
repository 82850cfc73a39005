"""What time it is: wall time for records, and a steady clock for everything that has a deadline.

A machine's wall clock is set now and then: by hand, by NTP after a start, when a suspended machine wakes up. Nobody's
session is over because of that, and no rebalance waits an hour longer: deadlines count the steady clock alone.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic_ns, time_ns


class Clock:
    __slots__ = ("_steady_ns", "_wall_ns")

    def __init__(self, wall_ns: Callable[[], int] = time_ns, steady_ns: Callable[[], int] = monotonic_ns) -> None:
        self._wall_ns = wall_ns
        self._steady_ns = steady_ns

    def now_ms(self) -> int:
        """Wall time, milliseconds since 1970."""
        return self._wall_ns() // 1_000_000

    def steady_ms(self) -> int:
        return self._steady_ns() // 1_000_000


CLOCK = Clock()  # of this process
