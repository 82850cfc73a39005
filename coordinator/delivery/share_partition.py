"""A share partition: what its leader keeps in memory, and every change of it. See the package for how it works."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kohort.coordinator.config import ShareGroupSettings
from kohort.coordinator.delivery.acknowledge import acknowledge, append_state, release, take_back
from kohort.coordinator.delivery.acquire import Acquisition
from kohort.coordinator.delivery.runs import Transition
from kohort.coordinator.delivery.states import (
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    RUNS_AT_ONCE,
    Acknowledgement,
    Acquired,
    Counts,
    LogBatch,
    Refusal,
    StateBatch,
    Wish,
)
from kohort.coordinator.delivery.window import Window


class Write:
    """What has to be persisted. The host does it, and calls `SharePartition.written` with the result."""

    __slots__ = ("batches", "complete_count", "members", "start_offset", "transition")

    def __init__(self, window: Window, batches: Sequence[StateBatch], transition: Transition | None) -> None:
        self.batches = batches
        self.start_offset = window.start
        self.complete_count = window.complete_count
        self.transition = transition  # None: the change is final, even if it cannot be persisted
        self.members: Sequence[str] = ()  # whose locks have expired


class SharePartition:
    __slots__ = ("_settings", "counts", "window")

    def __init__(
        self, settings: Callable[[], ShareGroupSettings], start_offset: int, persisted: Sequence[StateBatch] = ()
    ) -> None:
        """`persisted`: what the persister has from `start_offset` on. BrokenState: no leader can have written that."""
        self._settings = settings  # may change at any time
        self.window = Window(start_offset, persisted)
        self.counts = Counts()

    # --- fetching

    def next_fetch_offset(self) -> int:
        return self.window.next_fetch_offset()

    def can_acquire(self) -> bool:
        """Whether a fetch may find anything: something is available, or there is room for more records in flight."""
        window, most = self.window, self._settings().partition_max_record_locks
        if window.next_fetch_offset() != window.end + 1 or window.in_flight_count < most:
            return True
        makes_room = window.close_gap() if window.has_gap else window.move_start()  # past records that were aborted
        return makes_room and window.in_flight_count < most

    def acquire(
        self, wish: Wish, fetch_offset: int, batches: Sequence[LogBatch], now: int, aborted: Sequence[LogBatch] = ()
    ) -> list[Acquired]:
        """Acquire records for a member. `batches`: what the log has from `fetch_offset` on, whole batches only.

        `aborted`: those of them whose transaction was aborted. Nobody gets their records, if the group reads what is
        committed.
        """
        acquisition = Acquisition(self.window, self._settings(), wish, batches, now)
        acquisition.acquire(fetch_offset)
        acquired = self._without(acquisition.acquired, aborted) if aborted else acquisition.acquired
        self.counts.acquired += sum(each.last_offset - each.first_offset + 1 for each in acquired)
        self.counts.archived += acquisition.vanished
        if batches and fetch_offset < batches[0].base_offset:  # something has vanished from the log
            self.window.move_start()  # or a window full of records that are archived would stay full
        return acquired

    def _without(self, acquired: Sequence[Acquired], aborted: Sequence[LogBatch]) -> list[Acquired]:
        """What is left of the acquired records without the aborted ones, which are final now. Both are in order."""
        left: list[Acquired] = []
        rest = list(reversed(acquired))
        self.window.archive_aborted(aborted)
        for batch in aborted:
            while rest and rest[-1].last_offset < batch.base_offset:
                left.append(rest.pop())
            while rest and rest[-1].first_offset <= batch.last_offset:
                cut = rest.pop()
                if cut.first_offset < batch.base_offset:
                    left.append(cut._replace(last_offset=batch.base_offset - 1))
                if cut.last_offset > batch.last_offset:
                    rest.append(cut._replace(first_offset=batch.last_offset + 1))
        return left + rest[::-1]

    def log_starts_at(self, offset: int) -> bool:
        """Older records were removed from the log. True: the start offset has moved."""
        moves = offset > self.window.start
        self.counts.archived += self.window.move_start_to(offset)
        return moves

    # --- acknowledging

    def acknowledge(
        self, member_id: str, acknowledgements: Sequence[Acknowledgement], now: int
    ) -> Write | Refusal | None:
        """None: there is nothing to persist."""
        changes = acknowledge(self.window, self._settings(), member_id, acknowledgements, now)
        if isinstance(changes, Refusal):
            return changes
        return self._write(changes.batches, changes.transition)

    def release(self, member_id: str) -> Iterator[Write]:
        """The member's session ended. Something else may happen between two of the writes."""
        first: int | None = self.window.batches[0].first if self.window.batches else None
        last = self.window.end  # what the member acquires behind it is of a new session
        while first is not None:
            changes, first = release(self.window, self._settings(), member_id, first, last)
            if changes.batches:
                yield Write(self.window, changes.batches, changes.transition)

    def _write(self, batches: list[StateBatch], transition: Transition | None) -> Write | None:
        return Write(self.window, batches, transition) if batches else None

    def written(self, write: Write, now: int, *, failed: bool = False) -> bool:
        """The change is persisted, or could not be. True: a fetch that found nothing to acquire may find something."""
        window, transition = self.window, write.transition
        if transition is None:
            return window.move_start()
        if failed:
            take_back(window, transition, now)
            return window.may_have_available
        frees = False
        for run in transition.runs:
            run.finish()
            frees = frees or run.state == AVAILABLE
        window.may_have_available = window.may_have_available or frees
        self._join(write.batches)
        self.counts.add(transition.counts)
        return window.move_start() or frees

    def _join(self, batches: Sequence[StateBatch]) -> None:
        """Make long runs again of what these changes have split. They are in the order of offsets."""
        window = self.window
        joined_until = -1
        for changed in batches:
            if changed.last_offset > joined_until:
                index = max(window.floor(changed.first_offset), 0)
                for batch in window.batches[index : window.floor(changed.last_offset) + 1]:
                    if batch.last > joined_until:
                        batch.join(window.start)
                        joined_until = batch.last

    # --- locks

    def next_deadline(self) -> int | None:
        """When the next lock expires."""
        return min((run.deadline for run in self.window.runs() if run.state == ACQUIRED), default=None)

    def expire(self, now: int) -> Write | None:
        """Free records whose locks have expired. There may be more of them: `next_deadline` tells."""
        window, limit = self.window, self._settings().delivery_count_limit
        changed: list[StateBatch] = []
        members: dict[str, None] = {}
        left = RUNS_AT_ONCE
        for batch in window.batches:
            expired = [run for run in batch.runs if run.state == ACQUIRED and run.deadline <= now][:left]
            for run in expired:
                members[run.member_id] = None
                run.expire(ARCHIVED if run.last < window.start else AVAILABLE, limit)
                append_state(changed, run)
                self.counts.timed_out += len(run)
                if run.state == ARCHIVED:
                    self.counts.archived += len(run)
                    window.complete_count += window.count_from_start(run)
                else:
                    window.may_have_available = True
            if expired:
                batch.join(window.start)
                left -= len(expired)
                if not left:
                    break
        write = self._write(changed, None)
        if write is not None:
            write.members = tuple(members)
        return write
