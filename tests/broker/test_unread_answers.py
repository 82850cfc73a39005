"""Clients that do not read their answers, and requests that are larger than those of any honest client."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from struct import pack

import pytest
import pytest_asyncio

from kohort.broker import server as server_module
from kohort.broker.broker import Broker
from kohort.broker.config import load_config
from kohort.broker.connection import MAX_OTHER_REQUEST_BYTES, Connection
from kohort.broker.server import Server
from kohort.client.client import Client
from kohort.client.errors import ClientError
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.codec import request_encoder
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.headers import request_header
from kohort.protocol.messages.api_versions import ApiVersionsRequest
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.protocol.messages.metadata import MetadataRequest
from kohort.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kohort.storage.disk import RealDisk
from tests.clients.kohort import KohortProcess

VERSION = 9
PARTITIONS = 10_000  # an answer of some 300 kB


@pytest_asyncio.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    settings = [f"log.dirs={tmp_path}", "listeners=PLAINTEXT://127.0.0.1:0"]
    made = Server(Broker(load_config(overrides=settings), RealDisk()))
    await made.start()
    made.broker.catalog.create("t", PARTITIONS, {})
    yield made
    await made.stop()


async def ask_and_never_read(server: Server) -> tuple[socket.socket, Connection]:
    """Asks for more than the kernel keeps for a connection. Returns when the server notices that nobody reads."""
    loop = asyncio.get_running_loop()
    before = set(server._connections)
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.setblocking(False)
    await loop.sock_connect(client, server.addresses[0])
    body = request_header(ApiKey.METADATA, VERSION, 1, "x") + request_encoder(ApiKey.METADATA, VERSION)(
        MetadataRequest(None)
    )
    await loop.sock_sendall(client, (pack(">i", len(body)) + body) * 100)
    while not any(connection.held_bytes for connection in server._connections - before):
        await asyncio.sleep(0)
    (connection,) = server._connections - before
    return client, connection


@pytest.mark.asyncio
async def test_a_client_that_reads_nothing_is_not_answered_any_more(server: Server) -> None:
    client, connection = await ask_and_never_read(server)
    held_bytes = connection.held_bytes
    for _ in range(100):
        await asyncio.sleep(0)
    assert connection.held_bytes == held_bytes < 1_000_000  # one answer, and not a hundred
    client.close()


@pytest.mark.asyncio
async def test_those_who_leave_too_many_answers_unread_are_closed(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    made = [await ask_and_never_read(server) for _ in range(4)]
    server._sweep()
    assert not any(connection.is_closed for _, connection in made)
    monkeypatch.setattr(server_module, "MAX_HELD_BYTES", 2 * max(each.held_bytes for _, each in made))
    server._sweep()
    assert sum(connection.is_closed for _, connection in made) == 2
    assert caplog.text.count("bytes of memory for a request that is not read yet") == 2
    for client, _ in made:
        client.close()


@pytest.mark.asyncio
async def test_those_who_send_half_of_too_large_requests_are_closed(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "MAX_HELD_BYTES", 5_000_000)
    writers = []
    for size in (2_000_000, 2_500_000, 1_500_000):
        _, writer = await asyncio.open_connection(*server.addresses[0])
        writer.write(pack(">ihhi", 100_000_000, ApiKey.PRODUCE, 9, 1) + bytes(size))
        writers.append(writer)
    while sum(connection.held_bytes for connection in server._connections) < 6_000_000:
        await asyncio.sleep(0)
    server._sweep()
    closed = [connection for connection in server._connections if connection.is_closed]
    assert [connection.held_bytes for connection in closed] == [2_500_008]
    for writer in writers:
        writer.close()


def test_a_request_that_is_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with KohortProcess(tmp_path) as broker, Client(broker.address) as other:
        with Client(broker.address) as client:
            client.send_raw(pack(">ihhi", MAX_OTHER_REQUEST_BYTES + 1, ApiKey.METADATA, 9, 1))
            with pytest.raises(ClientError, match="closed"):
                client.receive_frame()
        assert "only Produce may have more than 16777216 bytes" in broker.log_tail()
        other.send(ApiKey.CREATE_TOPICS, CreateTopicsRequest([CreatableTopic("t", 1, 1)]))
        data = TopicProduceData("t", partition_data=[PartitionProduceData(0, bytes(MAX_OTHER_REQUEST_BYTES))])
        answer = other.send(ApiKey.PRODUCE, ProduceRequest(None, -1, 10_000, [data]), 9)
        assert answer.responses[0].partition_responses[0].error_code != ErrorCode.NONE
        assert other.send(ApiKey.API_VERSIONS, ApiVersionsRequest("test", "1.0"), 3).api_keys
