"""Slices of log files to send, and a limit on how many rolled segments stay open."""

from __future__ import annotations

from collections import OrderedDict

from kohort.storage.disk import File
from kohort.storage.segment import Segment


class LogSlice:
    """A part of a log file, to be read, or sent from `file` with sendfile. The user must `close` it."""

    __slots__ = ("file", "length", "position")

    def __init__(self, file: File, position: int, length: int) -> None:
        file.retain()
        self.file = file
        self.position = position
        self.length = length

    def __len__(self) -> int:
        return self.length

    def read(self) -> bytes:
        """Read all the bytes and close the slice."""
        try:
            return self.file.pread(self.length, self.position)
        finally:
            self.file.close()

    def close(self) -> None:
        """Close the slice without reading it."""
        self.file.close()


class OpenFiles:
    """Keeps the files of the most recently read rolled segments open, and closes the others."""

    def __init__(self, capacity: int = 128) -> None:
        self.capacity = capacity
        self._segments: OrderedDict[int, Segment] = OrderedDict()

    def touch(self, segment: Segment) -> None:
        """The segment is being used. If too many are open, close the least recently used one."""
        self._segments[id(segment)] = segment
        self._segments.move_to_end(id(segment))
        while len(self._segments) > self.capacity:
            self._segments.popitem(last=False)[1].release_file()

    def forget(self, segment: Segment) -> None:
        """Close the segment's file."""
        self._segments.pop(id(segment), None)
        segment.release_file()
