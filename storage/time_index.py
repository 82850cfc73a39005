"""A sparse map from timestamps to offsets, for one segment: where to start looking for a time.

The `.timeindex` file is a run of entries of 12 bytes, big-endian:

     0  timestamp        int64   the greatest timestamp in the segment so far
     8  relative offset  int32   last offset of the batch that holds it - base offset of the segment

Both columns ascend, the first one strictly: no batch before the offset of an entry has a record with its timestamp or a
later one. The last entry of a rolled segment has its greatest timestamp.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from typing import Final

from kohort.protocol.record_batch import NO_TIMESTAMP
from kohort.storage.offset_index import CorruptIndex, is_ascending

TIMESTAMP_BYTES: Final = 8
OFFSET_BYTES: Final = 4
ENTRY_BYTES: Final = TIMESTAMP_BYTES + OFFSET_BYTES


class TimeIndex:
    """Entries of one segment in memory."""

    __slots__ = ("_offsets", "_timestamps", "base_offset")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self._timestamps = array("q")
        self._offsets = array("i")  # relative to the base offset

    def __len__(self) -> int:
        return len(self._timestamps)

    def maybe_append(self, timestamp: int, last_offset: int) -> None:
        """Add an entry with the greatest timestamp so far and its batch, unless the last entry has this timestamp."""
        if timestamp > (self._timestamps[-1] if self._timestamps else NO_TIMESTAMP):
            self._timestamps.append(timestamp)
            self._offsets.append(last_offset - self.base_offset)

    def lookup(self, timestamp: int) -> tuple[int, int]:
        """The last entry at or before `timestamp`: no record before its batch has that timestamp or a later one."""
        slot = bisect_right(self._timestamps, timestamp) - 1
        if slot < 0:
            return NO_TIMESTAMP, self.base_offset
        return self._timestamps[slot], self.base_offset + self._offsets[slot]

    def last(self) -> tuple[int, int]:
        """(greatest timestamp, last offset of its batch); (-1, base offset) if there is none."""
        if not self._timestamps:
            return NO_TIMESTAMP, self.base_offset
        return self._timestamps[-1], self.base_offset + self._offsets[-1]

    def truncate(self, next_offset: int) -> None:
        """Forget entries of batches at or after `next_offset`."""
        while self._offsets and self.base_offset + self._offsets[-1] >= next_offset:
            self._offsets.pop()
            self._timestamps.pop()

    def entries(self) -> list[tuple[int, int]]:
        """All (timestamp, last offset)."""
        base = self.base_offset
        return [(timestamp, base + offset) for timestamp, offset in zip(self._timestamps, self._offsets, strict=True)]

    def to_bytes(self) -> bytes:
        """The content of the `.timeindex` file. Copied byte column by byte column: a full index has 262,144 entries."""
        data = bytearray(ENTRY_BYTES * len(self))
        timestamps, offsets = _big_endian(self._timestamps), _big_endian(self._offsets)
        for column in range(TIMESTAMP_BYTES):
            data[column::ENTRY_BYTES] = timestamps[column::TIMESTAMP_BYTES]
        for column in range(OFFSET_BYTES):
            data[TIMESTAMP_BYTES + column :: ENTRY_BYTES] = offsets[column::OFFSET_BYTES]
        return bytes(data)

    @classmethod
    def from_bytes(cls, base_offset: int, data: bytes) -> TimeIndex:
        """Read a `.timeindex` file; CorruptIndex if it is not valid."""
        if len(data) % ENTRY_BYTES:
            raise CorruptIndex(f"{len(data)} bytes are no whole number of entries")
        count = len(data) // ENTRY_BYTES
        timestamps, offsets = bytearray(TIMESTAMP_BYTES * count), bytearray(OFFSET_BYTES * count)
        for column in range(TIMESTAMP_BYTES):
            timestamps[column::TIMESTAMP_BYTES] = data[column::ENTRY_BYTES]
        for column in range(OFFSET_BYTES):
            offsets[column::OFFSET_BYTES] = data[TIMESTAMP_BYTES + column :: ENTRY_BYTES]
        index = cls(base_offset)
        index._timestamps = _from_big_endian("q", timestamps)
        index._offsets = _from_big_endian("i", offsets)
        if not is_ascending(index._timestamps):
            raise CorruptIndex("timestamps are not ascending")
        if not is_ascending(index._offsets) or (index._offsets and index._offsets[0] < 0):
            raise CorruptIndex("offsets are not ascending")
        return index


def _big_endian(column: array[int]) -> bytes:
    if sys.byteorder == "little":
        column = column[:]
        column.byteswap()
    return column.tobytes()


def _from_big_endian(kind: str, data: bytearray) -> array[int]:
    column = array(kind)
    column.frombytes(data)
    if sys.byteorder == "little":
        column.byteswap()
    return column
