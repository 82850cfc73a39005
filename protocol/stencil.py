"""Messages that come again and again with only some numbers changed: known, and their numbers read, in one step.

A member commits offsets of the same partitions over and over, and its requests differ in those offsets alone. A stencil
lies over the bytes of such a message: it shows the numbers, and covers what must be as it was.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kohort.protocol.structs import shared_struct

_changed_int64 = re.compile(rb"\xff{8}").finditer


class Stencil:
    __slots__ = ("_covered", "_size", "_unpack")

    def __init__(self, data: bytes, places: Sequence[int]) -> None:
        """`places`: where in `data` each int64 that may change begins, ascending."""
        form, position = ">", 0
        for place in places:
            form += f"{place - position}sq"
            position = place + 8
        form += f"{len(data) - position}s"
        self._unpack = shared_struct(form).unpack
        self._size = len(data)
        self._covered = self._unpack(data)[::2]

    def read(self, data: bytes) -> tuple[int, ...] | None:
        """The numbers, if all else is as it was."""
        if len(data) != self._size:
            return None
        seen = self._unpack(data)
        return seen[1::2] if seen[::2] == self._covered else None


def places_of_change(low: bytes, high: bytes) -> list[int]:
    """Where the int64 fields begin that are 0 in one encoding of a message and -1 in the other."""
    difference = int.from_bytes(low, "big") ^ int.from_bytes(high, "big")
    return [found.start() for found in _changed_int64(difference.to_bytes(len(low), "big"))]
