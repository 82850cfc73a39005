"""Splits a stream of bytes into frames: an int32 length, then that many bytes.

    | length int32 | header | body |

The length is checked as soon as its four bytes are there, so at most one frame of the greatest size waits for its end.
A frame is returned as a bytes object of its own, because decoders keep slices of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from kohort.protocol.errors import MalformedMessage

_length = Struct(">i").unpack_from
_pack_length = Struct(">i").pack

MIN_REQUEST_BYTES = 8  # api key, version and correlation id; a request or an answer cannot be shorter


class FrameSplitter:
    """Takes the bytes that the socket gave; returns whole frames."""

    __slots__ = ("_max_bytes", "rest")

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self.rest = bytearray()  # bytes that have arrived and were not returned yet

    def feed(self, data: bytes) -> None:
        self.rest += data

    def next_frame(self) -> bytes | None:
        """The next whole frame, without its length; None until more bytes come."""
        rest = self.rest
        if len(rest) < 4:
            return None
        (length,) = _length(rest)
        check_length(length, self._max_bytes)
        end = 4 + length
        if len(rest) < end:
            return None
        frame = bytes(memoryview(rest)[4:end])
        del rest[:end]
        return frame

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
