"""Clients that cannot be served leave one line each: who it was, what it asked for, and what to set instead."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from struct import pack

import pytest

from kohort.broker import unserved
from kohort.broker.unserved import GAPS, Unserved
from kohort.client.client import Client
from kohort.client.errors import ClientError
from kohort.protocol.headers import request_header
from tests.clients.kohort import KohortProcess

STREAMS_GROUP_HEARTBEAT, SASL_HANDSHAKE, METADATA, JOIN_GROUP = 88, 17, 3, 11


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KohortProcess]:
    with KohortProcess(tmp_path_factory.mktemp("unserved")) as running:
        yield running


def ask(broker: KohortProcess, api_key: int, version: int, client_id: str) -> None:
    """Send a request that the broker refuses, on a connection of its own."""
    header = pack(">hhih", api_key, version, 1, len(client_id)) + client_id.encode()
    send(broker, pack(">i", len(header)) + header)


def send(broker: KohortProcess, data: bytes) -> None:
    with Client(broker.address) as client:
        client.send_raw(data)
        with pytest.raises(ClientError, match="closed the connection"):
            client.receive_frame()


def lines(broker: KohortProcess, text: str) -> list[str]:
    return [line for line in broker.log.read_text().splitlines() if text in line]


def test_a_client_that_comes_back_again_and_again_leaves_one_line(broker: KohortProcess) -> None:
    for _ in range(5):
        ask(broker, STREAMS_GROUP_HEARTBEAT, 1, "billing-1")
    (line,) = lines(broker, "billing-1")
    assert "WARNING" in line
    assert "127.0.0.1:" in line
    assert "(client id 'billing-1') asked for StreamsGroupHeartbeat version 1: Kohort has no streams groups. In" in line


def test_another_client_and_another_request_leave_lines_of_their_own(broker: KohortProcess) -> None:
    ask(broker, STREAMS_GROUP_HEARTBEAT, 1, "billing-2")
    ask(broker, STREAMS_GROUP_HEARTBEAT, 1, "billing-3")
    ask(broker, SASL_HANDSHAKE, 1, "billing-3")
    assert len(lines(broker, "billing-2")) == 1
    first, second = lines(broker, "billing-3")
    assert "streams groups" in first
    assert "asked for SaslHandshake version 1" in second
    assert "Set security.protocol=PLAINTEXT" in second


@pytest.mark.parametrize(
    ("api_key", "version", "said"),
    [
        (METADATA, 99, "Metadata version 99: the versions 0 to 13 are served. The client must choose a version"),
        (JOIN_GROUP, -1, "JoinGroup version -1: the versions"),
        (32_000, 0, "API 32000 version 0: it is not served, nor is it an API of Kafka 4.3"),
        (88, 0, "StreamsGroupHeartbeat version 0: Kohort has no streams groups. In Kafka Streams set group.protocol=c"),
        (72, 0, "PushTelemetry version 0: Kohort takes no metrics of clients. Set enable.metrics.push=false"),
    ],
)
def test_what_is_asked_for_is_explained(broker: KohortProcess, api_key: int, version: int, said: str) -> None:
    ask(broker, api_key, version, f"asks-{api_key}")
    (line,) = lines(broker, f"asks-{api_key}'")
    assert f"asked for {said}" in line


def test_a_client_that_speaks_tls_is_told_of(broker: KohortProcess) -> None:
    for _ in range(2):
        send(broker, bytes.fromhex("1603010200010001fc0303") + bytes(500))
    (line,) = lines(broker, "asked for TLS")
    assert "this listener speaks PLAINTEXT. Set security.protocol=PLAINTEXT" in line


def test_a_browser_is_told_of(broker: KohortProcess) -> None:
    send(broker, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
    (line,) = lines(broker, "asked for HTTP")
    assert "kohort.http.port" in line


def test_a_client_id_cannot_forge_a_line(broker: KohortProcess) -> None:
    ask(broker, STREAMS_GROUP_HEARTBEAT, 1, "forged\nERROR all is lost")
    (line,) = lines(broker, "forged")
    assert r"'forged\nERROR all is lost'" in line


def test_programs_find_the_parts_of_the_line_in_fields(tmp_path: Path) -> None:
    with KohortProcess(tmp_path, "--log-format", "json") as broker:
        ask(broker, STREAMS_GROUP_HEARTBEAT, 1, "billing-1")
        rows = [json.loads(line) for line in lines(broker, "billing-1")]
    (row,) = rows
    assert (row["client_id"], row["client_host"], row["asked"]) == (
        "billing-1",
        "127.0.0.1",
        "StreamsGroupHeartbeat version 1",
    )


def test_ids_that_somebody_makes_up_do_not_fill_the_memory(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(unserved, "MAX_REMEMBERED", 10)
    told = Unserved()
    with caplog.at_level(logging.WARNING):
        for number in range(100):
            told.tell_of_request("host", f"{number}" + "x" * 30_000, "client", STREAMS_GROUP_HEARTBEAT, 1)
    assert len(caplog.records) == 100
    assert len(told._told) == 10
    assert all(len(client_id) <= 255 for _, client_id, _ in told._told)


def test_no_api_is_in_two_gaps() -> None:
    keys = [key for gap in GAPS for key in gap.apis]
    assert len(keys) == len(set(keys))


def test_a_header_that_is_cut_short_is_no_reason_to_stumble(broker: KohortProcess) -> None:
    header = request_header(METADATA, 99, 1, "c")[:8] + pack(">h", 100) + b"short"
    send(broker, pack(">i", len(header)) + header)
    assert not lines(broker, "bug")
