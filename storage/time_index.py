"""A sparse map from timestamps to offsets, for one segment: where to start looking for a time.

The `.timeindex` file is a run of entries of 12 bytes, big-endian:

     0  timestamp        int64   the greatest timestamp in the segment so far
     8  relative offset  int32   last offset of the batch that holds it - base offset of the segment

Both columns ascend, the first one strictly: no batch before the offset of an entry has a record with its timestamp or a
later one. The last entry of a rolled segment has its greatest timestamp.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from struct import Struct
from typing import Final

from kohort.protocol.record_batch import NO_TIMESTAMP
from kohort.storage.offset_index import CorruptIndex

_ENTRY: Final = Struct(">qi")
ENTRY_BYTES: Final = 12


class TimeIndex:
    """Entries of one segment in memory."""

    __slots__ = ("_offsets", "_timestamps", "base_offset")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self._timestamps: list[int] = []
        self._offsets: list[int] = []

    def __len__(self) -> int:
        return len(self._timestamps)

    def maybe_append(self, timestamp: int, last_offset: int) -> None:
        """Add an entry with the greatest timestamp so far and its batch, unless the last entry has this timestamp."""
        if timestamp > (self._timestamps[-1] if self._timestamps else NO_TIMESTAMP):
            self._timestamps.append(timestamp)
            self._offsets.append(last_offset)

    def lookup(self, timestamp: int) -> tuple[int, int]:
        """The last entry at or before `timestamp`: no record before its batch has that timestamp or a later one."""
        slot = bisect_right(self._timestamps, timestamp) - 1
        if slot < 0:
            return NO_TIMESTAMP, self.base_offset
        return self._timestamps[slot], self._offsets[slot]

    def last(self) -> tuple[int, int]:
        """(greatest timestamp, last offset of its batch); (-1, base offset) if there is none."""
        if not self._timestamps:
            return NO_TIMESTAMP, self.base_offset
        return self._timestamps[-1], self._offsets[-1]

    def truncate(self, next_offset: int) -> None:
        """Forget entries of batches at or after `next_offset`."""
        while self._offsets and self._offsets[-1] >= next_offset:
            self._offsets.pop()
            self._timestamps.pop()

    def entries(self) -> list[tuple[int, int]]:
        """All (timestamp, last offset)."""
        return list(zip(self._timestamps, self._offsets, strict=True))

    def to_bytes(self) -> bytes:
        """The content of the `.timeindex` file."""
        return b"".join(_ENTRY.pack(timestamp, offset - self.base_offset) for timestamp, offset in self.entries())

    @classmethod
    def from_bytes(cls, base_offset: int, data: bytes) -> TimeIndex:
        """Read a `.timeindex` file; CorruptIndex if it is not valid."""
        if len(data) % ENTRY_BYTES:
            raise CorruptIndex(f"{len(data)} bytes are no whole number of entries")
        index = cls(base_offset)
        for timestamp, relative in _ENTRY.iter_unpack(data):
            index._timestamps.append(timestamp)
            index._offsets.append(base_offset + relative)
        if any(later <= earlier for earlier, later in pairwise(index._timestamps)):
            raise CorruptIndex("timestamps are not ascending")
        if any(later < earlier for earlier, later in pairwise([base_offset, *index._offsets])):
            raise CorruptIndex("offsets are not ascending")
        return index
