"""Loads shards from their logs: in steps between requests, one shard after the other, and again if the disk fails.

Small logs are loaded at once when the broker starts. Later, and for large logs, a slice of LOAD_STEP_S is done in each
turn of the event loop, so that everybody else is served in between. The smallest log comes first. After a problem that
can pass, such as too many open files, a log is tried again, later each time. A damaged log has to be repaired.
"""

from __future__ import annotations

import gc
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from time import monotonic
from typing import TYPE_CHECKING, Generic

from kohort.broker.shard_log import NotUsableNow, Owned, ShardLog
from kohort.coordinator.shard import S, Shard, Status
from kohort.storage.errors import StorageError

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.clock import Clock
    from kohort.coordinator.runtime import Runtime

logger = logging.getLogger(__name__)

LOAD_AT_ONCE_BYTES = 2_000_000  # logs smaller than this together are loaded before the first client connects
LOAD_STEP_S = 0.01
FIRST_DELAY_S = 1.0
MAX_DELAY_S = 30.0


class Delays:
    """How long to wait before a shard is tried again: longer each time, until it works."""

    def __init__(self) -> None:
        self._delays: dict[int, float] = {}

    def next(self, partition: int) -> float:
        delay = self._delays.get(partition, FIRST_DELAY_S)
        self._delays[partition] = min(2 * delay, MAX_DELAY_S)
        return delay

    def works(self, partition: int) -> None:
        self._delays.pop(partition, None)

    def __bool__(self) -> bool:
        return bool(self._delays)


class Loading(Generic[S]):
    """A shard that is being loaded."""

    __slots__ = ("shard", "size_bytes", "steps")

    def __init__(self, shard: Shard[S], steps: Iterator[None], size_bytes: int) -> None:
        self.shard = shard
        self.steps = steps
        self.size_bytes = size_bytes


class ShardLoader(Generic[S]):
    def __init__(
        self, broker: Broker, clock: Clock, log: ShardLog, runtime: Runtime[S],
        loaded: Callable[[Shard[S]], None], after: Callable[[], None],
    ) -> None:  # fmt: skip
        """`loaded` is called with a shard that is served from now on, and `after` when others may have to know."""
        self._broker = broker
        self._clock = clock
        self._log = log
        self._runtime = runtime
        self._loaded = loaded
        self._after = after
        self._queue: deque[Loading[S]] = deque()  # the first one is in progress
        self._is_due = False  # the event loop is going to call `_slice`
        self.delays = Delays()

    def load(self, shards: Iterable[Shard[S]], *, may_wait: bool = False) -> None:
        """Begin now, and go on later if it takes long. `may_wait`: no client is served yet, so loading may block."""
        found = [loading for shard in shards if (loading := self._begin(shard)) is not None]
        found.sort(key=lambda loading: loading.size_bytes)
        self._queue.extend(found)
        if not self._is_due:
            at_once = may_wait and sum(loading.size_bytes for loading in found) <= LOAD_AT_ONCE_BYTES
            self._slice(None if at_once else monotonic() + LOAD_STEP_S)

    def load_later(self, shard: Shard[S]) -> None:
        def load() -> None:
            if not shard.is_abandoned:
                self.load([shard])

        self._broker.call_later(self.delays.next(shard.partition), load)

    def _begin(self, shard: Shard[S]) -> Loading[S] | None:
        """Take over the shard's log. None: another node owns it, or it cannot be read at the moment.

        A shard whose log is unreadable must not be served as an empty one: members of its groups would be told that
        nothing was ever committed, and would start over.
        """
        if self._log.owner(shard.partition) != self._broker.config.node_id:
            shard.status = Status.NOT_OWNED
            return None
        try:
            owned = self._log.own(shard.partition)
        except (NotUsableNow, StorageError, OSError) as problem:
            self._failed(shard, problem)
            return None
        shard.epoch = owned.epoch
        return Loading(shard, self._steps(shard, owned), owned.size_bytes)

    def _steps(self, shard: Shard[S], owned: Owned) -> Iterator[None]:
        yield from self._log.read(shard.partition, shard.load_chunk)
        shard.next_offset = owned.end_offset
        yield from self._runtime.loaded(shard, self._clock.steady_ms(), self._clock.now_ms())
        self._loaded(shard)

    def _slice(self, until: float | None) -> None:
        self._is_due = False
        while self._queue:
            loading = self._queue[0]
            problem = None
            try:
                for _ in () if loading.shard.is_abandoned else loading.steps:
                    if until is not None and monotonic() > until:
                        self._is_due = True
                        self._broker.call_soon(lambda: self._slice(monotonic() + LOAD_STEP_S))
                        return
            except Exception as caught:
                problem = caught
            self._queue.popleft()  # before the calls below, which may load other shards
            if loading.size_bytes > LOAD_AT_ONCE_BYTES and self._broker.owns_process:
                gc.freeze()  # offsets stay for long; the garbage collector takes 0.3 s to look at a million of them
            if problem is not None:
                self._failed(loading.shard, problem)
            self._after()

    def _failed(self, shard: Shard[S], problem: Exception) -> None:
        if not isinstance(problem, OSError | NotUsableNow):
            shard.fail(problem)
            return
        again = "%s-%d cannot be loaded at the moment, it is tried again: %s"
        logger.error(again, self._log.topic, shard.partition, problem)
        self.load_later(self._runtime.start_over(shard))
