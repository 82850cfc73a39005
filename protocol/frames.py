"""Splits a stream of bytes into frames: an int32 length, then that many bytes.

    | length int32 | header | body |

The length is checked as soon as its four bytes are there, so at most one frame of the greatest size waits for its end.
A frame is returned as a bytes object of its own, because decoders keep slices of it.

The bytes of a large frame are gathered in a BytesIO. It grows with what has arrived, not with what was announced, and
gives its bytes out without a copy: to copy 100 MB would take 60 ms.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from struct import Struct

from kohort.protocol.errors import MalformedMessage

_length = Struct(">i").unpack_from
_pack_length = Struct(">i").pack

LARGE_FRAME_BYTES = 1_000_000
PRODUCE = b"\0\0"  # its api key
MIN_REQUEST_BYTES = 8  # api key, version and correlation id; a request or an answer cannot be shorter


class FrameSplitter:
    """Takes the bytes that the socket gave; returns whole frames."""

    __slots__ = ("_large", "_max_bytes", "_max_other_bytes", "_missing_bytes", "rest")

    def __init__(self, max_bytes: int, max_other_bytes: int | None = None) -> None:
        """`max_bytes` is for Produce, `max_other_bytes` for requests of other APIs."""
        self._max_bytes = max_bytes
        self._max_other_bytes = max_bytes if max_other_bytes is None else min(max_bytes, max_other_bytes)
        self.rest = bytearray()  # bytes that have arrived and were not returned yet; of a large frame its length alone
        self._large: BytesIO | None = None  # the part of a large frame that has arrived
        self._missing_bytes = 0  # of the large frame

    @property
    def large_bytes(self) -> int:
        """How much of a large frame has arrived."""
        return 0 if self._large is None else self._large.tell()

    def feed(self, data: bytes) -> None:
        if self._large is None:
            self.rest += data
            return
        taken = self._large.write(memoryview(data)[: self._missing_bytes])
        self._missing_bytes -= taken
        if taken < len(data):
            self.rest += memoryview(data)[taken:]

    def next_frame(self) -> bytes | None:
        """The next whole frame, without its length; None until more bytes come."""
        rest = self.rest
        if len(rest) < 4:
            return None
        if self._large is not None:
            return None if self._missing_bytes else self._end_large(self._large)
        (length,) = _length(rest)
        check_length(length, self._max_bytes)
        end = 4 + length
        if len(rest) < end:
            if length > LARGE_FRAME_BYTES and len(rest) >= 6:
                self._begin_large(length)
            return None
        frame = bytes(memoryview(rest)[4:end])
        del rest[:end]
        return frame

    def _begin_large(self, length: int) -> None:
        rest = self.rest
        if length > self._max_other_bytes and rest[4:6] != PRODUCE:
            raise MalformedMessage(
                f"a frame of {length} bytes: only Produce may have more than {self._max_other_bytes} bytes"
            )
        self._large = BytesIO()
        self._missing_bytes = length - self._large.write(memoryview(rest)[4:])
        del rest[4:]

    def _end_large(self, large: BytesIO) -> bytes:
        self._large = None
        del self.rest[:4]
        return large.getvalue()

    def frames(self, data: bytes) -> Iterator[bytes]:
        """All frames that `data` completes."""
        self.feed(data)
        while (frame := self.next_frame()) is not None:
            yield frame


def check_length(length: int, max_bytes: int) -> None:
    if not MIN_REQUEST_BYTES <= length <= max_bytes:
        raise MalformedMessage(
            f"a frame of {length} bytes: must be between {MIN_REQUEST_BYTES} and {max_bytes} (socket.request.max.bytes)"
        )


def framed(*parts: bytes) -> bytes:
    """One frame around the parts."""
    body = b"".join(parts)
    return _pack_length(len(body)) + body
