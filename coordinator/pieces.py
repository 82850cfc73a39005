"""Long work that is done in pieces: mostly tombstones, because a group can have a million offsets.

The runtime applies a piece before it asks for the next one. Other requests may be handled in between.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import TypeVar

from kohort.coordinator.group import Group
from kohort.coordinator.outcome import OffsetTombstones, Outcome, Record

Result = TypeVar("Result")

PIECE = 2_000  # offsets, groups and topics that are looked at between two requests


class Pieces:
    """Collects tombstones until the piece is large enough."""

    __slots__ = ("_looked_at", "_out", "_tombstones", "number")

    def __init__(self) -> None:
        self.number = 0  # of the present piece
        self._out = Outcome()
        self._looked_at = 0
        self._tombstones: dict[str, int] = {}  # of each group, in the piece

    def add(self, gone: OffsetTombstones) -> None:
        self._out.records.append(gone)
        self._tombstones[gone.group] = self.not_applied(gone.group) + len(gone.indexes)

    def write(self, record: Record) -> None:
        self._out.records.append(record)

    def end(self, group: Group) -> None:
        self._out.records += group.tombstones()

    def not_applied(self, group_id: str) -> int:
        """How many offsets of the group the piece will delete."""
        return self._tombstones.get(group_id, 0)

    def looked_at(self, count: int) -> Iterator[Outcome]:
        """The piece, if it is large enough now."""
        self._looked_at += count
        if self._looked_at >= PIECE:
            yield from self.rest()

    def rest(self) -> Iterator[Outcome]:
        """The piece, whatever its size; the next one begins."""
        out, self._out = self._out, Outcome()
        self._looked_at = 0
        self._tombstones = {}
        self.number += 1
        yield out


def slices(indexes: Sequence[int]) -> Iterator[Sequence[int]]:
    return (indexes[start : start + PIECE] for start in range(0, len(indexes), PIECE))


def in_pieces(steps: Generator[None, None, Result], steps_in_piece: int) -> Generator[Outcome, None, Result]:
    """Take the steps of a long computation, so many at a time. A piece of it has nothing to write."""
    taken = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
        taken += 1
        if taken % steps_in_piece == 0:
            yield Outcome()
