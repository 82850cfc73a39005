"""Recognizes messages that come again and again with only some numbers changed, and reads the numbers, in one step.

A member commits offsets of the same partitions over and over, and its requests differ in those offsets alone. A stencil
is laid over the bytes of such a message: it shows the numbers, and compares the bytes between them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kohort.protocol.structs import shared_struct

_changed_int64 = re.compile(rb"\xff{8}").finditer


class Stencil:
    __slots__ = ("_covered", "_size", "_unpack")

    def __init__(self, data: bytes, places: Sequence[int]) -> None:
        """`places`: where each int64 that may change begins in `data`, in ascending order."""
        form, position = ">", 0
        for place in places:
            form += f"{place - position}sq"
            position = place + 8
        form += f"{len(data) - position}s"
        self._unpack = shared_struct(form).unpack
        self._size = len(data)
        self._covered = self._unpack(data)[::2]

    def read(self, data: bytes) -> tuple[int, ...] | None:
        """The numbers, or None if any other byte has changed."""
        if len(data) != self._size:
            return None
        seen = self._unpack(data)
        return seen[1::2] if seen[::2] == self._covered else None


def places_of_change(low: bytes, high: bytes) -> list[int]:
    """Where int64 fields begin, given two encodings of a message: in `low` these fields are 0, in `high` -1."""
    difference = int.from_bytes(low, "big") ^ int.from_bytes(high, "big")
    return [found.start() for found in _changed_int64(difference.to_bytes(len(low), "big"))]
