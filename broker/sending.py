"""Sends answers that carry slices of log files: the kernel copies them from the file to the socket (sendfile).

sendfile writes to the socket directly, past the asyncio transport, so it waits until the transport's buffer is empty.
It uses a second file descriptor of the same socket, because the event loop can watch that one for room while the
transport watches the first. For a client that reads slowly, no records are held in memory, only an open file.

docs/performance.md says what this saves compared with reading the slice and writing it.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kohort.storage.open_files import LogSlice

if TYPE_CHECKING:
    import asyncio

Part = bytes | LogSlice

MAX_BYTES_PER_TURN = 4_194_304  # a millisecond or two
MIN_BYTES = 16_384  # for smaller answers, one read and one write are cheaper
MSG_MORE = getattr(socket, "MSG_MORE", 0)


class CutShort(Exception):
    """A log file is shorter than the slice of it that was to be sent. The answer cannot be finished."""


def read_parts(parts: Iterable[Part]) -> bytes:
    """All parts as one bytes object; slices are read from their files."""
    return b"".join([part.read() if isinstance(part, LogSlice) else part for part in parts])


def join_small(parts: Iterable[Part]) -> list[Part]:
    """The same answer in as few parts as possible: slices, and all bytes between two slices as one part."""
    joined: list[Part] = []
    small: list[bytes] = []
    for part in parts:
        if isinstance(part, LogSlice):
            joined += (b"".join(small), part)
            small = []
        else:
            small.append(part)
    joined.append(b"".join(small))
    return joined


def close_parts(parts: Iterable[object]) -> None:
    """Close the slices of an answer that is not sent."""
    for part in parts:
        if isinstance(part, LogSlice):
            part.close()


class FileSender:
    """Sends the large answers of one connection, past its transport, one answer at a time."""

    __slots__ = ("_is_watching", "_loop", "_on_done", "_parts", "_socket", "_transport")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        transport: asyncio.Transport,
        on_done: Callable[[CutShort | None], None],
    ) -> None:
        self._loop = loop
        self._transport = transport
        self._on_done = on_done
        self._parts: deque[Part | memoryview] = deque()
        self._is_watching = False
        self._socket = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
        self._socket.setblocking(False)

    @property
    def descriptor(self) -> int:
        return self._socket.fileno()

    @property
    def unsent_bytes(self) -> int:
        """Without the slices, which are in files."""
        return sum(len(part) for part in self._parts if not isinstance(part, LogSlice))

    def send(self, parts: list[Part]) -> bool:
        """Send the parts. True: all was sent at once. False: `on_done` is called when it is. May raise CutShort."""
        self._parts += join_small(parts)
        if self._send_some():
            return True
        self._loop.add_writer(self._socket.fileno(), self._go_on)
        self._is_watching = True
        return False

    def _go_on(self) -> None:
        problem = None
        try:
            if not self._send_some():
                return
        except CutShort as cut:
            problem = cut
        self._unwatch()
        self._on_done(problem)

    def _send_some(self) -> bool:
        """Send as much as the socket takes, MAX_BYTES_PER_TURN at most; True if everything is sent."""
        if self._transport.get_write_buffer_size():
            return False
        parts = self._parts
        left = MAX_BYTES_PER_TURN  # a client that reads as fast as we send must not keep the event loop
        while parts:
            if left <= 0:
                return False
            part = parts[0]
            try:
                if isinstance(part, LogSlice):
                    left -= self._send_slice(part, left)
                    if part.length:
                        continue
                    part.close()
                elif part:
                    data = part if len(part) <= left else memoryview(part)[:left]
                    sent = self._socket.send(data, MSG_MORE if len(parts) > 1 else 0)
                    left -= sent
                    if sent < len(part):
                        parts[0] = memoryview(part)[sent:]  # no copy
                        continue
                parts.popleft()
            except (BlockingIOError, InterruptedError):
                return False
            except OSError:  # the client is gone; the event loop tells the transport
                self._drop()
                return True
        return True

    def _send_slice(self, part: LogSlice, at_most: int) -> int:
        descriptor = part.file.fileno()
        length = min(part.length, at_most)
        if descriptor >= 0:
            sent = os.sendfile(self._socket.fileno(), descriptor, part.position, length)
        else:  # a simulated disk
            sent = self._socket.send(part.file.pread(length, part.position))
        if sent == 0:
            raise CutShort(f"{part.file.path} ends before byte {part.position + part.length}")
        part.position += sent
        part.length -= sent
        return sent

    def _unwatch(self) -> None:
        if self._is_watching:
            self._is_watching = False
            self._loop.remove_writer(self._socket.fileno())

    def _drop(self) -> None:
        close_parts(self._parts)
        self._parts.clear()

    def close(self) -> None:
        """Close the second descriptor of the socket, and the files of slices that were not sent."""
        self._unwatch()
        self._drop()
        self._socket.close()
