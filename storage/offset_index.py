"""A sparse map from offsets to file positions, for one segment: where to start looking for an offset.

The `.index` file is a run of entries of 8 bytes, big-endian, in the order of the log:

     0  relative offset  int32   last offset of a batch - base offset of the segment
     4  position         int32   where that batch starts in the .log file

The index is kept in memory while the segment is in use, and written when the segment is rolled or closed. After a crash
it is rebuilt from the log, so nothing depends on the file.
"""

from __future__ import annotations

from bisect import bisect_left
from struct import Struct
from typing import Final

from kohort.storage.index_entries import CorruptIndex, IndexEntries

ENTRY_BYTES: Final = 8


class OffsetIndex(IndexEntries):
    """Entries of one segment in memory."""

    __slots__ = ()

    layout = Struct(">ii")

    def append(self, last_offset: int, position: int) -> None:
        """Note that the batch which ends with `last_offset` starts at `position`."""
        relative = last_offset - self.base_offset
        assert self._last is None or (relative > self._last[0] and position > self._last[1])
        self._append(relative, position)

    def lookup(self, offset: int) -> tuple[int, int]:
        """(last offset, position) of the last entry at or before `offset`; (base offset, 0) if there is none."""
        relative, position = self._last_up_to(offset - self.base_offset) or (0, 0)
        return self.base_offset + relative, position

    def offset_at_or_after(self, position: int) -> int | None:
        """The last offset of the first batch with an entry that starts at or after `position`."""
        places = range(0, len(self._data), ENTRY_BYTES)
        slot = bisect_left(places, position, key=lambda place: self.layout.unpack_from(self._data, place)[1])
        return self.base_offset + self._at(slot)[0] if slot < len(places) else None

    def last(self) -> tuple[int, int] | None:
        """(last offset, position) of the newest entry."""
        return None if self._last is None else (self.base_offset + self._last[0], self._last[1])

    def entries(self) -> list[tuple[int, int]]:
        """All (last offset, position)."""
        return [(self.base_offset + offset, position) for offset, position in self._pairs()]

    @classmethod
    def from_bytes(cls, base_offset: int, data: bytes, log_size_bytes: int) -> OffsetIndex:
        """Read an `.index` file; CorruptIndex unless it could belong to a log file of this size."""
        index = cls._read(base_offset, data)
        if index._last is not None and index._last[1] >= log_size_bytes:
            raise CorruptIndex("an entry points behind the end of the log")
        return index
