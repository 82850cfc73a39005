"""localhost has two addresses on most machines, and one on a machine without IPv6."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from kohort.broker import server as server_module
from kohort.broker.broker import Broker
from kohort.broker.config import load_config
from kohort.broker.server import CannotListen, Server
from kohort.storage.disk import RealDisk

ELSEWHERE = "192.0.2.1"  # no machine has this address


def a_server(folder: Path) -> Server:
    settings = [f"log.dirs={folder}", "listeners=PLAINTEXT://localhost:0"]
    return Server(Broker(load_config(overrides=settings), RealDisk()))


@pytest.mark.asyncio
@pytest.mark.parametrize("addresses", [["127.0.0.1", ELSEWHERE], [ELSEWHERE, "127.0.0.1"]])
async def test_one_address_that_the_machine_has_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, addresses: list[str]
) -> None:
    monkeypatch.setattr(server_module, "_addresses", lambda _: addresses)
    server = a_server(tmp_path)
    await server.start()
    ((host, port),) = server.addresses
    assert host == "localhost"
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.close()
    await server.stop()


@pytest.mark.asyncio
async def test_both_addresses_of_localhost_have_the_same_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_addresses", lambda _: ["127.0.0.1", "127.0.0.2"])
    server = a_server(tmp_path)
    await server.start()
    ((_, port),) = server.addresses
    for address in ("127.0.0.1", "127.0.0.2"):
        _, writer = await asyncio.open_connection(address, port)
        writer.close()
    await server.stop()


@pytest.mark.asyncio
async def test_no_address_that_the_machine_has_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_addresses", lambda _: [ELSEWHERE])
    with pytest.raises(CannotListen, match="this machine has no such address"):
        await a_server(tmp_path).start()


def test_a_localhost_that_nobody_can_resolve_is_the_usual_address(monkeypatch: pytest.MonkeyPatch) -> None:
    def getaddrinfo(*arguments: object, **more: object) -> object:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    assert server_module._addresses("localhost") == ["127.0.0.1"]
    assert server_module._addresses("") == [None]
