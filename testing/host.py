"""The broker's own thread and event loop, and the ways in from a test's thread.

A test's thread never touches the broker: `run` and `run_async` call something on the broker's loop and give back what
it returns. A stop, a restart and a crash end the loop and its thread; a restart begins with new ones, on the same port
and with the same disk.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import AbstractContextManager, suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from kohort.broker.api_table import HANDLERS
from kohort.broker.broker import Broker
from kohort.broker.coordinator_host import CoordinatorHost
from kohort.broker.rebalances import Rebalances
from kohort.broker.server import Server
from kohort.broker.share.state_host import ShareStateHost
from kohort.broker.transactions.host import TransactionHost
from kohort.coordinator.events import News
from kohort.storage.disk import Disk
from kohort.testing.clock import TestTime
from kohort.testing.disk import FaultyDisk
from kohort.testing.liveness import Liveness
from kohort.testing.turnstile import Turnstile
from kohort.testing.watch import Watch, WatchedApis, WatchedConnection

if TYPE_CHECKING:
    from kohort.broker.call import Call
    from kohort.broker.config import Config

Result = TypeVar("Result")

START_TIMEOUT_S = 60.0
LOOK_TIMEOUT_S = 60.0
LAST_TURNS = 1_000  # of the event loop at a stop, for connections to close


class NotRunning(RuntimeError):
    """The broker is stopped."""


class WatchedRebalances(Rebalances):
    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch

    def tell(self, event: News) -> None:
        super().tell(event)
        self._watch.rebalanced(event)


class WatchedCoordinator(CoordinatorHost):
    """Reports each change, so that a test can wait for one."""

    def __init__(self, broker: Broker, watch: Watch) -> None:
        super().__init__(broker, broker.clock)
        self._watch = watch
        self.rebalances = WatchedRebalances(watch)

    def _after(self, gathers: bool = False) -> None:
        super()._after(gathers)
        self._watch.on_change()

    def _time_is_up(self) -> None:
        """The clock of a test may jump: that does not mean that the process stood still."""
        self._expire()

    def expire_now(self) -> None:
        """Expire operations whose deadline has come by the clock."""
        if self._timer is not None:
            self._timer.cancel()
        self._expire()


class WatchedShareState(ShareStateHost):
    """Reports each change, as WatchedCoordinator does."""

    def __init__(self, broker: Broker, watch: Watch) -> None:
        self._watch = watch
        super().__init__(broker, broker.clock)

    def _after(self, gathers: bool = False) -> None:
        super()._after(gathers)
        self._watch.on_change()


class WatchedTransactions(TransactionHost):
    """Reports each change, as WatchedCoordinator does."""

    def __init__(self, broker: Broker, watch: Watch) -> None:
        self._watch = watch
        super().__init__(broker, broker.clock)

    def _after(self, gathers: bool = False) -> None:
        super()._after(gathers)
        self._watch.on_change()


class WatchedBroker(Broker):
    coordinator: WatchedCoordinator

    def __init__(self, config: Config, disk: Disk, time: TestTime, watch: Watch) -> None:
        super().__init__(config, disk, time, WatchedApis(watch, HANDLERS), owns_process=False)
        self._watch = watch

    def make_coordinator(self) -> WatchedCoordinator:
        return WatchedCoordinator(self, self._watch)

    @cached_property
    def share_coordinator(self) -> ShareStateHost:
        made = WatchedShareState(self, self._watch)
        made.start()
        return made

    @cached_property
    def transactions(self) -> TransactionHost:
        made = WatchedTransactions(self, self._watch)
        made.start()
        return made


class QuietServer(Server):
    def measure_step(self, call: Call, took_ns: int) -> None:
        """Steps that take long are no news here: the process has a test to run, too."""


class Host:
    def __init__(self, config: Config, disk: Disk, max_fetch_wait_ms: int) -> None:
        self.config = config
        self.disk = FaultyDisk(disk)
        self.time = TestTime()
        self.watch = Watch(self.time, max_fetch_wait_ms)
        self.watch.on_change = self._changed
        self.liveness = Liveness(self)
        self.watch.on_heard = self.liveness.heard
        self.server: Server
        self.broker: WatchedBroker
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._turnstile = Turnstile()
        self._waiters: list[Waiter] = []
        self._looks_again = False

    # --- life

    @property
    def is_running(self) -> bool:
        return self._loop is not None

    def start(self) -> None:
        """Returns when clients can connect. Raises what a broker that cannot start raises."""
        with self._turnstile.closed():
            self._start_thread()

    def _start_thread(self) -> None:
        started: Future[None] = Future()
        self._looks_again = False
        self._thread = threading.Thread(target=self._serve, args=(started,), name="kohort", daemon=True)
        self._thread.start()
        try:
            started.result(START_TIMEOUT_S)
        except BaseException:
            self._thread.join()
            self._thread = None
            raise
        self.run(self._look_again)

    def _serve(self, started: Future[None]) -> None:
        loop = _new_event_loop()
        asyncio.set_event_loop(loop)  # of this thread alone
        try:
            self.time.start(loop)
            try:
                loop.run_until_complete(self._start())
            except BaseException as problem:
                started.set_exception(problem)
                return
            self._loop = loop
            started.set_result(None)
            loop.run_forever()
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            asyncio.set_event_loop(None)
            loop.close()

    async def _start(self) -> None:
        self.broker = WatchedBroker(self.config, self.disk, self.time, self.watch)
        make_connection = partial(WatchedConnection, watch=self.watch)
        self.server = QuietServer(self.broker, make_connection, self.time.call_later)
        await self.server.start()

    @property
    def port(self) -> int:
        return self.server.addresses[0][1]

    def stop(self) -> None:
        """Stop in good order. Whoever waits for something gives up."""
        with self._turnstile.closed():
            if self._loop is not None:
                self.run(self._give_up_waiting)
            self._end(self._stop)

    def restart(self) -> None:
        """Stop in good order, and start again. Whoever waits for something waits on."""
        with self._turnstile.closed():
            self._need_loop()
            self._end(self._stop)
            self._start_thread()

    def crash(self, meanwhile: Callable[[], object]) -> None:
        """Stop at once, without writing anything more, and start again."""
        with self._turnstile.closed():
            self._need_loop()
            self._end(self._abandon)
            meanwhile()
            self._start_thread()

    def _end(self, way: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if self._loop is None or self._thread is None:
            return
        loop, thread = self._loop, self._thread
        try:
            self.run_async(way, START_TIMEOUT_S)
        finally:
            self._loop = self._thread = None
            loop.call_soon_threadsafe(loop.stop)
            thread.join()

    async def _stop(self) -> None:
        await self.server.stop()
        await self._connections_closed()

    async def _abandon(self) -> None:
        await self.server.abandon()
        await self._connections_closed()

    async def _connections_closed(self) -> None:
        for turn in range(LAST_TURNS):
            if not self.server.connection_count:
                return
            if turn == LAST_TURNS // 10:
                self.server.drop_connections()  # a client does not read its last answers
            await asyncio.sleep(0)

    # --- ways in

    def run(self, work: Callable[[], Result]) -> Result:
        """Call `work` on the broker's loop."""

        async def call() -> Result:
            return work()

        return self.run_async(call, LOOK_TIMEOUT_S)

    def run_async(self, work: Callable[[], Coroutine[Any, Any, Result]], timeout_s: float) -> Result:
        with self._turnstile.inside():
            loop = self._need_loop()
            return asyncio.run_coroutine_threadsafe(work(), loop).result(timeout_s)

    def stays_up(self) -> AbstractContextManager[None]:
        """Meanwhile the broker is not restarted."""
        return self._turnstile.inside()

    def _need_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            raise NotRunning("the broker is not running: use it inside `with Broker() as kafka:`")
        return self._loop

    # --- waiting

    def wait_for(self, look: Callable[[], bool], timeout_s: float) -> bool:
        """Call `look` on the broker's loop after each change, until it returns True. False: the time is up."""
        waiter = Waiter(look)
        self.run(lambda: self._begin_to_wait(waiter))
        try:
            return waiter.done.wait(timeout_s) and waiter.is_true
        finally:
            with suppress(NotRunning):
                self.run(lambda: self._waiters.remove(waiter) if waiter in self._waiters else None)
            if waiter.problem is not None:
                raise waiter.problem

    def _begin_to_wait(self, waiter: Waiter) -> None:
        self._waiters.append(waiter)
        self._look_again()

    def _changed(self) -> None:
        if self._waiters and not self._looks_again and self._loop is not None:
            self._looks_again = True
            self._loop.call_soon(self._look_again)

    def changed_elsewhere(self) -> None:
        """As `_changed`, from any thread."""
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # the loop is closed: the broker stops
                loop.call_soon_threadsafe(self._changed)

    def _look_again(self) -> None:
        self._looks_again = False
        for waiter in list(self._waiters):
            if waiter.looks():
                self._waiters.remove(waiter)

    def _give_up_waiting(self) -> None:
        for waiter in self._waiters:
            waiter.done.set()
        self._waiters.clear()

    # --- time

    async def advance(self, span_ns: int) -> None:
        await self.liveness.advance(self.time.steady_ns() + span_ns)


class Waiter:
    __slots__ = ("done", "is_true", "look", "problem")

    def __init__(self, look: Callable[[], bool]) -> None:
        self.look = look
        self.done = threading.Event()
        self.is_true = False
        self.problem: Exception | None = None

    def looks(self) -> bool:
        """Look. True: there is nothing more to wait for, because `look` returned True or raised."""
        try:
            self.is_true = self.look()
        except Exception as problem:
            self.problem = problem
        if self.is_true or self.problem is not None:
            self.done.set()
            return True
        return False


def _new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's, if it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
