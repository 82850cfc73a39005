"""Runs: neighbouring records of one batch that are in the same state."""

from __future__ import annotations

from bisect import bisect_right

from kohort.coordinator.delivery.states import ACQUIRED, ARCHIVED, AVAILABLE, NOT_FINAL, Counts, StateBatch

NOBODY = ""
MAX_DELIVERIES = 2**15 - 1  # room in answers and records. No leader counts so far, but any client may write a state


def _first(run: Run) -> int:
    return run.first


class Transition:
    """A change of some acquired runs that is being persisted. It becomes final, or is taken back, as a whole."""

    __slots__ = ("counts", "limit", "member_id", "runs")

    def __init__(self, member_id: str, limit: int) -> None:
        self.member_id = member_id  # had acquired the runs
        self.limit = limit  # of deliveries
        self.runs: list[Run] = []
        self.counts = Counts()


class Run:
    __slots__ = ("deadline", "delivery_count", "first", "is_lost", "last", "member_id", "state", "transition")

    def __init__(
        self, first: int, last: int, state: int, delivery_count: int, member_id: str = NOBODY, deadline: int = 0
    ) -> None:
        self.first = first
        self.last = last  # no run reaches across the start offset: see Window.move_start_to
        self.state = state  # with a transition: the new state
        self.delivery_count = delivery_count
        self.member_id = member_id  # who has acquired it
        self.deadline = deadline  # when the lock expires; 0: it is not locked
        self.transition: Transition | None = None
        self.is_lost = False  # archived during a transition; that stays, also if the transition fails

    def __len__(self) -> int:
        return self.last - self.first + 1

    @property
    def is_available(self) -> bool:
        return self.state == AVAILABLE and self.transition is None

    @property
    def is_final(self) -> bool:
        """Nobody will get these records again; during a transition: unless the transition fails."""
        return self.state > NOT_FINAL

    @property
    def state_batch(self) -> StateBatch:
        return StateBatch(self.first, self.last, self.state, self.delivery_count)

    def acquire(self, member_id: str, deadline: int) -> None:
        self.state = ACQUIRED
        self.delivery_count = min(self.delivery_count + 1, MAX_DELIVERIES)
        self.member_id = member_id
        self.deadline = deadline

    def begin(self, transition: Transition, state: int) -> None:
        """Change an acquired run. It keeps its lock until the transition ends."""
        self._leave(state, transition.limit)
        self.transition = transition
        transition.runs.append(self)

    def _leave(self, state: int, limit: int) -> None:
        self.state = ARCHIVED if state == AVAILABLE and self.delivery_count >= limit else state
        self.member_id = NOBODY

    def expire(self, state: int, limit: int) -> None:
        """The lock has expired."""
        self._leave(state, limit)
        self.deadline = 0

    def archive(self) -> None:
        self.state = ARCHIVED
        self.member_id = NOBODY
        self.deadline = 0
        self.is_lost = True

    def finish(self) -> None:
        """The transition was persisted."""
        self.transition = None
        self.deadline = 0

    def take_back(self, now: int) -> None:
        """The transition failed: the member has the records again, unless the lock has expired meanwhile."""
        transition = self.transition
        assert transition is not None
        self.transition = None
        if self.is_lost:
            return
        if self.deadline > now:
            self.state, self.member_id = ACQUIRED, transition.member_id
        else:
            self.expire(AVAILABLE, transition.limit)

    def cut(self, at: int) -> Run:
        """Make two runs of one; the second one begins at `at`, and is returned."""
        second = Run(at, self.last, self.state, self.delivery_count, self.member_id, self.deadline)
        if self.transition is not None:
            second.transition = self.transition
            second.is_lost = self.is_lost
            self.transition.runs.append(second)
        self.last = at - 1
        return second

    def is_like(self, other: Run) -> bool:
        return (
            self.state == other.state
            and self.delivery_count == other.delivery_count
            and self.member_id == other.member_id
            and self.deadline == other.deadline
            and self.transition is None
            and other.transition is None
        )


class Batch:
    """Records that were acquired together, or read from the persister as one batch.

    A whole batch is in one state. Once a part of it was treated differently it is split, and stays so: from then on its
    records are looked at one by one, even if they are in the same state again.
    """

    __slots__ = ("first", "is_split", "last", "runs")

    def __init__(self, runs: list[Run], *, is_split: bool = False) -> None:
        self.first = runs[0].first
        self.last = runs[-1].last
        self.runs = runs
        self.is_split = is_split

    def __len__(self) -> int:
        return self.last - self.first + 1

    def overlapping(self, first: int, last: int) -> list[Run]:
        """The runs of which some records are in that range."""
        runs = self.runs
        if len(runs) == 1:
            return runs[:] if self.first <= last and first <= self.last else []
        begin = max(bisect_right(runs, first, key=_first) - 1, 0)
        return [run for run in runs[begin : bisect_right(runs, last, key=_first)] if run.last >= first]

    def carve(self, run: Run, first: int, last: int) -> Run:
        """Cut off what lies before `first` and behind `last`; what remains."""
        if run.first < first:
            run = self._cut(run, first)
        if run.last > last:
            self._cut(run, last + 1)
        return run

    def _cut(self, run: Run, at: int) -> Run:
        """Make two runs of one; the second one begins at `at`, and is returned."""
        second = run.cut(at)
        self.runs.insert(bisect_right(self.runs, at, key=_first), second)
        self.is_split = True
        return second

    def join(self, start: int) -> None:
        """Make one run of neighbours that are in the same state, but not of what lies before `start` and behind it."""
        runs = self.runs
        if len(runs) == 1:
            return
        joined = [runs[0]]
        for run in runs[1:]:
            if run.first != start and run.is_like(joined[-1]):
                joined[-1].last = run.last
            else:
                joined.append(run)
        self.runs = joined


class Cutter:
    """Goes through the runs of a batch from `first` on, and cuts them. It goes forward only, and the batch has the new
    runs once it is closed: thousands of runs are cut out of one without looking for the place of each.
    """

    __slots__ = ("_begin", "_current", "_done", "_next", "batch", "position")

    def __init__(self, batch: Batch, first: int) -> None:
        self.batch = batch
        self.position = first  # what is before it was passed
        self._begin = max(bisect_right(batch.runs, first, key=_first) - 1, 0)
        self._next = self._begin + 1
        self._current: Run | None = batch.runs[self._begin]
        self._done: list[Run] = []

    def find(self, first: int, last: int) -> Run | None:
        """The next run of which some records are in that range."""
        run = self._current
        while run is not None and run.last < first:
            self._done.append(run)
            run = self._current = self._after()
        return run if run is not None and run.first <= last else None

    def carve(self, first: int, last: int) -> Run:
        """Cut what lies before `first` and behind `last` off the run that was found; what remains. Go on behind it."""
        run = self._current
        assert run is not None
        if run.first < first:
            self._done.append(run)
            run = run.cut(first)
        self._current = run.cut(last + 1) if run.last > last else self._after()
        self._done.append(run)
        self.position = run.last + 1
        return run

    def _after(self) -> Run | None:
        runs = self.batch.runs
        if self._next == len(runs):
            return None
        self._next += 1
        return runs[self._next - 1]

    def close(self) -> None:
        if self._current is not None:
            self._done.append(self._current)
        self.batch.runs[self._begin : self._next] = self._done
