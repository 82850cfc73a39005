"""The records in flight: batches in the order of offsets, between the start offset and the end offset.

The start offset is the first record that is not final. The end offset is the last record that was acquired; while there
are no batches, it is the next one to fetch, like the start offset.

What was persisted may have gaps: records that were acquired, and not acknowledged, when the leader crashed. While the
window ends where the persisted batches ended, everything from `gap_start` on that is in no batch is such a gap, and is
fetched. As soon as later records are acquired, offsets that are in no batch are those that the log does not have.

The start offset waits at the gap, also when nothing is missing there any more, until later records are acquired. A full
window has no room for these: then `close_gap` lets the start offset pass. Kafka 4.3.1 delivers nothing any more there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from kohort.coordinator.delivery.runs import Batch, Run
from kohort.coordinator.delivery.states import ACQUIRED, ARCHIVED, AVAILABLE, LogBatch, StateBatch


class BrokenState(Exception):
    """What was persisted is no state that a leader can have written."""


def _first(batch: Batch) -> int:
    return batch.first


class Window:
    __slots__ = ("batches", "complete_count", "end", "gap_end", "gap_start", "may_have_available", "start")

    def __init__(self, start: int, persisted: Sequence[StateBatch] = ()) -> None:
        self.start = start
        self.end = start
        self.batches: list[Batch] = []
        self.complete_count = 0  # records from `start` on that are final, or will be if their transition succeeds
        self.may_have_available = False  # False: nothing in the window is available
        self.gap_start = self.gap_end = -1
        if persisted:
            self._load(persisted)

    def _load(self, persisted: Sequence[StateBatch]) -> None:
        expected = self.start
        for batch in persisted:
            if batch.first_offset < expected or batch.last_offset < batch.first_offset:
                raise BrokenState(f"{batch} where offset {expected} or a later one should be")
            if not AVAILABLE <= batch.delivery_state <= ARCHIVED:
                raise BrokenState(f"{batch} has no state that records can be in")
            if self.gap_start < 0 and batch.first_offset > expected:
                self.gap_start = expected
            expected = batch.last_offset + 1
            run = Run(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
            if run.is_final:
                self.complete_count += len(run)
            self.batches.append(Batch([run]))
        self.end = expected - 1
        self.may_have_available = True
        if self.gap_start >= 0:
            self.gap_end = self.end
        self.move_start()

    # --- looking

    @property
    def in_flight_count(self) -> int:
        return self.end - self.start + 1 if self.batches else 0

    @property
    def has_gap(self) -> bool:
        return self.gap_start >= 0 and self.gap_end == self.end

    def floor(self, offset: int) -> int:
        """Index of the last batch that begins at `offset` or before it; -1: there is none."""
        return bisect_right(self.batches, offset, key=_first) - 1

    def beginning_in(self, first: int, last: int) -> list[Batch]:
        begin = bisect_right(self.batches, first - 1, key=_first)
        return self.batches[begin : bisect_right(self.batches, last, key=_first)]

    def runs(self) -> Iterator[Run]:
        for batch in self.batches:
            yield from batch.runs

    def count_from_start(self, run: Run) -> int:
        """How many records of the run are not before the start offset."""
        return max(0, run.last - max(run.first, self.start) + 1)

    def next_fetch_offset(self) -> int:
        if not self.batches or self.start > self.batches[-1].last:
            self.may_have_available = False
            return self.end
        if self.may_have_available:
            found = self._first_available()
            if found >= 0:
                return found
            self.may_have_available = False
        return self.end + 1

    def _first_available(self) -> int:
        has_gap, gap_start = self.has_gap, self.gap_start
        for batch in self.batches:
            if has_gap:
                if batch.first > gap_start:
                    return gap_start
                gap_start = max(gap_start, batch.last + 1)
            for run in batch.runs:
                if run.is_available:
                    return run.first
        return -1

    # --- changing

    def add(self, batch: Batch) -> None:
        self.batches.insert(self.floor(batch.first) + 1, batch)

    def narrow_gap(self, offset: int) -> None:
        """Records were acquired up to `offset`, which is the first one behind them."""
        if self.gap_start >= 0:
            if self.has_gap and offset <= self.gap_end:
                self.gap_start = offset
            else:
                self.gap_start = -1

    def archive_available(self, batches: Sequence[Batch], first: int, last: int) -> int:
        """Archive what is available in that range, or will be if its transition succeeds. Returns how many records."""
        count = 0
        for batch in batches:
            if batch.first > last:
                break
            for run in batch.overlapping(first, last):
                if run.state == AVAILABLE:
                    run = batch.carve(run, first, last)
                    run.archive()
                    count += len(run)
            batch.join(self.start)
        if count:
            self.may_have_available = True  # the next offset to fetch may be another one
        return count

    def archive_aborted(self, aborted: Sequence[LogBatch]) -> None:
        """Records were just acquired, and it turns out that their transactions were aborted: nobody gets them."""
        changed: dict[Batch, None] = {}  # thousands of aborted batches may be in one batch here
        for first, last in aborted:
            for batch in self.batches[max(self.floor(first), 0) : self.floor(last) + 1]:
                for run in batch.overlapping(first, last):
                    if run.state == ACQUIRED:
                        run = batch.carve(run, first, last)
                        run.archive()
                        self.complete_count += self.count_from_start(run)
                        changed[batch] = None
        for batch in changed:
            batch.join(self.start)

    def archive_what_vanished(self, fetch_offset: int, found_offset: int) -> int:
        """A fetch at `fetch_offset` found `found_offset` first: compaction has removed what was before. How many."""
        batches = self.batches[max(self.floor(fetch_offset), 0) :]
        count = self.archive_available(batches, fetch_offset, found_offset - 1)
        self.complete_count += count
        # A gap that begins before the fetch begins in batches that end there: fetches begin with what is missing first.
        if 0 <= self.gap_start < found_offset:
            self._pass_gap(found_offset)
        return count

    def _pass_gap(self, offset: int) -> None:
        """There is nothing in the log before `offset`: the gap begins there, or behind the batches that begin there."""
        self.narrow_gap(offset)
        while self.has_gap and (index := self.floor(offset)) >= 0 and self.batches[index].last >= offset:
            offset = self.batches[index].last + 1
            self.narrow_gap(offset)

    def close_gap(self) -> bool:
        """To be called when no record of the gap is missing any more. True: the start offset has moved past it."""
        self.gap_start = -1
        return self.move_start()

    def move_start_to(self, log_start: int) -> int:
        """The log begins later than the window: what was available before is archived. How many records."""
        if log_start <= self.start:
            return 0
        count = 0
        if not self.batches:
            self.complete_count = 0
        else:
            self.complete_count -= sum(
                max(0, min(run.last, log_start - 1) - max(run.first, self.start) + 1)
                for run in self.runs()
                if run.is_final
            )
            first, self.start = self.start, log_start
            self._cut_at(log_start)
            count = self.archive_available(self.batches, first, log_start - 1)
        self.start = log_start
        self.end = max(self.end, log_start)
        if self.gap_start >= 0:
            self.gap_start = max(self.gap_start, log_start)  # otherwise its lost records would be fetched for ever
        return count

    def _cut_at(self, offset: int) -> None:
        """Cut the run that reaches across the offset: its records before it and behind it have different fates."""
        index = self.floor(offset)
        if index >= 0:
            batch = self.batches[index]
            for run in batch.overlapping(offset, offset):
                batch.carve(run, offset, run.last)

    def move_start(self) -> bool:
        """Move the start offset past records that are final. False: the first one is not."""
        if self.batches and self.start < self.batches[0].first:  # what is missing there is not in the log any more
            self.start = max(self.start, min(self.batches[0].first, self.gap_start if self.has_gap else self.end))
        if not self._can_move_start():
            return False
        last, count = self._last_final()
        if last < 0:
            return False
        if last == self.batches[-1].last:
            self.start = self.end = max(last + 1, self.start)
            self.batches.clear()
            self.complete_count = 0
            return True
        index = self.floor(last)
        if last == self.batches[index].last:
            index += 1
            next_start = self.batches[index].first
            if self.has_gap:
                next_start = min(next_start, self.gap_start)
        else:
            next_start = last + 1
        self.start = max(self.start, next_start)
        self.complete_count -= count
        del self.batches[:index]
        return True

    def _can_move_start(self) -> bool:
        index = self.floor(self.start)
        if index < 0:
            return False
        batch = self.batches[index]
        run = next((run for run in batch.runs if run.last >= self.start), batch.runs[-1])
        return run.is_final and run.transition is None

    def _last_final(self) -> tuple[int, int]:
        """The last record of those at the beginning that are final, and how many of these are in flight."""
        last, count = -1, 0
        for batch in self.batches:
            if self.has_gap and batch.last >= self.gap_start:
                break
            for run in batch.runs:
                if run.transition is not None or not run.is_final:
                    return last, count
                last = run.last
                count += self.count_from_start(run)
        return last, count
