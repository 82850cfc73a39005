"""Time that a test can advance and freeze.

The broker's clock shows real time plus what the test has added. Deadlines of groups, and what is done at intervals,
follow it; sockets, and the timers of clients, stay real.

`advance` goes from deadline to deadline. At each of them, members that are alive (liveness.py) have just been heard
from; other members expire as they would after that time. Before the deadline of a rebalance passes, members that
are alive get some real time to do their part. Work that is done at intervals, such as retention, is done at most once
for each step.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from time import monotonic_ns, time_ns
from typing import TYPE_CHECKING

from kohort.broker.clock import Clock as BrokerClock
from kohort.testing.off_loop import off_loop

if TYPE_CHECKING:
    from kohort.testing.host import Host

ADVANCE_TIMEOUT_S = 120.0


class Timer:
    """A call that is due at a time of the clock."""

    __slots__ = ("due_ns", "work")

    def __init__(self, due_ns: int, work: Callable[[], object]) -> None:
        self.due_ns = due_ns
        self.work: Callable[[], object] | None = work

    def cancel(self) -> None:
        self.work = None


class TestTime(BrokerClock):
    """The clock that the broker reads, and its timers. It belongs to the broker's event loop."""

    __test__ = False  # tells pytest that this is no test
    __slots__ = ("_added_ns", "_alarm", "_frozen_at_ns", "_heap", "_loop", "_numbers")

    def __init__(self) -> None:
        super().__init__(lambda: time_ns() + self.shift_ns(), lambda: self.steady_ns())
        self._added_ns = 0
        self._frozen_at_ns: int | None = None  # on the steady clock
        self._heap: list[tuple[int, int, Timer]] = []
        self._numbers = count()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._alarm: asyncio.TimerHandle | None = None

    def steady_ns(self) -> int:
        return monotonic_ns() + self._added_ns if self._frozen_at_ns is None else self._frozen_at_ns

    def shift_ns(self) -> int:
        """How far the clock is ahead of real time, or behind."""
        return self.steady_ns() - monotonic_ns()

    # --- timers

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """A broker starts on this loop. The timers of the one before it are gone."""
        self._heap.clear()
        self._loop = loop
        self._alarm = None

    def call_later(self, delay_s: float, work: Callable[[], object]) -> Timer:
        timer = Timer(self.steady_ns() + round(delay_s * 1e9), work)
        heapq.heappush(self._heap, (timer.due_ns, next(self._numbers), timer))
        self._set_alarm()
        return timer

    def next_due_ns(self) -> int | None:
        heap = self._heap
        while heap and heap[0][2].work is None:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def run_due(self) -> None:
        """Call what is due by now: each timer once, and none that is set meanwhile."""
        now_ns = self.steady_ns()
        due = []
        while (next_ns := self.next_due_ns()) is not None and next_ns <= now_ns:
            due.append(heapq.heappop(self._heap)[2])
        for timer in due:
            work, timer.work = timer.work, None
            if work is not None:
                work()
        self._set_alarm()

    def _set_alarm(self) -> None:
        """Wake up when the next timer is due in real time."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        due_ns = self.next_due_ns()
        if due_ns is not None and self._frozen_at_ns is None and self._loop is not None:
            delay_s = max(0, due_ns - self.steady_ns()) / 1e9
            self._alarm = self._loop.call_later(delay_s, self.run_due)

    # --- what a test does

    def move_to(self, steady_ns: int) -> None:
        """Let the steady clock show this time, which is not in the past."""
        if self._frozen_at_ns is not None:
            self._frozen_at_ns = max(steady_ns, self._frozen_at_ns)
        else:
            self._added_ns += max(0, steady_ns - self.steady_ns())
        self._set_alarm()

    @property
    def is_frozen(self) -> bool:
        return self._frozen_at_ns is not None

    def freeze(self) -> None:
        if self._frozen_at_ns is None:
            self._frozen_at_ns = self.steady_ns()
            self._set_alarm()

    def resume(self) -> None:
        """Go on from the time at which the clock was frozen."""
        if self._frozen_at_ns is not None:
            self._added_ns = self._frozen_at_ns - monotonic_ns()
            self._frozen_at_ns = None
            self._set_alarm()


class Clock:
    """`kafka.clock`: what a test sees of the broker's time."""

    def __init__(self, host: Host) -> None:
        self._host = host

    @property
    def now(self) -> datetime:
        """What time it is for the broker."""
        return datetime.fromtimestamp(self._host.time.now_ms() / 1000, UTC)

    def advance(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0, milliseconds: float = 0
    ) -> None:
        """Let so much time pass for the broker. Members that are alive stay; the others expire as they would.

        Clients do not notice: their own timers stay real.
        """
        span = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds)
        if span < timedelta(0):
            raise ValueError("time does not go back")
        self._host.run_async(lambda: self._host.advance(span // timedelta(microseconds=1) * 1000), ADVANCE_TIMEOUT_S)

    async def advance_async(self, **span: float) -> None:
        """`advance` for a test whose clients run on the event loop of this thread."""
        await off_loop(lambda: self.advance(**span))

    def freeze(self) -> None:
        """Stop the broker's clock. `advance` still moves it; `resume` lets it run on."""
        self._host.run(self._host.time.freeze)

    def resume(self) -> None:
        self._host.run(self._host.time.resume)
