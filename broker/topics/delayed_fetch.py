"""Fetches that wait for records. Appends wake them; nothing is polled.

A fetch that finds fewer than min.bytes is noted in every partition that it reads. Each append there reduces the number
of bytes that the fetch still lacks. Once it lacks none, it reads again at the end of the event loop's turn, and is
answered if it finds enough. When max.wait is over, it is answered in any case.

Woken fetches wait for the end of the turn for two reasons: many appends then cost one read, and answering one client
from within another client's request cannot nest without end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kohort.broker.broker import Broker, Cancellable
    from kohort.broker.call import Call
    from kohort.broker.topics.catalog import Partition

WATCHERS = "fetches"  # in Partition.extra
PURGE_AT = 1000


class DelayedFetch:
    """One fetch that waits. `try_answer(final)` reads again; it answers, or returns how many bytes are missing."""

    __slots__ = ("_partitions", "_timer", "_try_answer", "call", "is_done", "missing_bytes")

    def __init__(
        self, call: Call, partitions: list[Partition], missing_bytes: int, try_answer: Callable[[bool], int]
    ) -> None:
        self.call = call
        self.missing_bytes = missing_bytes
        self.is_done = False
        self._partitions = partitions
        self._try_answer = try_answer
        self._timer: Cancellable | None = None

    def start(self, broker: Broker, wait_ms: int) -> None:
        for partition in self._partitions:
            partition.extra.setdefault(WATCHERS, {})[self] = None
        purgatory_of(broker).add(self)
        self._timer = broker.call_later(wait_ms / 1000, lambda: self._end(broker, answer=True))

    def look_again(self, broker: Broker) -> None:
        """Read again after an append or a change, and answer if there are enough bytes now."""
        if self.is_done:
            return
        if self.call.is_gone:
            self._end(broker, answer=False)
            return
        missing = self._try_answer(False)
        if missing > 0:
            self.missing_bytes = missing
        else:
            self._end(broker, answer=False)

    def _end(self, broker: Broker, *, answer: bool) -> None:
        if self.is_done:
            return
        self.is_done = True
        if self._timer is not None:
            self._timer.cancel()
        for partition in self._partitions:
            watchers = partition.extra[WATCHERS]
            watchers.pop(self, None)
            if not watchers:
                del partition.extra[WATCHERS]
        purgatory_of(broker).remove(self)
        if answer and not self.call.is_gone:
            self._try_answer(True)

    def drop(self, broker: Broker) -> None:
        self._end(broker, answer=False)


class Purgatory:
    """All fetches that wait, and the woken ones, which read again at the end of this turn."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._waiting: dict[DelayedFetch, None] = {}
        self._woken: dict[DelayedFetch, None] = {}
        self._purge_at = PURGE_AT

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, fetch: DelayedFetch) -> None:
        if len(self._waiting) >= self._purge_at:
            self._purge()
        self._waiting[fetch] = None

    def remove(self, fetch: DelayedFetch) -> None:
        self._waiting.pop(fetch, None)
        self._woken.pop(fetch, None)

    def wake(self, fetch: DelayedFetch) -> None:
        if not self._woken:
            self._broker.call_later(0, self._look_again)
        self._woken[fetch] = None

    def _look_again(self) -> None:
        woken, self._woken = self._woken, {}
        for fetch in woken:
            fetch.look_again(self._broker)

    def _purge(self) -> None:
        """Drop fetches whose clients hung up; connections do not do it. Done when the number of fetches has doubled."""
        for fetch in [each for each in self._waiting if each.call.is_gone]:
            fetch.drop(self._broker)
        self._purge_at = max(PURGE_AT, 2 * len(self._waiting))


def purgatory_of(broker: Broker) -> Purgatory:
    found: Purgatory | None = broker.extra.get("fetch_purgatory")
    if found is None:
        found = broker.extra["fetch_purgatory"] = Purgatory(broker)
    return found


def appended(broker: Broker, partition: Partition, size_bytes: int) -> None:
    """`size_bytes` were appended to the partition: wake the fetches that lack no bytes any more."""
    if (watchers := partition.extra.get(WATCHERS)) is not None:
        purgatory = purgatory_of(broker)
        for fetch in watchers:
            fetch.missing_bytes -= size_bytes
            if fetch.missing_bytes <= 0:
                purgatory.wake(fetch)


def changed(broker: Broker, partition: Partition) -> None:
    """The partition was deleted, or its start moved: wake the fetches that wait for it."""
    if (watchers := partition.extra.get(WATCHERS)) is not None:
        purgatory = purgatory_of(broker)
        for fetch in watchers:
            purgatory.wake(fetch)
