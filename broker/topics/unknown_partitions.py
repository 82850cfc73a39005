"""Partitions of a long fetch that do not exist. Their answers are made when they are encoded, and not kept."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import overload

from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.fetch import PartitionData


class UnknownPartitions(Sequence[PartitionData]):
    __slots__ = ("_error", "_indexes")

    def __init__(self, error: ErrorCode, indexes: Collection[int]) -> None:
        self._error = error
        self._indexes = indexes

    def __len__(self) -> int:
        return len(self._indexes)

    def __iter__(self) -> Iterator[PartitionData]:
        for index in self._indexes:
            yield unknown_partition(index, self._error)

    @overload
    def __getitem__(self, index: int) -> PartitionData: ...

    @overload
    def __getitem__(self, index: slice) -> list[PartitionData]: ...

    def __getitem__(self, index: int | slice) -> PartitionData | list[PartitionData]:
        """Goes through the partitions from the start each time, so it must not be used in a loop."""
        if isinstance(index, slice):
            return list(self)[index]
        if not 0 <= index < len(self):
            raise IndexError(index)
        return next(islice(self, index, None))


def unknown_partition(index: int, error: ErrorCode) -> PartitionData:
    return PartitionData(index, error, -1)
