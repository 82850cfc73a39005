"""States of ranges of offsets, as they are persisted, and how newer ones are merged into older ones.

Where two batches overlap, the one that was delivered more often holds; of equal delivery counts, the one with the
higher state, because acknowledged (2) and archived (4) are final and available (0) is not. It does not matter which of
them came first. Batches that touch, and are in the same state, become one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from operator import attrgetter

from kohort.coordinator.delivery.states import StateBatch

NO_START_OFFSET = -1

# One write of a leader is about the records that it has in flight, 10,000 at most. Between them may be others that are
# done already. A snapshot with more batches would not fit into a batch of the log.
MAX_BATCHES_IN_WRITE = 10_000
MAX_BATCHES = 25_000


# In the order in which Kafka's combiner looks at them; (first offset, last offset, delivery count, delivery state).
Sorted = tuple[int, int, int, int]

_first_offset = attrgetter("first_offset")
_last_offset = attrgetter("last_offset")


def combine(known: Sequence[StateBatch], newer: Iterable[StateBatch], start_offset: int) -> list[StateBatch]:
    """Merge `newer` into `known`, and drop what lies before the start offset, unless that is -1.

    `known` is the result of an earlier call. Only the part of it that `newer` touches is looked at.
    """
    if start_offset != NO_START_OFFSET:
        known = _from(known, start_offset)
        newer = [
            batch if batch.first_offset >= start_offset else batch._replace(first_offset=start_offset)
            for batch in newer
            if batch.last_offset >= start_offset
        ]
    changed = [batch for batch in newer if batch.first_offset <= batch.last_offset]  # others were never valid
    if not changed:
        return list(known)
    # A batch that merely touches a new one may become one with it.
    low = bisect_left(known, min(map(_first_offset, changed)) - 1, key=_last_offset)
    high = bisect_right(known, max(map(_last_offset, changed)) + 1, key=_first_offset)
    return [*known[:low], *_merged([*known[low:high], *changed]), *known[high:]]


def _from(known: Sequence[StateBatch], start_offset: int) -> Sequence[StateBatch]:
    index = bisect_left(known, start_offset, key=_last_offset)
    if index < len(known) and known[index].first_offset < start_offset:
        return [known[index]._replace(first_offset=start_offset), *known[index + 1 :]]
    return known[index:]


def _merged(batches: Sequence[StateBatch]) -> list[StateBatch]:
    """Batches of which none overlap, in their order."""
    heap: list[Sorted] = [(first, last, count, state) for first, last, state, count in batches]
    heapify(heap)
    merged: list[StateBatch] = []
    before = heappop(heap)
    while heap:
        after = heappop(heap)
        first, last, count, state = before
        if after[0] <= last:
            for piece in _without_overlap(before, after):
                heappush(heap, piece)
            before = heappop(heap)
        elif after[0] == last + 1 and after[2] == count and after[3] == state:
            before = (first, after[1], count, state)
        else:
            merged.append(StateBatch(first, last, state, count))
            before = after
    first, last, count, state = before
    merged.append(StateBatch(first, last, state, count))
    return merged


def _without_overlap(before: Sorted, after: Sorted) -> list[Sorted]:
    """Two batches that overlap, as one to three that do not. `before` is the one that sorts first."""
    first, last, count, state = before
    after_first, after_last, after_count, after_state = after
    if (count, state) == (after_count, after_state):
        return [(first, max(last, after_last), count, state)]
    if (after_count, after_state) < (count, state):
        rest: list[Sorted] = [(last + 1, after_last, after_count, after_state)] if after_last > last else []
        return [before, *rest]
    pieces: list[Sorted] = [after]
    if first < after_first:
        pieces.append((first, after_first - 1, count, state))
    if last > after_last:
        pieces.append((after_last + 1, last, count, state))
    return pieces
