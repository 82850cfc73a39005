"""The HTTP port: few connections, small requests, and answers in the order of the requests."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from kohort.broker.broker import Broker
from kohort.broker.config import load_config
from kohort.broker.http import endpoint
from kohort.broker.http.endpoint import HttpEndpoint
from kohort.broker.http.site import HttpAnswer, HttpRequest, Site, json_answer, text_answer
from kohort.broker.metrics import PER_STEP, Metrics
from kohort.broker.server import Server
from kohort.storage.disk import RealDisk

GET = b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n"
CLOSE = b"GET /metrics HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest_asyncio.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    made = Server(Broker(load_config(overrides=settings(tmp_path, "kohort.http.port=0")), RealDisk()))
    await made.start()
    yield made
    await made.stop()


def settings(folder: Path, *others: str) -> list[str]:
    return [f"log.dirs={folder}", "listeners=PLAINTEXT://127.0.0.1:0", *others]


async def connect(server: Server, *, ask: bytes = b"") -> Streams:
    assert server.http_address is not None
    reader, writer = await asyncio.open_connection(*server.http_address)
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


async def test_more_connections_than_there_are_scrapers_are_closed(server: Server) -> None:
    silent = [await connect(server) for _ in range(endpoint.MAX_CONNECTIONS)]
    assert await told(await connect(server, ask=CLOSE)) == b""
    silent[0][1].write(CLOSE)
    assert (await told(silent[0])).startswith(b"HTTP/1.1 200 OK")
    assert (await told(await connect(server, ask=CLOSE))).startswith(b"HTTP/1.1 200 OK")
    for _, writer in silent:
        writer.close()


async def test_a_connection_that_does_not_ask_or_not_to_the_end_is_closed(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "TIMEOUT_S", 0.05)
    for begun in (b"", GET[:-1]):
        assert await told(await connect(server, ask=begun)) == b""


async def test_a_connection_can_ask_again_and_is_closed_when_it_is_silent(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "TIMEOUT_S", 0.5)
    assert (await told(await connect(server, ask=GET + GET))).count(b"HTTP/1.1 200 OK") == 2


async def test_a_connection_can_ask_again_after_it_has_got_its_answer(server: Server) -> None:
    reader, writer = await connect(server)
    for _ in range(3):
        writer.write(GET)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK")
        await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]))
    writer.close()


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /metrics " + b"x" * (endpoint.MAX_HEAD_BYTES + 1), b"431"),
        (b"GET /metrics HTTP/1.1\r\n\r\n", b"400"),  # without the name of a host
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"400"),  # TLS
        (b"POST /metrics HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n", b"405"),
        (b"GET /elsewhere HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n", b"404"),
        (
            b"POST /metrics HTTP/1.1\r\nHost: here\r\nContent-Length: 9999999\r\n\r\n"
            + b"x" * (endpoint.MAX_BODY_BYTES + 1),
            b"413",
        ),
    ],
)
async def test_what_cannot_be_answered_is_told_so_and_the_connection_is_closed(
    server: Server, sent: bytes, status: bytes
) -> None:
    assert (await told(await connect(server, ask=sent))).startswith(b"HTTP/1.1 " + status)


async def test_a_handler_that_fails_is_logged_and_others_are_answered(caplog: pytest.LogCaptureFixture) -> None:
    site = Site()
    site.add("GET", "/broken", _broken)
    site.add("PUT", "/groups/{group}/members/{member}", _parts)
    assert (await ask(site, b"GET /broken")).startswith(b"HTTP/1.1 500")
    assert "this is a bug" in caplog.text
    found = await ask(site, b"PUT /groups/a%2Fb/members/m%201?x=1&y=a+b", b'{"z": 2}')
    assert found.endswith(b'["a/b", "m 1", "1", "a b", "{\\"z\\": 2}"]\n')


async def test_an_answer_to_head_has_no_body() -> None:
    site = Site()
    site.add("GET", "/here", _here)
    found = await ask(site, b"HEAD /here")
    assert b"Content-Length: 4" in found
    assert found.endswith(b"\r\n\r\n")


async def _broken(request: HttpRequest) -> HttpAnswer:
    raise ZeroDivisionError


async def _here(request: HttpRequest) -> HttpAnswer:
    return text_answer("here")


async def _parts(request: HttpRequest) -> HttpAnswer:
    return json_answer([*request.parts.values(), *request.query.values(), request.body.decode()])


async def ask(site: Site, first_line: bytes, body: bytes = b"") -> bytes:
    listener = await asyncio.get_running_loop().create_server(lambda: HttpEndpoint(site, set()), "127.0.0.1", 0)
    async with listener:
        reader, writer = await asyncio.open_connection(*listener.sockets[0].getsockname()[:2])
        head = b"%s HTTP/1.1\r\nHost: here\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
        writer.write(head % (first_line, len(body)) + body)
        return await told((reader, writer))


async def test_the_older_name_of_the_setting_still_opens_the_port(tmp_path: Path) -> None:
    server = Server(Broker(load_config(overrides=settings(tmp_path, "kohort.metrics.port=0")), RealDisk()))
    await server.start()
    try:
        assert (await told(await connect(server, ask=CLOSE))).startswith(b"HTTP/1.1 200 OK")
    finally:
        await server.stop()


async def test_the_text_is_made_in_steps(server: Server) -> None:
    server.broker.catalog.create("t", 3 * PER_STEP, {})
    for partition in server.broker.catalog.get("t").partitions:  # type: ignore[union-attr]
        assert partition.log.size_bytes == 0
    assert isinstance(server.metrics, Metrics)
    steps = list(server.metrics.lines())
    assert steps.count("") > 2
    text = (await told(await connect(server, ask=CLOSE))).decode().partition("\r\n\r\n")[2]
    assert "" not in text.splitlines()
    assert 'kohort_log_size_bytes{topic="t"} 0' in text


class Watched(HttpEndpoint):
    """Says when the connection has ended."""

    ended: asyncio.Event

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.ended.set()


async def _is_cut_off(site: Site, asked: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client asks, and reads nothing."""
    monkeypatch.setattr(endpoint, "STALLED_S", 0.05)
    monkeypatch.setattr(Watched, "ended", asyncio.Event(), raising=False)
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(lambda: Watched(site, set()), "127.0.0.1", 0)
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        client.setblocking(False)
        await loop.sock_connect(client, listening.sockets[0].getsockname())
        await loop.sock_sendall(client, asked)
        await asyncio.wait_for(Watched.ended.wait(), 30)
    listening.close()


async def test_answers_that_nobody_reads_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    site, asked = Site(), []

    async def large(request: HttpRequest) -> HttpAnswer:
        asked.append(request.path)
        return text_answer("x" * 8_000_000)

    site.add("GET", "/large", large)
    await _is_cut_off(site, b"GET /large HTTP/1.1\r\nHost: here\r\n\r\n" * 500, monkeypatch)
    assert len(asked) < 3


async def test_a_stream_that_nobody_reads_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    site, parts = Site(), []

    async def endless() -> AsyncGenerator[bytes, None]:
        try:
            while True:
                yield b"x" * 1_000_000
        finally:
            parts.append("closed")

    async def stream(request: HttpRequest) -> HttpAnswer:
        return text_answer("")._replace(stream=endless())

    site.add("GET", "/stream", stream)
    await _is_cut_off(site, b"GET /stream HTTP/1.1\r\nHost: here\r\n\r\n", monkeypatch)
    assert parts == ["closed"]
