"""A machine on which the whole broker runs, without sockets, threads and real time.

Everything that a broker gets from its machine is simulated: the disk (disk.py), both clocks, the event loop, and the
threads that sync files. The world decides when the event loop has a turn, and when a thread does its next piece of
work. So a request may be in the middle of its steps, and a sync on its way, when anything else happens.

    machine = Machine(random, settings)
    machine.start()              the broker reads its folder
    machine.turn()               one turn of the event loop: what is due, and the next steps of requests
    machine.threads_work()       the next piece of work of some thread
    machine.pass_time(300)
    machine.kill()               the process is gone; what it wrote is still there
    machine.lose_power()         ...as far as it was synced; of the rest any part
"""

from __future__ import annotations

import heapq
import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from types import GeneratorType
from typing import Any

import kohort.broker.broker as broker_module
import kohort.broker.groups  # noqa: F401 (else the first request would import it in steps)
from kohort.broker import flusher, housekeeping, shard_loading, steps
from kohort.broker.broker import Broker
from kohort.broker.call import PARKED, Call
from kohort.broker.clock import NS_PER_MS, Clock
from kohort.broker.config import load_config
from kohort.broker.steps import Pause
from kohort.broker.topics import delayed_fetch
from kohort.protocol.api_keys import ApiKey
from tests.broker.broker_box import through_the_wire
from tests.coordinator.support import START
from tests.simulation.disk import Crash, SimulatedDisk
from tests.simulation.replacing import replaced

FOLDER = "data"
STEPS_IN_SLICE = 3

Work = Callable[[], object]


class Timer:
    def __init__(self, work: Work) -> None:
        self.work: Work | None = work

    def cancel(self) -> None:
        self.work = None


class SimulatedWorker:
    """A thread of the broker (broker/worker.py). The machine says when it does its next piece of work."""

    def __init__(self, name: str, post: Callable[[Work], object]) -> None:
        self.name = name
        self._post = post
        self.queue: deque[tuple[Work, Work]] = deque()
        machine: Any = getattr(post, "__self__")  # noqa: B009
        machine.workers.append(self)

    def run(self, work: Work, done: Work) -> None:
        self.queue.append((work, done))

    def work_once(self) -> None:
        work, done = self.queue.popleft()
        work()
        self._post(done)

    def stop(self) -> None:
        while self.queue:
            self.work_once()


class Machine:
    def __init__(self, random: Random, settings: dict[str, str]) -> None:
        self.random = random
        self._settings = [f"log.dirs={FOLDER}", *(f"{name}={value}" for name, value in settings.items())]
        self.disk = SimulatedDisk(random.getrandbits(64))
        self.steady_ms = 5_000_000
        self.wall_offset_ms = START - self.steady_ms
        self.broker: Broker | None = None
        self.workers: list[SimulatedWorker] = []
        self._ready: deque[Work] = deque()
        self._timers: list[tuple[int, int, Timer]] = []
        self._made = 0

    @property
    def now(self) -> int:
        return self.steady_ms + self.wall_offset_ms

    # --- start and end

    def start(self) -> Broker:
        """OSError: the disk failed meanwhile; start again."""
        assert self.broker is None
        self.disk.now = self.now
        clock = Clock(lambda: self.now * NS_PER_MS, lambda: self.steady_ms * NS_PER_MS)
        broker = Broker(load_config(overrides=self._settings), self.disk, clock, owns_process=False)
        broker.call_later = broker.call_later_by_clock = self._call_later
        broker.call_soon = self._call_soon
        broker.open(self.now)
        broker.start_work(self.post)
        self.broker = broker
        return broker

    def kill(self) -> None:
        self.disk = self.disk.after_kill()
        self._end()

    def lose_power(self) -> None:
        self.disk = self.disk.after_power_loss()
        self._end()

    def _end(self) -> None:
        self.broker = None
        self.workers = []
        self._ready.clear()
        self._timers.clear()

    # --- the event loop

    def _call_later(self, seconds: float, work: Work) -> Timer:
        timer = Timer(work)
        self._made += 1
        heapq.heappush(self._timers, (self.steady_ms + round(1000 * seconds), self._made, timer))
        return timer

    def _call_soon(self, work: Work) -> Timer:
        timer = Timer(work)
        self._ready.append(lambda: _ring(timer))
        return timer

    def post(self, work: Work) -> None:
        self._ready.append(work)

    def turn(self) -> bool:
        """What is due now. False: there was nothing."""
        while self._timers and self._timers[0][0] <= self.steady_ms:
            timer = heapq.heappop(self._timers)[2]
            self._ready.append(lambda timer=timer: _ring(timer))  # type: ignore[misc]
        count = len(self._ready)
        for _ in range(count):
            self._ready.popleft()()
        return count > 0

    def threads_work(self) -> bool:
        busy = [worker for worker in self.workers if worker.queue]
        if busy:
            self.random.choice(busy).work_once()
        return bool(busy)

    def pass_time(self, ms: int) -> None:
        """Each timer that comes due has its turn at its own time."""
        end = self.steady_ms + ms
        while self._timers and self._timers[0][0] <= end:
            self.steady_ms = max(self.steady_ms, self._timers[0][0])
            self.disk.now = self.now
            self.turn()
        self.steady_ms = end
        self.disk.now = self.now

    # --- requests

    def serve(self, connection: Any, api_key: int, version: int, body: bytes) -> None:
        """A request has arrived. `connection` is asked what a `Call` asks; `answered(response)` is called at last."""
        assert self.broker is not None
        route = self.broker.apis.route(api_key, version)
        call = Call(connection, route, connection.client_id)
        call.correlation_id, call.now, call.steady_ms = 1, self.now, self.steady_ms
        call.is_long = connection.is_long
        response: Any = route.handler(self.broker, route.decode(body, 0), call)
        if isinstance(response, GeneratorType):
            self._go_on(response, connection, route)
        elif response is not PARKED:
            connection.answered(through_the_wire(route, response))

    def _go_on(self, handler: Any, connection: Any, route: Any) -> None:
        """Some steps of a request; the others in later turns. What nobody waits for is dropped (broker/steps.py)."""
        if connection.is_closed and route.api_key != ApiKey.PRODUCE:
            handler.close()
            return
        try:
            for _ in range(self.random.choice((1, 2, 5, 1_000))):
                waits_for = next(handler)
                if isinstance(waits_for, Pause):
                    waits_for.then(lambda: self.post(lambda: self._go_on(handler, connection, route)))
                    return
                if waits_for:
                    break
        except StopIteration as end:
            if end.value is not PARKED:
                connection.answered(through_the_wire(route, end.value))
            return
        self.post(lambda: self._go_on(handler, connection, route))


def _ring(timer: Timer) -> None:
    if timer.work is not None:
        timer.work()


# --- what is not simulated by an argument


class BugsInTheLog(logging.Handler):
    """The broker goes on after an exception that nobody expected, and says so in its log."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)

    def emit(self, record: logging.LogRecord) -> None:
        if "this is a bug" in record.getMessage():
            problem = record.exc_info[1] if record.exc_info else None
            raise AssertionError(f"the broker says: {record.getMessage()}: {problem!r}") from problem

    def handle(self, record: logging.LogRecord) -> bool:
        self.emit(record)
        return True


@contextmanager
def simulated_threads() -> Iterator[None]:
    """Brokers have simulated threads, and long work gives way after a few steps, whatever time these took."""
    count = 0

    def ticks_ns() -> int:
        nonlocal count
        count += 1
        return count * steps.SLICE_NS // STEPS_IN_SLICE

    logger = logging.getLogger("kohort")
    before = logger.handlers[:], logger.propagate, logger.level
    logger.handlers, logger.propagate = [BugsInTheLog()], False
    logger.setLevel(logging.ERROR)
    try:
        with replaced(
            (flusher, "Worker", SimulatedWorker), (broker_module, "Worker", SimulatedWorker),
            (housekeeping, "Worker", SimulatedWorker), (steps, "monotonic_ns", ticks_ns),
            (delayed_fetch, "monotonic_ns", ticks_ns), (shard_loading, "monotonic", lambda: ticks_ns() / 1e9),
        ):  # fmt: skip
            yield
    finally:
        logger.handlers, logger.propagate = before[:2]
        logger.setLevel(before[2])


__all__ = ["FOLDER", "Crash", "Machine", "simulated_threads"]
