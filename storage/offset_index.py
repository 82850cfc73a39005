"""A sparse map from offsets to file positions, for one segment: where to start looking for an offset.

The `.index` file is a run of entries of 8 bytes, big-endian, in the order of the log:

     0  relative offset  int32   last offset of a batch - base offset of the segment
     4  position         int32   where that batch starts in the .log file

The index is kept in memory while the segment is in use, and written when the segment is rolled or closed. After a crash
it is rebuilt from the log, so nothing depends on the file.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from typing import Final

ENTRY_BYTES: Final = 8


class CorruptIndex(ValueError):
    """The file is no index of this segment; it can be rebuilt from the log."""


def is_ascending(column: array[int]) -> bool:
    """Whether no number is less than the one before. To sort what is sorted is the quickest way to see that."""
    numbers = column.tolist()
    return sorted(numbers) == numbers


class OffsetIndex:
    """Entries of one segment in memory: two columns, both strictly ascending."""

    __slots__ = ("_offsets", "_positions", "base_offset")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self._offsets = array("i")
        self._positions = array("i")

    def __len__(self) -> int:
        return len(self._offsets)

    def append(self, last_offset: int, position: int) -> None:
        """Note that the batch which ends with `last_offset` starts at `position`."""
        relative = last_offset - self.base_offset
        assert not self._offsets or (relative > self._offsets[-1] and position > self._positions[-1])
        self._offsets.append(relative)
        self._positions.append(position)

    def lookup(self, offset: int) -> tuple[int, int]:
        """(last offset, position) of the last entry at or before `offset`; (base offset, 0) if there is none."""
        slot = bisect_right(self._offsets, offset - self.base_offset) - 1
        if slot < 0:
            return self.base_offset, 0
        return self.base_offset + self._offsets[slot], self._positions[slot]

    def last(self) -> tuple[int, int] | None:
        """(last offset, position) of the newest entry."""
        if not self._offsets:
            return None
        return self.base_offset + self._offsets[-1], self._positions[-1]

    def truncate(self, size_bytes: int) -> None:
        """Forget entries of batches that start at or after `size_bytes` of the log file."""
        while self._positions and self._positions[-1] >= size_bytes:
            self._positions.pop()
            self._offsets.pop()

    def entries(self) -> list[tuple[int, int]]:
        """All (last offset, position)."""
        return [(self.base_offset + offset, at) for offset, at in zip(self._offsets, self._positions, strict=True)]

    def to_bytes(self) -> bytes:
        """The content of the `.index` file."""
        both = array("i", bytes(ENTRY_BYTES * len(self._offsets)))
        both[0::2] = self._offsets
        both[1::2] = self._positions
        if sys.byteorder == "little":
            both.byteswap()
        return both.tobytes()

    @classmethod
    def from_bytes(cls, base_offset: int, data: bytes, log_size_bytes: int) -> OffsetIndex:
        """Read an `.index` file; CorruptIndex unless it could belong to a log file of this size."""
        if len(data) % ENTRY_BYTES:
            raise CorruptIndex(f"{len(data)} bytes are no whole number of entries")
        both = array("i")
        both.frombytes(data)
        if sys.byteorder == "little":
            both.byteswap()
        index = cls(base_offset)
        index._offsets, index._positions = both[0::2], both[1::2]
        for column in (index._offsets, index._positions):
            if not is_ascending(column) or (column and column[0] < 0):
                raise CorruptIndex("entries are not ascending")
        if index._positions and index._positions[-1] >= log_size_bytes:
            raise CorruptIndex("an entry points behind the end of the log")
        return index
