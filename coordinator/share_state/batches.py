"""States of ranges of offsets, as they are persisted, and how newer ones are merged into older ones.

Where two batches overlap, the one that was delivered more often holds; of equal delivery counts, the one with the
higher state, because acknowledged (2) and archived (4) are final and available (0) is not. It does not matter which of
them came first. Batches that touch, and are in the same state, become one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from itertools import pairwise
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

    `known` is the result of an earlier call. Mostly only the part of it that `newer` touches is looked at closely.
    """
    if start_offset != NO_START_OFFSET:
        known = _from(known, start_offset)
        newer = [
            batch if batch.first_offset >= start_offset else batch._replace(first_offset=start_offset)
            for batch in newer
            if batch.last_offset >= start_offset
        ]
    changed = [
        batch for batch in newer if batch.first_offset <= batch.last_offset
    ]  # a client may send batches that end before they begin
    if _can_be_shorter(known):
        return _merged([*known, *changed])
    if not changed:
        return list(known)
    # A batch that merely touches a new one may become one with it.
    low = bisect_left(known, min(map(_first_offset, changed)) - 1, key=_last_offset)
    high = bisect_right(known, max(map(_last_offset, changed)) + 1, key=_first_offset)
    return [*known[:low], *_merged([*known[low:high], *changed]), *known[high:]]


def _can_be_shorter(known: Sequence[StateBatch]) -> bool:
    """Whether two neighbours touch and are in the same state. An earlier merge may have left such neighbours."""
    for (_, last, state, count), (first, _, next_state, next_count) in pairwise(known):
        if last + 1 == first and state == next_state and count == next_count:
            return True
    return False


def are_disjoint(batches: Sequence[StateBatch]) -> bool:
    """Whether the batches stand in the order of their offsets, and none overlaps another one."""
    before = -1
    for first, last, _, _ in batches:
        if not before < first <= last:
            return False
        before = last
    return True


def _from(known: Sequence[StateBatch], start_offset: int) -> Sequence[StateBatch]:
    index = bisect_left(known, start_offset, key=_last_offset)
    if index < len(known) and known[index].first_offset < start_offset:
        return [known[index]._replace(first_offset=start_offset), *known[index + 1 :]]
    return known[index:]


def _merged(batches: Sequence[StateBatch]) -> list[StateBatch]:
    """Batches of which none overlap, in their order."""
    if are_disjoint(batches) and not _can_be_shorter(batches):
        return list(batches)  # leaders mostly send what can stay as it is
    # In descending order, so that `pop` returns the first of those that are left.
    rest: list[Sorted] = sorted(((first, last, count, state) for first, last, state, count in batches), reverse=True)
    tails: list[Sorted] = []  # a heap: the ends of batches whose beginnings another batch has replaced
    merged: list[StateBatch] = []
    first, last, count, state = rest.pop()
    while rest or tails:
        after = heappop(tails) if tails and (not rest or tails[0] < rest[-1]) else rest.pop()
        after_first, after_last, after_count, after_state = after
        if after_first > last:
            if after_first == last + 1 and after_count == count and after_state == state:
                last = after_last
            else:
                merged.append(StateBatch(first, last, state, count))
                first, last, count, state = after
        elif after_count == count and after_state == state:
            last = max(last, after_last)
        elif (after_count, after_state) < (count, state):
            if after_last > last:
                heappush(tails, (last + 1, after_last, after_count, after_state))
        else:
            if first < after_first:
                merged.append(StateBatch(first, after_first - 1, state, count))
            if last > after_last:
                heappush(tails, (after_last + 1, last, count, state))
            first, last, count, state = after
    merged.append(StateBatch(first, last, state, count))
    return merged
