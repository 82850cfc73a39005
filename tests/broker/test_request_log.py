"""`--log-level debug`: a line for each request, on a real broker, whatever path the request takes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kohort.client.client import Client
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.codec import request_encoder
from kohort.protocol.frames import framed
from kohort.protocol.headers import request_header
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kohort.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kohort.protocol.messages.sync_group import SyncGroupRequest
from kohort.protocol.record_batch import build_batch
from tests.clients.kohort import KohortProcess

REQUEST = re.compile(
    r" DEBUG   request api=(\w+) version=(\d+) client_id=('.*') client=(127\.0\.0\.1:\d+) correlation_id=(\d+)"
    r" error=([A-Z_,]+) duration_ms=\d+\.\d{3}$"
)
FORGED = "x\n2026-11-17T00:00:00.000Z DEBUG   request api=Forged\r\x85\u2028"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[KohortProcess]:
    with KohortProcess(tmp_path, "--log-level", "debug", group_initial_rebalance_delay_ms="0") as process:
        yield process


def lines(broker: KohortProcess) -> list[str]:
    return broker.log.read_text(encoding="utf-8").splitlines()


def requests(broker: KohortProcess) -> list[tuple[str, ...]]:
    """API, version, client id, correlation id and error of each request that the log tells of."""
    found = [REQUEST.search(line) for line in lines(broker)]
    return [(each[1], each[2], each[3], each[5], each[6]) for each in found if each]


def test_each_request_has_a_line_with_the_errors_in_its_answer(broker: KohortProcess) -> None:
    with Client(broker.address, client_id="billing") as client:
        client.send(ApiKey.METADATA, MetadataRequest([], False), 12)
        unknown = [MetadataRequestTopic(name=name) for name in ("nobody", "made", "this")]
        client.send(ApiKey.METADATA, MetadataRequest(unknown, False), 12)
        bad = CreateTopicsRequest([CreatableTopic("good", 1, 1), CreatableTopic("b a d", 1, 1)], 1000)
        client.send(ApiKey.CREATE_TOPICS, bad, 5)
    assert requests(broker) == [
        ("Metadata", "12", "'billing'", "1", "NONE"),
        ("Metadata", "12", "'billing'", "2", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("CreateTopics", "5", "'billing'", "3", "INVALID_TOPIC_EXCEPTION"),
    ]


def test_requests_that_come_again_and_again_have_a_line_each(broker: KohortProcess) -> None:
    """Heartbeats and commits that repeat the last one take quick paths otherwise; see broker/recurring.py."""
    with Client(broker.address) as client:
        client.send(ApiKey.CREATE_TOPICS, CreateTopicsRequest([CreatableTopic("t", 1, 1)], 1000), 5)
        asked = JoinGroupRequest("g", 30_000, 30_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")])
        joined = client.send(ApiKey.JOIN_GROUP, asked, 3)
        client.send(ApiKey.SYNC_GROUP, SyncGroupRequest("g", joined.generation_id, joined.member_id), 3)
        beat = HeartbeatRequest("g", joined.generation_id, joined.member_id, None)
        assert [client.send(ApiKey.HEARTBEAT, beat, 4).error_code for _ in range(6)] == [0] * 6
        for offset in range(5):
            topics = [OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, offset, -1, "")])]
            commit = OffsetCommitRequest("g", joined.generation_id, joined.member_id, None, -1, topics)
            client.send(ApiKey.OFFSET_COMMIT, commit, 8)
        beat.generation_id += 1
        client.send(ApiKey.HEARTBEAT, beat, 4)
    told = [(api, error) for api, _, _, _, error in requests(broker)]
    assert told == [
        ("CreateTopics", "NONE"),
        ("JoinGroup", "NONE"),
        ("SyncGroup", "NONE"),
        *[("Heartbeat", "NONE")] * 6,
        *[("OffsetCommit", "NONE")] * 5,
        ("Heartbeat", "ILLEGAL_GENERATION"),
    ]


def test_a_request_that_is_not_answered_and_an_unknown_api_versions_have_lines_too(broker: KohortProcess) -> None:
    with Client(broker.address) as client:
        client.send(ApiKey.CREATE_TOPICS, CreateTopicsRequest([CreatableTopic("t", 1, 1)], 1000), 5)
        batch = build_batch([(None, b"v")], timestamp=1)
        data = [TopicProduceData("t", partition_data=[PartitionProduceData(0, batch)])]
        client.post(ApiKey.PRODUCE, ProduceRequest(None, 0, 1000, data), 9)
        client.send_raw(framed(request_header(ApiKey.API_VERSIONS, 99, 7, "c")))
        assert client.receive_frame()[:4] == b"\0\0\0\7"
    assert [each[:2] + each[3:] for each in requests(broker)[1:]] == [
        ("Produce", "9", "2", "NOT_ANSWERED"),
        ("ApiVersions", "99", "7", "UNSUPPORTED_VERSION"),
    ]


def _ask_as(client: Client, client_id: str) -> None:
    header = request_header(ApiKey.METADATA, 12, 1, client_id)
    client.send_raw(framed(header, request_encoder(ApiKey.METADATA, 12)(MetadataRequest([], False))))
    client.receive_frame()


def test_a_client_id_cannot_forge_a_line(broker: KohortProcess) -> None:
    before = len(lines(broker))
    with Client(broker.address) as client:
        _ask_as(client, FORGED)
        assert len(lines(broker)) == before + 1
    assert [each[:3] for each in requests(broker)] == [("Metadata", "12", repr(FORGED))]


def test_in_json_each_part_of_the_line_is_a_field(tmp_path: Path) -> None:
    with (
        KohortProcess(tmp_path, "--log-level", "debug", "--log-format", "json") as broker,
        Client(broker.address) as client,
    ):
        _ask_as(client, FORGED)
        told: list[dict[str, Any]] = [json.loads(line) for line in lines(broker)]
    (line,) = (each for each in told if each["logger"] == "kohort.request")
    names = ("level", "api", "version", "client_id", "correlation_id", "error")
    assert [line[name] for name in names] == ["debug", "Metadata", 12, FORGED, 1, "NONE"]
    assert line["client"].startswith("127.0.0.1:")
    assert line["duration_ms"] > 0


def test_by_default_no_request_is_logged(tmp_path: Path) -> None:
    with KohortProcess(tmp_path) as broker, Client(broker.address) as client:
        _ask_as(client, "quiet")
        assert "request api=" not in broker.log.read_text()
