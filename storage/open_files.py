"""Open files of logs that are lent out: slices to send, and a bound on how many rolled segments stay open."""

from __future__ import annotations

from collections import OrderedDict

from kohort.storage.disk import File
from kohort.storage.segment import Segment


class LogSlice:
    """Bytes of a log file, to be read or sent from `file` with sendfile: `close` it when done."""

    __slots__ = ("file", "length", "position")

    def __init__(self, file: File, position: int, length: int) -> None:
        file.retain()
        self.file = file
        self.position = position
        self.length = length

    def __len__(self) -> int:
        return self.length

    def read(self) -> bytes:
        """All the bytes; this closes the slice."""
        try:
            return self.file.pread(self.length, self.position)
        finally:
            self.file.close()

    def close(self) -> None:
        """Let go of the file without reading."""
        self.file.close()


class OpenFiles:
    """Keeps the descriptors of the rolled segments that were read last, and closes the others."""

    def __init__(self, capacity: int = 128) -> None:
        self.capacity = capacity
        self._segments: OrderedDict[int, Segment] = OrderedDict()

    def touch(self, segment: Segment) -> None:
        """This segment is in use; the one that was not for the longest time may have to go."""
        self._segments[id(segment)] = segment
        self._segments.move_to_end(id(segment))
        while len(self._segments) > self.capacity:
            self._segments.popitem(last=False)[1].release_file()

    def forget(self, segment: Segment) -> None:
        """Close the segment's file."""
        self._segments.pop(id(segment), None)
        segment.release_file()
