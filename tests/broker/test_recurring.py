"""Requests that come again and again are not read anew. What they are answered is what is true then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from struct import pack
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kohort.broker.api_table import ApiTable
from kohort.broker.connection import Connection
from kohort.broker.coordinator_host import CoordinatorHost
from kohort.broker.recurring import Recurring, remember
from kohort.client.client import Client
from kohort.coordinator.offsets.recurring_commit import RecurringCommit
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.codec import request_encoder, response_decoder
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.headers import is_flexible, request_header
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kohort.protocol.messages.leave_group import LeaveGroupRequest
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kohort.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kohort.protocol.wire import NO_UUID
from tests.broker.broker_box import BrokerBox
from tests.clients.kohort import KohortProcess


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KohortProcess]:
    with KohortProcess(tmp_path_factory.mktemp("broker")) as process:
        yield process


def test_a_request_that_comes_again_is_answered_by_what_is_true_then(broker: KohortProcess) -> None:
    """The bytes of a heartbeat or an OffsetFetch that repeats the last one are not read anew; the group is asked."""
    asked = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup("again", None, -1, [OffsetFetchRequestTopics("again", NO_UUID, [0])])]
    )

    def committed(client: Client) -> int:
        answer: int = client.send(ApiKey.OFFSET_FETCH, asked, 9).groups[0].topics[0].partitions[0].committed_offset
        return answer

    with Client(broker.address) as client, Client(broker.address) as other:
        client.send(ApiKey.CREATE_TOPICS, CreateTopicsRequest([CreatableTopic("again", 1, 1)], 1000), 5)
        assert [committed(client), committed(client)] == [-1, -1]
        for offset in (7, 8):
            rows = [OffsetCommitRequestPartition(0, offset, -1, "")]
            topics = [OffsetCommitRequestTopic("again", partitions=rows)]
            other.send(ApiKey.OFFSET_COMMIT, OffsetCommitRequest("again", -1, "", None, -1, topics), 9)
            assert [committed(client), committed(client)] == [offset, offset]
        joining = JoinGroupRequest("beats", 6000, 6000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")])
        joined = other.send(ApiKey.JOIN_GROUP, joining, 3)
        beat = HeartbeatRequest("beats", joined.generation_id, joined.member_id, None)
        assert [client.send(ApiKey.HEARTBEAT, beat, 4).error_code for _ in range(3)] == [0, 0, 0]
        other.send(ApiKey.LEAVE_GROUP, LeaveGroupRequest("beats", joined.member_id), 2)
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        assert [client.send(ApiKey.HEARTBEAT, beat, 4).error_code for _ in range(2)] == [unknown, unknown]


def test_a_client_that_only_heartbeats_is_not_silent(tmp_path: Path) -> None:
    box = BrokerBox(tmp_path, group_initial_rebalance_delay_ms="0", kohort_offsets_sync_before_reply="false")
    box.broker.coordinator = CoordinatorHost(box.broker)
    box.broker.coordinator.start()
    answers: list[bytes] = []
    connection = _connection(box, answers.append)

    def ask(api_key: ApiKey, version: int, request: object) -> Any:
        header = request_header(api_key, version, 1, "kohort")
        frame = header + bytes(request_encoder(api_key, version)(request))
        connection.data_received(pack(">i", len(frame)) + frame)
        box.pass_time()
        return response_decoder(api_key, version)(answers.pop()[4:], 4 + is_flexible(api_key, version))

    joining = JoinGroupRequest("beats", 6000, 6000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")])
    joined = ask(ApiKey.JOIN_GROUP, 3, joining)
    assigned = [SyncGroupRequestAssignment(joined.member_id, b"")]
    ask(ApiKey.SYNC_GROUP, 3, SyncGroupRequest("beats", joined.generation_id, joined.member_id, assignments=assigned))
    beat = HeartbeatRequest("beats", joined.generation_id, joined.member_id, None)
    for now in (100.0, 200.0, 300.0):
        assert ask(ApiKey.HEARTBEAT, 4, beat).error_code == 0
        connection.heard_last(now)
    assert connection.heard_last(400.0) == 300.0  # and it has said nothing since
    box.close()


def _connection(box: BrokerBox, write: Callable[[bytes], None]) -> Connection:
    """One without a socket, at a server whose clock stands still."""
    server: Any = SimpleNamespace(
        broker=box.broker, routes=box.broker.apis.routes, max_request_bytes=10**6, metrics=None,
        time=lambda: 0.0, admits=lambda _: True,
    )  # fmt: skip
    connection = Connection(server, 0)
    connection.connection_made(cast(Any, SimpleNamespace(write=write, get_extra_info=lambda _: None)))
    return connection


def test_commits_that_differ_in_offsets_alone_are_all_kept(broker: KohortProcess) -> None:
    """From the third on they are not read anew. In between come others, also of the same length and on one read."""

    def request(*offsets: int, first: int = 0, epoch: int = -1) -> OffsetCommitRequest:
        rows = [OffsetCommitRequestPartition(first + i, offset, epoch, "") for i, offset in enumerate(offsets)]
        topics = [OffsetCommitRequestTopic("kept", partitions=rows)]
        return OffsetCommitRequest("kept", -1, "", None, -1, topics)

    def committed(client: Client) -> list[int]:
        topics = [OffsetFetchRequestTopics("kept", NO_UUID, [0, 1, 2, 3])]
        answer = client.send(
            ApiKey.OFFSET_FETCH, OffsetFetchRequest(groups=[OffsetFetchRequestGroup("kept", None, -1, topics)]), 9
        )
        return [row.committed_offset for row in answer.groups[0].topics[0].partitions]

    def commit(client: Client, asked: OffsetCommitRequest, version: int = 9) -> set[int]:
        answer = client.send(ApiKey.OFFSET_COMMIT, asked, version)
        return {row.error_code for topic in answer.topics for row in topic.partitions}

    with Client(broker.address) as client:
        client.send(ApiKey.CREATE_TOPICS, CreateTopicsRequest([CreatableTopic("kept", 4, 1)], 1000), 5)
        for offset in range(1, 6):
            assert commit(client, request(offset, offset + 10)) == {0}
            assert committed(client) == [offset, offset + 10, -1, -1]
        assert commit(client, request(100, 101, first=2)) == {0}  # as many bytes, other partitions
        assert commit(client, request(6, 16, epoch=7)) == {0}
        assert committed(client) == [6, 16, 100, 101]
        for version in (7, 8, 7, 8, 7, 8):
            assert commit(client, request(7 + version, 17), version) == {0}
        sent = [client.post(ApiKey.OFFSET_COMMIT, request(i, -1 - i), 9) for i in range(30)]
        for correlation_id in sent:
            client.receive(ApiKey.OFFSET_COMMIT, 9, correlation_id)
        assert committed(client) == [29, -30, 100, 101]
        for first in (3, 3, 3):  # partition 4 does not exist, and fails alone
            assert commit(client, request(9, 9, first=first)) == {0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert committed(client) == [29, -30, 100, 9]


def test_heartbeats_in_pieces_and_among_others_are_answered(broker: KohortProcess) -> None:
    with Client(broker.address) as client, Client(broker.address) as other:
        joining = JoinGroupRequest("pieces", 6000, 6000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")])
        joined = client.send(ApiKey.JOIN_GROUP, joining, 3)
        mine = [SyncGroupRequestAssignment(joined.member_id, b"all")]
        client.send(ApiKey.SYNC_GROUP, SyncGroupRequest("pieces", 1, joined.member_id, assignments=mine), 3)
        beat = HeartbeatRequest("pieces", joined.generation_id, joined.member_id, None)
        assert [client.send(ApiKey.HEARTBEAT, beat, 4).error_code for _ in range(4)] == [0] * 4
        frame = request_header(ApiKey.HEARTBEAT, 4, 77, "kohort") + bytes(request_encoder(ApiKey.HEARTBEAT, 4)(beat))
        whole = pack(">i", len(frame)) + frame
        for cut in range(1, len(whole)):
            client.send_raw(whole[:cut])
            client.send_raw(whole[cut:])
            assert client.receive_frame() == pack(">i", 77) + bytes(8)
        client.send_raw(whole * 20)
        assert [client.receive_frame() for _ in range(20)] == [pack(">i", 77) + bytes(8)] * 20
        assert [client.send(ApiKey.HEARTBEAT, beat, version).error_code for version in (4, 3, 4, 4, 3, 4)] == [0] * 6
        others = JoinGroupRequest("pieces", 6000, 6000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")])
        waiting = other.post(ApiKey.JOIN_GROUP, others, 3)
        rebalancing = ErrorCode.REBALANCE_IN_PROGRESS
        while not (answer := client.send(ApiKey.HEARTBEAT, beat, 4).error_code):
            pass  # until the newcomer's request has arrived
        assert answer == rebalancing
        assert [client.send(ApiKey.HEARTBEAT, beat, 4).error_code for _ in range(3)] == [rebalancing] * 3
        client.send(ApiKey.LEAVE_GROUP, LeaveGroupRequest("pieces", joined.member_id), 2)
        other.receive(ApiKey.JOIN_GROUP, 3, waiting)
        assert client.send(ApiKey.HEARTBEAT, beat, 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_whatever_can_be_read_can_be_remembered_and_read_again() -> None:
    rng, routes, stencils = Random(1), ApiTable(), 0
    for _ in range(5000):
        version = rng.randrange(2, 11)
        body = bytearray(request_encoder(ApiKey.OFFSET_COMMIT, version)(random_commit(rng, version)))
        for _ in range(rng.randrange(3)):
            body[rng.randrange(len(body))] = rng.randrange(256)
        route = routes.route(ApiKey.OFFSET_COMMIT, version)
        rest = b"\xff\xff" + b"\0" * route.flexible + bytes(body)
        known: Recurring | None = None
        call: Any = None
        try:
            for _ in range(2):
                known = remember(known, route, call, rest, route.decode(bytes(body), 0))
        except MalformedMessage:
            continue
        assert known is not None
        if isinstance(known.request, RecurringCommit):
            stencils += 1
            assert known.reads(rest)
            assert not known.reads(rest + b"\0")
            known.request.spread()
            assert known.request.topics == route.decode(bytes(body), 0).topics
    assert stencils > 1000


def random_commit(rng: Random, version: int) -> OffsetCommitRequest:
    rows = [
        OffsetCommitRequestPartition(
            rng.randrange(5), rng.randrange(-5, 9), rng.choice([-1, 3]), rng.choice(["", None, "é"])
        )
        for _ in range(rng.randrange(4))
    ]
    topics = [OffsetCommitRequestTopic("t", b"t" * 16, rows)] * rng.randrange(3)
    instance_id = rng.choice([None, "i"]) if version >= 7 else None
    return OffsetCommitRequest(rng.choice(["g", "日本", ""]), rng.randrange(-1, 3), "m", instance_id, -1, topics)
