"""Acquiring: which of the records that a fetch has read from the log its member gets.

Records that are new are acquired by whole batches of the log, so that clients need not acknowledge parts of batches;
a fetch may get more records than it wanted. In the mode record_limit it does not.

Records that were delivered before are acquired by the batches in which they were acquired then, or one by one where a
batch is split. A record that was delivered half as often as the limit allows may be what its consumers fail at. So it
is not delivered together with other batches, and with less and less records of its own batch; the last time, alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from kohort.coordinator.config import ShareGroupSettings
from kohort.coordinator.delivery.runs import Batch, Run
from kohort.coordinator.delivery.states import ACQUIRED, AVAILABLE, Acquired, LogBatch, Wish
from kohort.coordinator.delivery.window import Window

MIN_LIMIT_TO_DELIVER_ALONE = 3


class Acquisition:
    """One fetch from one share partition."""

    __slots__ = (
        "_batches",
        "_deadline",
        "_last",
        "_left",
        "_limit",
        "_max_locks",
        "_window",
        "_wish",
        "acquired",
        "count",
        "vanished",
    )

    def __init__(
        self, window: Window, settings: ShareGroupSettings, wish: Wish, batches: Sequence[LogBatch], now: int
    ) -> None:
        """`batches`: what was read from the log, in the order of offsets."""
        self._window = window
        self._wish = wish
        self._batches = batches
        self._deadline = now + settings.record_lock_duration_ms
        self._limit = settings.delivery_count_limit
        self._max_locks = settings.partition_max_record_locks
        self._left = wish.max_records  # how many may still be acquired
        self._last = batches[-1].last_offset if batches else -1  # nothing behind it is acquired
        self.acquired: list[Acquired] = []
        self.count = 0
        self.vanished = 0  # records that were available, and are no longer in the log

    def acquire(self, fetch_offset: int) -> None:
        """Acquire records of the batches, which were read from `fetch_offset` on."""
        window = self._window
        if not self._batches or self._last < window.start or self._left <= 0:
            return
        self._respect_max_locks(fetch_offset)
        if self._left <= 0:
            return
        first = base = self._batches[0].base_offset
        if fetch_offset < first:
            self.vanished = window.archive_what_vanished(fetch_offset, first)
        if first > self._last:  # the window is full, and all that was available in it has vanished from the log
            return
        index = window.floor(base)
        if index < 0:
            base = max(base, window.start)
        elif window.batches[index].last >= base:
            base = window.batches[index].first
        known = window.beginning_in(min(first, base), self._last)
        if known:
            self._acquire_among(known, base, first)
        else:
            self._acquire_new(base, self._last)

    def _respect_max_locks(self, fetch_offset: int) -> None:
        window = self._window
        room = self._max_locks - window.in_flight_count
        if room > 0:
            self._left = min(self._left, room)
        elif fetch_offset <= window.end:  # what is in the window already takes no room
            self._left = min(self._left, window.end - fetch_offset + 1)
            self._last = min(self._last, window.end)
        else:
            self._left = 0

    def _took(self, count: int) -> None:
        self.count += count
        self._left -= count

    # --- records that are in the window already

    def _acquire_among(self, known: list[Batch], base: int, first: int) -> None:
        """`known`: the batches in the window that begin in what was read, or hold its first record."""
        window = self._window
        gap_from = base
        for batch in known:
            if self._left <= 0:
                break
            if window.has_gap:
                if gap_from < batch.first:
                    self._acquire_new(gap_from, batch.first - 1)
                gap_from = batch.last + 1
                if self._left <= 0:
                    break
            if not self._acquire_again(batch, first):
                self._left = 0
        if self._left > 0 and known[-1].last < self._last:
            self._acquire_new(known[-1].last + 1, self._last)
        if self.acquired:
            window.narrow_gap(self.acquired[-1].last_offset + 1)

    def _acquire_again(self, batch: Batch, first: int) -> bool:
        """Acquire what is available in the batch. False: nothing else may be delivered together with it."""
        is_suspect = self._is_suspect(batch, first)
        if is_suspect and self.count:
            return False
        is_whole = first <= batch.first and batch.last <= self._last
        is_too_large = self._wish.is_record_limit and len(batch) > self._left
        if is_whole and not (batch.is_split or is_too_large or is_suspect):
            run = batch.runs[0]
            if run.is_available:
                run.acquire(self._wish.member_id, self._deadline)
                self.acquired.append(Acquired(run.first, run.last, run.delivery_count))
                self._took(len(run))
            return True
        if not batch.is_split:
            if not batch.runs[0].is_available:
                return True
            batch.is_split = True
        return not (self._acquire_some(batch, first) and is_suspect)

    @property
    def _suspect_from(self) -> int:
        """From this delivery count on, a record may be the one that its consumers fail at."""
        return max(2, (self._limit + 1) // 2)

    def _is_suspect(self, batch: Batch, first: int) -> bool:
        runs = batch.overlapping(first, self._last) if batch.is_split else batch.runs
        return any(run.is_available and run.delivery_count >= self._suspect_from for run in runs)

    def _acquire_some(self, batch: Batch, first: int) -> int:
        """Acquire records of a split batch. Returns how many."""
        count = 0
        at_most = -1  # a limit as soon as a suspect record was met; -1: none yet
        taken: list[Run] = []
        for run in batch.overlapping(first, self._last):
            if not run.is_available:
                continue
            is_last_time = self._limit >= MIN_LIMIT_TO_DELIVER_ALONE and run.delivery_count == self._limit - 1
            if is_last_time and count:
                break
            if run.delivery_count >= self._suspect_from and at_most < 0:
                at_most = max(1, len(batch) >> (run.delivery_count - self._suspect_from + 1))
            run = batch.carve(run, first, self._last)
            wanted = len(run)
            if is_last_time:
                wanted = 1
            if self._wish.is_record_limit:
                wanted = min(wanted, self._left - count)
            if at_most > count:
                wanted = min(wanted, at_most - count)
            run = batch.carve(run, run.first, run.first + wanted - 1)
            run.acquire(self._wish.member_id, self._deadline)
            taken.append(run)
            count += wanted
            if is_last_time or (self._wish.is_record_limit and count == self._left) or count == at_most:
                break
        self._note(taken)
        batch.join(self._window.start)
        self._took(count)
        return count

    def _note(self, taken: list[Run]) -> None:
        """Name the runs in the answer: neighbours with the same delivery count as one."""
        noted = len(self.acquired)
        for run in taken:
            if len(self.acquired) > noted:
                before = self.acquired[-1]
                if before.last_offset + 1 == run.first and before.delivery_count == run.delivery_count:
                    self.acquired[-1] = before._replace(last_offset=run.last)
                    continue
            self.acquired.append(Acquired(run.first, run.last, run.delivery_count))

    # --- records that were not acquired before

    def _acquire_new(self, first: int, last: int) -> None:
        window = self._window
        if not window.batches and window.end > first:
            first = window.end
        until = last
        if self._left < last - first + 1:
            until = self._end_of_log_batch(first + self._left - 1)
            if window.has_gap:
                until = min(until, last)
        is_part = self._wish.is_record_limit and until - first + 1 > self._left
        taken_until = first + self._left - 1 if is_part else until
        if is_part:
            self._add_part(first, taken_until, until)
        else:
            for piece in self._pieces(first, until):
                window.add(Batch([self._new_run(*piece)]))
                self.acquired.append(Acquired(*piece, 1))
        if window.batches[0].first == first:
            window.start = first
        window.end = max(window.end, until)
        window.narrow_gap(taken_until + 1)
        self._took(taken_until - first + 1)

    def _new_run(self, first: int, last: int) -> Run:
        return Run(first, last, ACQUIRED, 1, self._wish.member_id, self._deadline)

    def _add_part(self, first: int, taken_until: int, until: int) -> None:
        """Acquire the beginning of a batch of the log. The rest of it is in the window, too, and available."""
        rest = Run(taken_until + 1, until, AVAILABLE, 0)
        self._window.add(Batch([self._new_run(first, taken_until), rest], is_split=True))
        self._window.may_have_available = True
        self.acquired.append(Acquired(first, taken_until, 1))

    def _end_of_log_batch(self, offset: int) -> int:
        """The last offset of the batch of the log that `offset` is in; `offset` if it is in none."""
        for batch in reversed(self._batches):
            if batch.base_offset <= offset:
                return max(batch.last_offset, offset)
        return offset

    def _pieces(self, first: int, until: int) -> list[tuple[int, int]]:
        """Cut [first, until] into pieces of at least `batch_size` records, where batches of the log begin."""
        pieces: list[tuple[int, int]] = []
        if not self._wish.is_record_limit and until - first + 1 > self._wish.batch_size:
            for batch in self._batches:
                at = batch.base_offset
                if at > until:
                    break
                if at > first and at - first >= self._wish.batch_size:
                    pieces.append((first, at - 1))
                    first = at
        pieces.append((first, until))
        return pieces
