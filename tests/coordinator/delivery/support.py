"""A share partition with a log and a persister that tests can hold in their hands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kohort.coordinator.config import ShareGroupSettings
from kohort.coordinator.delivery.share_partition import SharePartition, Write
from kohort.coordinator.delivery.states import (
    ACCEPT,
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    Acknowledgement,
    Acquired,
    LogBatch,
    Refusal,
    StateBatch,
    Wish,
)

LOCK_MS = 30_000
LETTERS = {AVAILABLE: "a", ACQUIRED: "A", ACKNOWLEDGED: "+", ARCHIVED: "x"}


def log_of(*sizes: int, first: int = 0) -> list[LogBatch]:
    """Batches of a log with so many records each."""
    batches = []
    for size in sizes:
        batches.append(LogBatch(first, first + size - 1))
        first += size
    return batches


class Delivery:
    """Fetches of "m" find all batches of the log. Writes wait in `writes` until `persist` or `fail` is called."""

    def __init__(
        self, *sizes: int, start: int = 0, persisted: Sequence[StateBatch] = (), log: Sequence[LogBatch] | None = None,
        aborted: Sequence[LogBatch] = (), **settings: Any,
    ) -> None:  # fmt: skip
        self.settings = replace(ShareGroupSettings(), **settings)
        self.share = SharePartition(lambda: self.settings, start, persisted)
        self.log = log_of(*sizes) if log is None else list(log)
        self.aborted = aborted  # batches of the log whose transactions were aborted
        self.now = 0
        self.writes: list[Write] = []

    @property
    def start(self) -> int:
        return self.share.window.start

    @property
    def end(self) -> int:
        return self.share.window.end

    def fetch(
        self, max_records: int = 500, member: str = "m", *, batch_size: int = 500, strictly: bool = False,
        batches: int = 1_000,
    ) -> list[tuple[int, int, int]]:  # fmt: skip
        """What is acquired: (first offset, last offset, delivery count)."""
        offset = self.share.next_fetch_offset()
        found = [batch for batch in self.log if batch.last_offset >= offset][:batches]
        wish = Wish(member, max_records, batch_size, strictly)
        aborted = [batch for batch in found if batch in self.aborted]
        acquired: list[Acquired] = self.share.acquire(wish, offset, found, self.now, aborted)
        return [tuple(each) for each in acquired]  # type: ignore[misc]

    def tell(self, *ranges: tuple[int, int, int | Sequence[int]], member: str = "m") -> Refusal | None:
        """Acknowledge (first, last, type or types), and leave the write waiting."""
        told = [Acknowledgement(first, last, [kind] if isinstance(kind, int) else kind) for first, last, kind in ranges]
        found = self.share.acknowledge(member, told, self.now)
        if isinstance(found, Refusal):
            return found
        if found is not None:
            self.writes.append(found)
        return None

    def acknowledge(self, *ranges: tuple[int, int, int | Sequence[int]], member: str = "m") -> Refusal | None:
        """The same, and persist it."""
        refusal = self.tell(*ranges, member=member)
        self.persist()
        return refusal

    def accept(self, first: int, last: int, member: str = "m") -> None:
        assert self.acknowledge((first, last, ACCEPT), member=member) is None

    def release(self, member: str = "m") -> None:
        """Its session ends."""
        self.writes += self.share.release(member)

    def pass_time(self, ms: int = LOCK_MS) -> None:
        self.now += ms
        if (write := self.share.expire(self.now)) is not None:
            self.writes.append(write)

    def persist(self) -> list[tuple[int, int, int, int]]:
        """The state batches that were written."""
        return self._end(failed=False)

    def fail(self) -> list[tuple[int, int, int, int]]:
        return self._end(failed=True)

    def _end(self, *, failed: bool) -> list[tuple[int, int, int, int]]:
        writes, self.writes = self.writes, []
        for write in writes:
            self.share.written(write, self.now, failed=failed)
        return [tuple(batch) for write in writes for batch in write.batches]  # type: ignore[misc]

    @property
    def states(self) -> str:
        """The records in the window as letters: a available, A acquired, + acknowledged, x archived."""
        return "".join(LETTERS[run.state] * len(run) for run in self.share.window.runs())

    @property
    def counts(self) -> list[int]:
        """How often each record in the window was delivered."""
        return [run.delivery_count for run in self.share.window.runs() for _ in range(len(run))]
