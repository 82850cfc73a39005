"""What both indexes of a segment have in common: entries of two numbers, kept as the bytes of their file.

A full index has hundreds of thousands of entries. As bytes they are read and written without a look at each of them,
and a search unpacks a few. So reading checks a sample only, and a caller must check each entry that it uses against the
log. Even in a damaged index the entry that `_last_up_to` finds is not behind what was asked for.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import partial
from itertools import pairwise
from struct import Struct
from typing import ClassVar, Final, TypeVar

SAMPLE: Final = 1024

Index = TypeVar("Index", bound="IndexEntries")


class CorruptIndex(ValueError):
    """The file is no index of this segment; it can be rebuilt from the log."""


class IndexEntries:
    """Entries in the order of the log: both numbers ascend. Offsets are relative to the segment's base offset."""

    __slots__ = ("_data", "_last", "base_offset")

    layout: ClassVar[Struct]

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self._data = bytearray()
        self._last: tuple[int, int] | None = None

    def __len__(self) -> int:
        return len(self._data) // self.layout.size

    def _append(self, first: int, second: int) -> None:
        self._data += self.layout.pack(first, second)
        self._last = first, second

    def _at(self, slot: int) -> tuple[int, int]:
        first, second = self.layout.unpack_from(self._data, slot * self.layout.size)
        return first, second

    def _last_up_to(self, first: int) -> tuple[int, int] | None:
        """The last entry whose first number is at most this."""
        places = range(0, len(self._data), self.layout.size)
        # Entries compare as tuples, and a tuple without the second number comes before all those with it.
        slot = bisect_left(places, (first + 1,), key=partial(self.layout.unpack_from, self._data))
        return self._at(slot - 1) if slot else None

    def _pairs(self) -> list[tuple[int, int]]:
        return list(self.layout.iter_unpack(self._data))

    def to_bytes(self) -> bytes:
        """The content of the file."""
        return bytes(self._data)

    @classmethod
    def _read(cls: type[Index], base_offset: int, data: bytes) -> Index:
        """CorruptIndex unless the entries can be those of an index."""
        if len(data) % cls.layout.size:
            raise CorruptIndex(f"{len(data)} bytes are no whole number of entries")
        index = cls(base_offset)
        index._data += data
        count = len(index)
        if count:
            sample = [index._at(slot) for slot in range(0, count, -(-count // SAMPLE))]
            index._last = index._at(count - 1)
            for before, after in pairwise([(0, 0), *sample, index._last]):
                if before[0] > after[0] or before[1] > after[1]:
                    raise CorruptIndex("entries are not ascending")
        return index
