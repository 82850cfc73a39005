"""What time it is: wall time for records, and a steady clock for everything that has a deadline.

A machine's wall clock is set now and then: by hand, by NTP after a start, when a suspended machine wakes up. That must
neither end a session nor make a rebalance wait for an hour, so deadlines count the steady clock alone.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic_ns, time_ns

NS_PER_MS = 1_000_000


class Clock:
    __slots__ = ("_steady_ns", "_wall_ns")

    def __init__(self, wall_ns: Callable[[], int] = time_ns, steady_ns: Callable[[], int] = monotonic_ns) -> None:
        self._wall_ns = wall_ns
        self._steady_ns = steady_ns

    def now_ms(self) -> int:
        """Wall time, milliseconds since 1970."""
        return self._wall_ns() // NS_PER_MS

    def steady_ms(self) -> int:
        return self._steady_ns() // NS_PER_MS


class Milliseconds:
    """Both clocks in milliseconds, computed once per millisecond: dividing two large numbers takes longer than the rest
    of what a request does with them.

    A caller reads the steady clock first, and calls `pass_on` if that has reached `ends_ns`. So the steady time is
    exact, and wall time is at most a millisecond old.
    """

    __slots__ = ("ends_ns", "now_ms", "steady_ms")

    def __init__(self) -> None:
        self.pass_on(monotonic_ns())

    def pass_on(self, steady_ns: int) -> None:
        """Compute both clocks anew: another millisecond has begun."""
        self.steady_ms = steady_ns // NS_PER_MS
        self.ends_ns = (self.steady_ms + 1) * NS_PER_MS
        self.now_ms = time_ns() // NS_PER_MS


CLOCK = Clock()  # the machine's clocks
MILLISECONDS = Milliseconds()  # shared by all connections of the process
