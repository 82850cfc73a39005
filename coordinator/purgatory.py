"""Where operations wait, each with a deadline: for other members to join, or for a member's next sign of life.

A shard has one heap of deadlines, in shard time (shard_clock.py). Watching again under the same key replaces the
operation. The old entry stays in the heap, and is ignored when its deadline comes. If very many entries are old, all of
them are dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Protocol

from kohort.coordinator.outcome import Outcome

Key = tuple[str, ...]

SPARE_ENTRIES = 1_000


class DelayedOperation(Protocol):
    def can_complete(self) -> bool:
        """Whether everything that the operation waits for has happened."""
        ...

    def complete(self, out: Outcome) -> None:
        """Everything that the operation waited for has happened."""
        ...

    def expire(self, out: Outcome) -> None:
        """The deadline has come first."""
        ...


class Purgatory:
    __slots__ = ("_heap", "_sequence", "_watched", "changed")

    def __init__(self) -> None:
        self._watched: dict[Key, tuple[int, DelayedOperation]] = {}
        self._heap: list[tuple[int, int, Key]] = []
        self._sequence = 0
        self.changed = False  # an operation was watched since the host last asked for the next deadline

    def __len__(self) -> int:
        return len(self._watched)

    def watch(self, key: Key, operation: DelayedOperation, deadline: int) -> None:
        self._sequence += 1
        self._watched[key] = (self._sequence, operation)
        self.changed = True
        heappush(self._heap, (deadline, self._sequence, key))
        if len(self._heap) > 2 * len(self._watched) + SPARE_ENTRIES:
            self._drop_stale()

    def _drop_stale(self) -> None:
        """Drop the entries of replaced and cancelled operations. Their deadlines can be 24 days away."""
        current = {sequence for sequence, _ in self._watched.values()}
        self._heap = [entry for entry in self._heap if entry[1] in current]
        heapify(self._heap)

    def cancel(self, key: Key) -> None:
        self._watched.pop(key, None)

    def is_watched(self, key: Key) -> bool:
        return key in self._watched

    def check(self, key: Key, out: Outcome) -> None:
        """Complete the operation under `key` if it can be."""
        found = self._watched.get(key)
        if found is not None and found[1].can_complete():
            del self._watched[key]
            found[1].complete(out)

    def next_deadline(self) -> int | None:
        heap = self._heap
        while heap:
            deadline, sequence, key = heap[0]
            found = self._watched.get(key)
            if found is not None and found[0] == sequence:
                return deadline
            heappop(heap)
        return None

    def deadlines(self) -> Iterator[tuple[int, Key]]:
        """Every deadline with its key, in no order. The test kit asks for it, to show what a test is waiting for."""
        for deadline, sequence, key in self._heap:
            found = self._watched.get(key)
            if found is not None and found[0] == sequence:
                yield deadline, key

    def expire(self, now: int) -> Outcome | None:
        """Let the next operation whose deadline has come expire. None: there is none left."""
        deadline = self.next_deadline()
        if deadline is None or deadline > now:
            return None
        _, _, key = heappop(self._heap)
        _, operation = self._watched.pop(key)
        out = Outcome()
        operation.expire(out)
        return out
