"""Connections to the metrics port: few, short, and with one small request each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from kohort.broker import metrics_endpoint
from kohort.broker.broker import Broker
from kohort.broker.config import load_config
from kohort.broker.metrics import PER_STEP, Metrics
from kohort.broker.server import Server
from kohort.storage.disk import RealDisk

GET = b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest_asyncio.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    settings = [f"log.dirs={tmp_path}", "listeners=PLAINTEXT://127.0.0.1:0", "kohort.metrics.port=0"]
    made = Server(Broker(load_config(overrides=settings), RealDisk()))
    await made.start()
    yield made
    await made.stop()


async def connect(server: Server, *, ask: bytes = b"") -> Streams:
    assert server.metrics_address is not None
    reader, writer = await asyncio.open_connection(*server.metrics_address)
    writer.write(ask)
    return reader, writer


async def told(streams: Streams) -> bytes:
    """Everything that comes until the server closes the connection."""
    reader, writer = streams
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


@pytest.mark.asyncio
async def test_more_connections_than_there_are_scrapers_are_closed(server: Server) -> None:
    silent = [await connect(server) for _ in range(metrics_endpoint.MAX_CONNECTIONS)]
    assert await told(await connect(server, ask=GET)) == b""
    silent[0][1].write(GET)
    assert (await told(silent[0])).startswith(b"HTTP/1.1 200 OK")
    assert (await told(await connect(server, ask=GET))).startswith(b"HTTP/1.1 200 OK")
    for _, writer in silent:
        writer.close()


@pytest.mark.asyncio
async def test_a_connection_that_does_not_ask_or_not_to_the_end_is_closed(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_endpoint, "TIMEOUT_S", 0.05)
    for begun in (b"", GET[:-1]):
        assert await told(await connect(server, ask=begun)) == b""


@pytest.mark.asyncio
async def test_a_request_that_is_too_long_is_no_request(server: Server) -> None:
    endless = await connect(server, ask=b"GET /metrics " + b"x" * (metrics_endpoint.MAX_REQUEST_BYTES + 1))
    assert (await told(endless)).startswith(b"HTTP/1.1 404")


@pytest.mark.asyncio
async def test_the_text_is_made_in_steps(server: Server) -> None:
    server.broker.catalog.create("t", 3 * PER_STEP, {})
    for partition in server.broker.catalog.get("t").partitions:  # type: ignore[union-attr]
        assert partition.log.size_bytes == 0
    metrics: Metrics = server.metrics
    lines = list(metrics.lines())
    assert lines.count("") >= 3
    text = (await told(await connect(server, ask=GET))).partition(b"\r\n\r\n")[2].decode()
    assert "" not in text.splitlines()
    assert 'kohort_log_size_bytes{topic="t"} 0' in text
