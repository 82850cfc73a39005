"""The state of a share partition at the end of the log: its batches, the later ones over the earlier ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

AVAILABLE = 0
Batch: TypeAlias = tuple[int, int, int, int]  # first and last offset, state, deliveries


class Window(NamedTuple):
    """What the log says of the records from the start offset on."""

    finished: int  # acknowledged or archived
    waiting: int  # delivered before, and available again
    deliveries: int | None  # of the waiting record that was delivered most often; None: there is none
    start_deliveries: int | None  # of the record at the start offset; None: the log does not say
    most_delivered: int | None  # the first of the waiting records that were delivered most often


def window_of(start: int, batches: Sequence[Batch]) -> Window:
    """`batches`: in the order of the log. `start`: the start offset."""
    finished = waiting = 0
    most: tuple[int, int] | None = None  # deliveries, minus the offset: of two, the lower offset
    at_start = None
    for first, last, state, deliveries in painted(batches):
        if last < start:
            continue
        first = max(first, start)
        if first == start:
            at_start = deliveries
        if state != AVAILABLE:
            finished += last - first + 1
        elif deliveries:
            waiting += last - first + 1
            most = max(most or (0, 0), (deliveries, -first))
    if most is None:
        return Window(finished, waiting, None, at_start, None)
    return Window(finished, waiting, most[0], at_start, -most[1])


def painted(batches: Sequence[Batch]) -> Iterator[Batch]:
    """What is left visible of batches that are laid over each other: pieces that do not overlap, in order of offsets.

    The batches are laid down from the last one to the first one, each only where nothing lies yet. `free` leads from a
    stretch to the next one that is free, so that no stretch is passed twice.
    """
    real = [one for one in batches if one[0] <= one[1]]
    edges = sorted({edge for first, last, _, _ in real for edge in (first, last + 1)})
    number = {edge: index for index, edge in enumerate(edges)}
    free = list(range(len(edges) + 1))
    shown: list[Batch | None] = [None] * len(edges)

    def next_free(index: int) -> int:
        while free[index] != index:
            free[index] = free[free[index]]
            index = free[index]
        return index

    for batch in reversed(real):
        index, end = next_free(number[batch[0]]), number[batch[1] + 1]
        while index < end:
            shown[index] = batch
            free[index] = index + 1
            index = next_free(index)
    for index, visible in enumerate(shown):
        if visible is not None:
            yield edges[index], edges[index + 1] - 1, visible[2], visible[3]
