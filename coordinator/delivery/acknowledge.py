"""Acknowledging and releasing: what members, and the end of their sessions, do to records that they have acquired.

An acknowledgement names ranges of offsets. Either all of them can be changed, or none is: the first one that cannot
takes back the whole list.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from kohort.coordinator.config import ShareGroupSettings
from kohort.coordinator.delivery.runs import NOBODY, Batch, Cutter, Run, Transition
from kohort.coordinator.delivery.states import (
    ACCEPT,
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    REJECT,
    RELEASE,
    RENEW,
    RUNS_AT_ONCE,
    STATE_AFTER,
    Acknowledgement,
    Counts,
    Refusal,
    StateBatch,
)
from kohort.coordinator.delivery.window import Window
from kohort.protocol.error_codes import ErrorCode

_INVALID_STATE: Final = ErrorCode.INVALID_RECORD_STATE
_INVALID_REQUEST: Final = ErrorCode.INVALID_REQUEST
UNKNOWN = Refusal(_INVALID_STATE, "Batch record not found. The request batch offsets are not found in the cache.")
BEGINS_BEHIND = Refusal(
    _INVALID_REQUEST, "Batch record not found. The first offset in request is past acquired records."
)
ENDS_BEHIND = Refusal(_INVALID_REQUEST, "Batch record not found. The last offset in request is past acquired records.")
BATCH_NOT_ACQUIRED = Refusal(
    _INVALID_STATE, "The batch cannot be acknowledged. The batch is not in the acquired state."
)
PART_NOT_ACQUIRED = Refusal(
    _INVALID_STATE, "The batch cannot be acknowledged. The subset batch is not in the acquired state."
)
OFFSET_NOT_ACQUIRED = Refusal(_INVALID_STATE, "The offset cannot be acknowledged. The offset is not acquired.")
BATCH_OF_ANOTHER = Refusal(_INVALID_STATE, "Member is not the owner of batch record")
OFFSET_OF_ANOTHER = Refusal(_INVALID_STATE, "Member is not the owner of offset")
NO_RENEWAL = Refusal(_INVALID_STATE, "Renewing acquisition locks is not enabled for the group.")


class Changes:
    """What one request changes: the runs in transition, and the batches to persist."""

    __slots__ = ("_window", "batches", "transition")

    def __init__(self, window: Window, member_id: str, settings: ShareGroupSettings) -> None:
        self._window = window
        self.transition = Transition(member_id, settings.delivery_count_limit)
        self.batches: list[StateBatch] = []

    def begin(self, run: Run, state: int) -> None:
        run.begin(self.transition, state)
        if run.is_final:
            self._window.complete_count += self._window.count_from_start(run)
        append_state(self.batches, run)

    def take_back(self, now: int) -> None:
        take_back(self._window, self.transition, now)


def append_state(batches: list[StateBatch], run: Run) -> None:
    """Add the run to what is persisted: to the last batch if it continues that one."""
    if batches:
        first, before, state, count = batches[-1]
        if before + 1 == run.first and state == run.state and count == run.delivery_count:
            batches[-1] = StateBatch(first, run.last, state, count)
            return
    batches.append(run.state_batch)


def take_back(window: Window, transition: Transition, now: int) -> None:
    for run in transition.runs:
        was_final = run.is_final
        run.take_back(now)
        if run.state == AVAILABLE and run.last < window.start:
            run.archive()
        if run.state == AVAILABLE:
            window.may_have_available = True
        if was_final and not run.is_final:
            window.complete_count -= window.count_from_start(run)


def acknowledge(
    window: Window,
    settings: ShareGroupSettings,
    member_id: str,
    acknowledgements: Sequence[Acknowledgement],
    now: int,
) -> Changes | Refusal:
    changes = Changes(window, member_id, settings)
    acknowledging = _Acknowledging(window, settings, changes, now)
    refusal = None
    for each in acknowledgements:
        if each.last_offset >= window.start:  # otherwise all of it is final
            refusal = acknowledging.change(each)
            if refusal is not None:
                break
    acknowledging.close()
    if refusal is not None:
        changes.take_back(now)
        return refusal
    return changes


class _Acknowledging:
    """The ranges of one request, in the order of offsets."""

    __slots__ = ("_changes", "_cutter", "_member_id", "_now", "_settings", "_told", "_window")

    def __init__(self, window: Window, settings: ShareGroupSettings, changes: Changes, now: int) -> None:
        self._window = window
        self._settings = settings
        self._changes = changes
        self._member_id = changes.transition.member_id
        self._now = now
        self._cutter: Cutter | None = None  # of the batch in which the last range ended
        self._told: Acknowledgement

    def change(self, told: Acknowledgement) -> Refusal | None:
        self._told = told
        cutter = self._cutter
        if cutter is not None and cutter.position <= told.first_offset and told.last_offset <= cutter.batch.last:
            return self._change_some(cutter.batch)
        batches = self._find()
        if isinstance(batches, Refusal):
            return batches
        for batch in batches:
            if batch.last >= self._window.start and (refusal := self._change_batch(batch)) is not None:
                return refusal
        return None

    def close(self) -> None:
        if self._cutter is not None:
            self._cutter.close()
            self._cutter = None

    def _cut(self, batch: Batch, first: int) -> Cutter:
        cutter = self._cutter
        if cutter is None or cutter.batch is not batch or cutter.position > first:
            self.close()
            cutter = self._cutter = Cutter(batch, first)
        return cutter

    def _find(self) -> list[Batch] | Refusal:
        window, told = self._window, self._told
        index = window.floor(told.first_offset)
        if index < 0 and told.first_offset < window.start:
            index = window.floor(window.start)
        if index < 0:
            return UNKNOWN
        batches = window.beginning_in(window.batches[index].first, told.last_offset)
        if batches[-1].last < told.first_offset:
            return BEGINS_BEHIND
        if batches[-1].last < told.last_offset:
            return ENDS_BEHIND
        return batches

    def _change_batch(self, batch: Batch) -> Refusal | None:
        told = self._told
        if not batch.is_split:
            run = batch.runs[0]
            if run.member_id == NOBODY:
                return BATCH_NOT_ACQUIRED
            if run.member_id != self._member_id:
                return BATCH_OF_ANOTHER
            is_whole = told.first_offset <= batch.first and batch.last <= told.last_offset
            if is_whole and len(told.types) == 1 and batch.first >= self._window.start:
                return self._change_run(run, told.types[0])
            if run.state != ACQUIRED:
                return PART_NOT_ACQUIRED
            batch.is_split = True
        return self._change_some(batch)

    def _change_some(self, batch: Batch) -> Refusal | None:
        first = max(self._told.first_offset, batch.first, self._window.start)
        last = min(self._told.last_offset, batch.last)
        if first > last:
            return None
        cutter = self._cut(batch, first)
        for type_first, type_last, kind in self._types(first, last):
            while (run := cutter.find(type_first, type_last)) is not None:
                if run.state != ACQUIRED:
                    return OFFSET_NOT_ACQUIRED
                if run.member_id != self._member_id:
                    return OFFSET_OF_ANOTHER
                refusal = self._change_run(cutter.carve(type_first, type_last), kind)
                if refusal is not None:
                    return refusal
        return None

    def _types(self, first: int, last: int) -> Iterator[tuple[int, int, int]]:
        """(first offset, last offset, type) for the records in that range."""
        types = self._told.types
        if len(types) == 1:
            yield first, last, types[0]
            return
        begin = self._told.first_offset
        for kind, group in groupby(types[first - begin : last - begin + 1]):
            count = sum(1 for _ in group)
            yield first, first + count - 1, kind
            first += count

    def _change_run(self, run: Run, kind: int) -> Refusal | None:
        if kind == RENEW:
            if not self._settings.renew_acknowledge_enable:
                return NO_RENEWAL
            run.deadline = self._now + self._settings.record_lock_duration_ms
            return None
        self._changes.begin(run, STATE_AFTER[kind])
        count_change(self._changes.transition.counts, kind, run)
        return None


def count_change(counts: Counts, kind: int, run: Run) -> None:
    if kind == ACCEPT:
        counts.accepted += len(run)
    elif kind == REJECT:
        counts.rejected += len(run)
    elif kind == RELEASE:
        counts.released += len(run)
        if run.state == ARCHIVED:
            counts.archived += len(run)


def release(
    window: Window, settings: ShareGroupSettings, member_id: str, first: int, last: int
) -> tuple[Changes, int | None]:
    """Give back what the member has acquired from `first` to `last`. What is no longer in the log is archived.

    Of very many runs some are given back. Then the second result is the offset to go on with.
    """
    changes = Changes(window, member_id, settings)
    for batch in window.batches[max(window.floor(first), 0) :]:
        for run in batch.overlapping(first, last):
            if run.state == ACQUIRED and run.member_id == member_id:
                if len(changes.transition.runs) == RUNS_AT_ONCE:
                    return changes, run.first
                changes.begin(run, ARCHIVED if run.last < window.start else AVAILABLE)
                count_change(changes.transition.counts, RELEASE, run)
    return changes, None
