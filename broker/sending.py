"""Sends answers that carry slices of log files: from the file to the socket, without a way through Python.

sendfile goes past the transport, straight to the socket, so it waits until the transport holds nothing back. It uses a
descriptor of its own for the same socket, which can be watched for room while the transport watches the other. A client
that does not read thus holds no records in memory at all, only an open file.

docs/performance.md tells what it saves against reading the slice and writing it.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kohort.storage.open_files import LogSlice

if TYPE_CHECKING:
    import asyncio

MIN_BYTES = 16_384  # below, one read and one write are cheaper
MSG_MORE = getattr(socket, "MSG_MORE", 0)


class CutShort(Exception):
    """A log file ended before the slice did: what was promised cannot be sent."""


def read_parts(parts: list[Any]) -> bytes:
    """All parts in one piece."""
    return b"".join([part.read() if type(part) is LogSlice else part for part in parts])


class FileSender:
    """The way around the transport of one connection. One answer at a time."""

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
        self._parts: deque[Any] = deque()
        self._is_watching = False
        self._socket = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
        self._socket.setblocking(False)

    def send(self, parts: list[Any]) -> bool:
        """True if everything was sent at once; else `on_done` is called when it is. May raise CutShort."""
        small: list[bytes] = []
        for part in parts:
            if type(part) is not LogSlice:
                small.append(part)
                continue
            self._parts.append(b"".join(small))
            self._parts.append(part)
            small = []
        self._parts.append(b"".join(small))
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
        """Send what the socket takes; True if that was all."""
        if self._transport.get_write_buffer_size():
            return False
        parts = self._parts
        while parts:
            part = parts[0]
            try:
                if type(part) is LogSlice:
                    sent = self._send_slice(part)
                else:
                    sent = self._socket.send(part, MSG_MORE if len(parts) > 1 else 0) if part else 0
                    parts[0] = part[sent:]
            except (BlockingIOError, InterruptedError):
                return False
            except OSError:  # the client is gone; the transport finds out by itself
                self._drop()
                return True
            if not len(parts[0]):
                parts.popleft()
                if type(part) is LogSlice:
                    part.close()
        return True

    def _send_slice(self, part: LogSlice) -> int:
        descriptor = part.file.fileno()
        if descriptor >= 0:
            sent = os.sendfile(self._socket.fileno(), descriptor, part.position, part.length)
        else:  # a simulated disk
            sent = self._socket.send(part.file.pread(part.length, part.position))
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
        for part in self._parts:
            if type(part) is LogSlice:
                part.close()
        self._parts.clear()

    def close(self) -> None:
        """Let go of the socket and of what was not sent."""
        self._unwatch()
        self._drop()
        self._socket.close()
