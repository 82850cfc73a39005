"""Answers GET /metrics in the text format, and nothing else.

A scraper makes a connection, asks and gets its answer within TIMEOUT_S, or the connection is closed. There are
MAX_CONNECTIONS at a time: scrapers are few, and others must not take the broker's descriptors and time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from time import monotonic_ns
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kohort.broker.metrics import Metrics

MAX_REQUEST_BYTES: Final = 8192
MAX_CONNECTIONS: Final = 20
TIMEOUT_S: Final = 10.0
SLICE_NS: Final = 5_000_000


class MetricsEndpoint(asyncio.Protocol):
    """Just enough HTTP/1.1 for a scraper: one request, one answer, then the connection is closed."""

    def __init__(self, metrics: Metrics, others: set[MetricsEndpoint]) -> None:
        """`others` are all connections that ask for metrics."""
        self._metrics = metrics
        self._others = others
        self._received = b""
        self._is_asked = False
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        if len(self._others) >= MAX_CONNECTIONS:
            self._transport.abort()
            return
        self._others.add(self)
        self._deadline = asyncio.get_running_loop().call_later(TIMEOUT_S, self._transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._others.discard(self)
        if self._deadline is not None:
            self._deadline.cancel()

    def data_received(self, data: bytes) -> None:
        if self._is_asked:
            return
        self._received += data
        is_whole = b"\r\n\r\n" in self._received
        if not is_whole and len(self._received) <= MAX_REQUEST_BYTES:
            return
        self._is_asked = True
        words = self._received.split(b"\r\n", 1)[0].split()
        if is_whole and len(words) == 3 and words[0] == b"GET" and words[1].split(b"?")[0] == b"/metrics":
            self._collect(self._metrics.lines(), [])
        else:
            self._answer("404 Not Found", "only GET /metrics is here\n")

    def _collect(self, lines: Iterator[str], collected: list[str]) -> None:
        """Make the text; with many topics and groups between the requests of others."""
        if self._transport.is_closing():
            return
        until = monotonic_ns() + SLICE_NS
        for line in lines:
            if line:
                collected.append(line)
            if monotonic_ns() > until:
                asyncio.get_running_loop().call_soon(self._collect, lines, collected)
                return
        self._answer("200 OK", "\n".join(collected) + "\n")

    def _answer(self, status: str, body: str) -> None:
        raw = body.encode()
        head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
        self._transport.write(f"{head}Content-Length: {len(raw)}\r\nConnection: close\r\n\r\n".encode() + raw)
        self._transport.close()
