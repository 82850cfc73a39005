"""A sparse map from timestamps to offsets, for one segment: where to start looking for a time.

The `.timeindex` file is a run of entries of 12 bytes, big-endian:

     0  timestamp        int64   the greatest timestamp in the segment so far
     8  relative offset  int32   last offset of the batch that holds it - base offset of the segment

Both columns ascend, the first one strictly: no batch before the offset of an entry has a record with its timestamp or a
later one. The last entry of a rolled segment has its greatest timestamp.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from kohort.protocol.record_batch import NO_TIMESTAMP
from kohort.storage.index_entries import IndexEntries

ENTRY_BYTES: Final = 12


class TimeIndex(IndexEntries):
    """Entries of one segment in memory."""

    __slots__ = ()

    layout = Struct(">qi")

    def maybe_append(self, timestamp: int, last_offset: int) -> None:
        """Add an entry with the greatest timestamp so far and its batch, unless the last entry has this timestamp."""
        if timestamp > (NO_TIMESTAMP if self._last is None else self._last[0]):
            self._append(timestamp, last_offset - self.base_offset)

    def lookup(self, timestamp: int) -> tuple[int, int]:
        """The last entry at or before `timestamp`: no record before its batch has that timestamp or a later one."""
        found, relative = self._last_up_to(timestamp) or (NO_TIMESTAMP, 0)
        return found, self.base_offset + relative

    def last(self) -> tuple[int, int]:
        """(greatest timestamp, last offset of its batch); (-1, base offset) if there is none."""
        timestamp, relative = self._last or (NO_TIMESTAMP, 0)
        return timestamp, self.base_offset + relative

    def entries(self) -> list[tuple[int, int]]:
        """All (timestamp, last offset)."""
        return [(timestamp, self.base_offset + offset) for timestamp, offset in self._pairs()]

    @classmethod
    def from_bytes(cls, base_offset: int, data: bytes) -> TimeIndex:
        """Read a `.timeindex` file; CorruptIndex if it is not valid."""
        return cls._read(base_offset, data)
