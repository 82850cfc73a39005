"""Fetches that wait for records. Appends wake them; nothing is polled.

A fetch that finds fewer than min.bytes is noted in every partition that it reads. Each append there reduces the number
of bytes that the fetch still lacks. Once it lacks none, it reads again at the end of the event loop's turn, and is
answered if it finds enough. When max.wait is over, it is answered in any case.

Woken fetches wait for the end of the turn for two reasons: many appends then cost one read, and answering one client
from within another client's request cannot nest without end.

A fetch with isolation.level=read_committed waits for the last stable offset to move. While a transaction is open, it
does not heed appends; the marker that ends the oldest transaction wakes it.

A waiting fetch is dropped when its connection closes. Large fetches share an allowance of partitions: beyond it they do
not wait.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, Final, Protocol

from kohort.broker.topics.producer_state import first_unstable_offset

if TYPE_CHECKING:
    from kohort.broker.broker import Broker, Cancellable
    from kohort.broker.call import Call
    from kohort.broker.topics.catalog import Partition

logger = logging.getLogger(__name__)

WATCHERS: Final = "fetches"  # in Partition.extra
KEPT: Final = "fetch"
LARGE: Final = 1_000  # partitions; few consumers fetch more from one broker
MAX_PARTITIONS_IN_LARGE: Final = 100_000  # of all large fetches that wait, together; about 40 MB
FORGOTTEN_PER_TURN: Final = 5_000  # partitions
TURN_NS: Final = 5_000_000


class Watched(Protocol):
    """What a fetch waits for: a partition, or a share partition."""

    extra: dict[str, Any]


class DelayedFetch:
    """One fetch that waits. `try_answer(final)` reads again; it answers, or returns how many bytes are missing."""

    __slots__ = (
        "_broker",
        "_partitions",
        "_timer",
        "_try_answer",
        "call",
        "is_done",
        "is_waiting",
        "missing_bytes",
        "reads_committed",
        "taken",
    )

    def __init__(
        self,
        broker: Broker,
        call: Call,
        missing_bytes: int,
        try_answer: Callable[[bool], int],
        *,
        reads_committed: bool = False,
    ) -> None:
        self.call = call
        self.reads_committed = reads_committed
        self.missing_bytes = missing_bytes
        self.is_waiting = self.is_done = False
        self.taken = 0  # of the allowance for large fetches
        self._broker = broker
        self._partitions: list[Watched] = []
        self._try_answer = try_answer
        self._timer: Cancellable | None = None

    def start(self, partitions: Sequence[Watched], wait_ms: int) -> None:
        self.watch(partitions)
        self.wait(wait_ms)

    def watch(self, partitions: Sequence[Watched]) -> None:
        """Notice appends to these partitions from now on."""
        for partition in partitions:
            partition.extra.setdefault(WATCHERS, {})[self] = None
        self._partitions += partitions

    @property
    def is_watching(self) -> bool:
        return bool(self._partitions)

    def wait(self, wait_ms: int, partition_count: int = 0) -> None:
        """Answer when enough was appended to what is watched, or after that time."""
        self.is_waiting = True
        self.taken = partition_count if partition_count > LARGE else 0
        purgatory = purgatory_of(self._broker)
        purgatory.add(self)
        self.call.keep(KEPT, self.drop)
        self._timer = self._broker.call_later(wait_ms / 1000, self._time_is_up)
        if self.missing_bytes <= 0:  # appends came while a large fetch was still going through its partitions
            purgatory.wake(self)

    def look_again(self) -> None:
        """Read again after an append or a change, and answer if there are enough bytes now."""
        if self.is_done:
            return
        if self.call.is_gone:
            self.drop()
            return
        missing = self._answer(final=False)
        if missing > 0:
            self.missing_bytes = missing
        else:
            self.drop()

    def _time_is_up(self) -> None:
        if not self.is_done:
            self._end()
            if not self.call.is_gone:
                self._answer(final=True)

    def _answer(self, *, final: bool) -> int:
        try:
            return self._try_answer(final)
        except Exception as problem:  # other woken fetches must still be answered
            self.call.fail(problem)
            return 0

    def drop(self) -> None:
        """The fetch was answered, or its client hung up."""
        if not self.is_done:
            self._end()

    def _end(self) -> None:
        self.is_done = True
        if self._timer is not None:
            self._timer.cancel()
        if self.is_waiting:
            purgatory_of(self._broker).remove(self)
            self.call.forget(KEPT)
        self._forget_partitions()

    def _forget_partitions(self) -> None:
        """Stop watching: many partitions in several turns."""
        some, self._partitions = self._partitions[:FORGOTTEN_PER_TURN], self._partitions[FORGOTTEN_PER_TURN:]
        for partition in some:
            watchers = partition.extra[WATCHERS]
            watchers.pop(self, None)
            if not watchers:
                del partition.extra[WATCHERS]
        if self._partitions:
            self._broker.call_later(0, self._forget_partitions)


class Purgatory:
    """All fetches that wait, and the woken ones, which read again at the end of this turn."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._waiting: dict[DelayedFetch, None] = {}
        self._woken: dict[DelayedFetch, None] = {}
        self._is_called = False  # the event loop is going to call `_look_again`
        self.taken = 0  # partitions of large fetches

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, fetch: DelayedFetch) -> None:
        self._waiting[fetch] = None
        self.taken += fetch.taken

    def remove(self, fetch: DelayedFetch) -> None:
        del self._waiting[fetch]
        self._woken.pop(fetch, None)
        self.taken -= fetch.taken

    def wake(self, fetch: DelayedFetch) -> None:
        if fetch.is_waiting and not fetch.is_done:
            self._woken[fetch] = None
            if not self._is_called:
                self._is_called = True
                self._broker.call_later(0, self._look_again)

    def _look_again(self) -> None:
        """Let the woken fetches read again. When that takes long, the others have their turn in between."""
        until = monotonic_ns() + TURN_NS
        for fetch in list(self._woken):
            if monotonic_ns() > until:
                break
            self._woken.pop(fetch, None)
            fetch.look_again()
        self._is_called = bool(self._woken)
        if self._is_called:
            self._broker.call_later(0, self._look_again)


def may_wait(broker: Broker, partition_count: int) -> bool:
    """Whether a fetch of so many partitions may wait. One that may not is answered at once."""
    return partition_count <= LARGE or purgatory_of(broker).taken + partition_count <= MAX_PARTITIONS_IN_LARGE


def purgatory_of(broker: Broker) -> Purgatory:
    found: Purgatory | None = broker.extra.get("fetch_purgatory")
    if found is None:
        found = broker.extra["fetch_purgatory"] = Purgatory(broker)
    return found


def appended(broker: Broker, partition: Partition, size_bytes: int) -> None:
    """`size_bytes` were appended to the partition: wake the fetches that lack no bytes any more."""
    if (watchers := partition.extra.get(WATCHERS)) is not None:
        purgatory = purgatory_of(broker)
        has_open_transaction = first_unstable_offset(partition) is not None
        for fetch in watchers:
            if has_open_transaction and fetch.reads_committed:
                continue  # what was appended is not stable
            fetch.missing_bytes -= size_bytes
            if fetch.missing_bytes <= 0:
                purgatory.wake(fetch)


def stable_offset_moved(broker: Broker, partition: Partition) -> None:
    """The oldest open transaction has ended: wake the fetches that read committed records."""
    if (watchers := partition.extra.get(WATCHERS)) is not None:
        purgatory = purgatory_of(broker)
        for fetch in watchers:
            if fetch.reads_committed:
                fetch.missing_bytes = 0
                purgatory.wake(fetch)


def changed(broker: Broker, partition: Watched) -> None:
    """The partition was deleted, or its start moved, or records became available: wake the fetches that wait for it."""
    if (watchers := partition.extra.get(WATCHERS)) is not None:
        purgatory = purgatory_of(broker)
        for fetch in watchers:
            fetch.missing_bytes = 0
            purgatory.wake(fetch)
