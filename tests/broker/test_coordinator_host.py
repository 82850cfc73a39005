"""The coordinator inside a broker: one group's bug is not everybody's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kohort.broker import shard_host
from kohort.broker.api_table import ApiTable
from kohort.broker.call import PARKED, Call
from kohort.broker.connection import Connection
from kohort.broker.coordinator_host import CoordinatorHost
from kohort.broker.shard_host import MAX_GATHER_MS, REPLIES_AT_ONCE
from kohort.broker.shard_log import LocalShardLog, Write
from kohort.broker.topics.catalog import CONSUMER_OFFSETS
from kohort.coordinator.outcome import Outcome, Record, Reply
from kohort.coordinator.shard import Shard
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.codec import request_encoder, response_decoder
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.frames import framed
from kohort.protocol.headers import read_response_header, request_header
from kohort.protocol.log_records import OFFSET_COMMIT
from kohort.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.protocol.messages.delete_topics import DeleteTopicsRequest
from kohort.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kohort.protocol.messages.log_offset_commit import OffsetCommitKey, OffsetCommitValue
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.protocol.record_batch import BatchHeader, parse_header
from kohort.storage.partition_log import PartitionLog
from tests.broker.broker_box import BrokerBox, FakeConnection, Timer
from tests.broker.test_broker_configs import alter

RELOAD_MS = 1_000


@pytest.fixture
def box(tmp_path: Path) -> Iterator[BrokerBox]:
    made = BrokerBox(tmp_path, kohort_offsets_sync_before_reply="false")
    made.topic("t", partitions=2)
    made.broker.coordinator = CoordinatorHost(made.broker, made.clock)
    made.broker.coordinator.start()
    yield made
    made.close()


def send_commit(box: BrokerBox, group_id: str, client: FakeConnection | None = None) -> FakeConnection:
    client = client or FakeConnection()
    topics = [OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 5, -1, "")])]
    response = box.send(ApiKey.OFFSET_COMMIT, OffsetCommitRequest(group_id, -1, "", None, -1, topics), 9, client=client)
    if response is not PARKED:
        client.answers.append(response)
    return client


def error_of(client: FakeConnection) -> ErrorCode:
    (answer,) = client.answers
    return ErrorCode(answer.topics[0].partitions[0].error_code)


def headers_of(batches: bytes) -> list[BatchHeader]:
    headers = []
    position = 0
    while position < len(batches):
        headers.append(parse_header(batches, position))
        position += headers[-1].size_bytes
    return headers


def shard_of(box: BrokerBox, group_id: str) -> Shard[ShardState]:
    return box.broker.coordinator.runtime.shard_of(group_id)


# --- records that cannot be packed


def test_records_that_cannot_be_packed_fail_their_shard_and_no_other(box: BrokerBox) -> None:
    assert shard_of(box, "bad") is not shard_of(box, "other")
    waiting = send_commit(box, "bad")
    too_large = OffsetCommitValue(2**63, -1, "", 0)
    out = Outcome([Record(OFFSET_COMMIT, OffsetCommitKey("bad", "t", 0), too_large)])
    box.broker.coordinator.apply(shard_of(box, "bad"), out)
    other = send_commit(box, "other")
    box.pass_time()
    assert error_of(waiting) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert error_of(other) is ErrorCode.NONE
    assert error_of(send_commit(box, "bad")) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    box.pass_time(RELOAD_MS)
    box.pass_time()
    again = send_commit(box, "bad")
    box.pass_time()
    assert error_of(again) is ErrorCode.NONE


class BuggyLog(LocalShardLog):
    """Its first append raises what no log should raise."""

    has_failed = False

    def _append(self, write: Write, now: int) -> PartitionLog:
        if not self.has_failed:
            self.has_failed = True
            raise RuntimeError("a bug")
        return super()._append(write, now)


def test_an_append_that_raises_fails_its_shard_and_no_other(tmp_path: Path) -> None:
    box = BrokerBox(tmp_path)
    box.topic("t", partitions=2)
    log = BuggyLog(box.broker, box.clock, CONSUMER_OFFSETS, sync_before_reply=False)
    box.broker.coordinator = CoordinatorHost(box.broker, box.clock, log)
    box.broker.coordinator.start()
    bad, other = send_commit(box, "bad"), send_commit(box, "other")
    box.pass_time()
    assert (error_of(bad), error_of(other)) == (ErrorCode.NOT_COORDINATOR, ErrorCode.NONE)
    box.pass_time(RELOAD_MS)
    again = send_commit(box, "bad")
    box.pass_time()
    assert error_of(again) is ErrorCode.NONE
    box.close()


# --- many replies at once


def test_very_many_replies_are_sent_in_several_turns_and_all_arrive(
    box: BrokerBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a group of thousands of members does not keep others waiting while all of them are answered."""
    sent: list[int] = []
    send_all = shard_host._send_all

    def watched(replies: list[Reply]) -> None:
        sent.append(len(replies))
        send_all(replies)

    monkeypatch.setattr(shard_host, "_send_all", watched)
    clients = [send_commit(box, f"g{number}") for number in range(2 * REPLIES_AT_ONCE + 10)]
    while not all(client.answers for client in clients):
        box.pass_time()
    assert sent == [REPLIES_AT_ONCE, REPLIES_AT_ONCE, 10]
    assert {error_of(client) for client in clients} == {ErrorCode.NONE}


# --- batches as large as the log takes them


def test_a_smaller_message_max_bytes_makes_smaller_batches_at_once(tmp_path: Path) -> None:
    box = BrokerBox(tmp_path, kohort_offsets_sync_before_reply="false", offsets_topic_num_partitions="1")
    box.topic("t", partitions=2)
    box.broker.coordinator = CoordinatorHost(box.broker, box.clock)
    box.broker.coordinator.start()
    before = send_commit(box, "g0")
    box.pass_time()
    assert alter(box, "1", message_max_bytes="1000") == ErrorCode.NONE
    clients = [before] + [send_commit(box, f"g{number}") for number in range(1, 30)]
    box.pass_time()
    assert [error_of(client) for client in clients] == [ErrorCode.NONE] * 30
    (log,) = [partition.log for partition in box.broker.catalog.get(CONSUMER_OFFSETS).partitions]  # type: ignore[union-attr]
    sizes = [header.size_bytes for chunk, size in log.chunks() for header in headers_of(bytes(chunk[:size]))]
    assert max(sizes) <= 1000
    box.close()


def test_groups_are_spread_over_as_many_partitions_as_an_administrator_gave_the_offsets_topic(box: BrokerBox) -> None:
    early = send_commit(box, "g0")
    request = CreateTopicsRequest([CreatableTopic(CONSUMER_OFFSETS, 2, 1, (), ())])
    assert box.send(ApiKey.CREATE_TOPICS, request, 5).topics[0].error_code == ErrorCode.NONE
    assert error_of(early) is ErrorCode.NOT_COORDINATOR, "it comes again"
    clients = [send_commit(box, f"g{number}") for number in range(10)]
    box.pass_time()
    assert [error_of(client) for client in clients] == [ErrorCode.NONE] * 10
    assert {shard_of(box, f"g{number}").partition for number in range(10)} == {0, 1}


# --- writes that wait for the disk


@pytest.fixture
def synced_box(tmp_path: Path) -> Iterator[BrokerBox]:
    made = BrokerBox(tmp_path)
    made.topic("t", partitions=2)
    made.broker.coordinator = CoordinatorHost(made.broker, made.clock)
    made.broker.coordinator.start()
    yield made
    made.close()


def disk_catches_up(box: BrokerBox) -> None:
    box.run_posted()  # the flush begins
    box.run_posted()  # the flush is back
    box.pass_time()


def test_commits_that_arrive_while_the_disk_works_are_written_together_when_it_is_done(synced_box: BrokerBox) -> None:
    box = synced_box
    first = send_commit(box, "g")
    box.pass_time()
    others = []
    for _ in range(3):
        others.append(send_commit(box, "g"))
        box.pass_time()
    log = box.broker.catalog.ensure_internal(CONSUMER_OFFSETS).partitions[shard_of(box, "g").partition].log
    assert log.log_end_offset == 1
    assert not first.answers
    disk_catches_up(box)
    assert error_of(first) is ErrorCode.NONE
    assert not any(client.answers for client in others), "their records are not synced yet"
    assert [header.next_offset for chunk, size in log.chunks() for header in headers_of(chunk[:size])] == [1, 4]
    disk_catches_up(box)
    assert [error_of(client) for client in others] == [ErrorCode.NONE] * 3


class Passes:
    """The event loop, pass by pass: what is to be done soon is done in the next one."""

    def __init__(self, box: BrokerBox) -> None:
        self._soon: list[Timer] = []
        box.broker.call_soon = self._call_soon

    def _call_soon(self, work: Callable[[], object]) -> Timer:
        self._soon.append(Timer(work))
        return self._soon[-1]

    def run(self) -> None:
        timers, self._soon = self._soon, []
        for timer in timers:
            if timer.work is not None:
                timer.work()

    def run_all(self) -> None:
        while self._soon:
            self.run()


def send_first_heartbeat(box: BrokerBox, member_id: str) -> FakeConnection:
    """A member joins a group of KIP-848."""
    client = FakeConnection()
    asked = ConsumerGroupHeartbeatRequest(
        "g", member_id, 0, rebalance_timeout_ms=60_000, subscribed_topic_names=["t"], topic_partitions=[]
    )
    assert box.send(ApiKey.CONSUMER_GROUP_HEARTBEAT, asked, 1, client=client) is PARKED
    return client


def batches_of(box: BrokerBox, group_id: str) -> list[BatchHeader]:
    log = box.broker.catalog.ensure_internal(CONSUMER_OFFSETS).partitions[shard_of(box, group_id).partition].log
    return [header for chunk, size in log.chunks() for header in headers_of(chunk[:size])]


def test_members_that_join_in_one_pass_of_the_event_loop_after_the_other_are_written_together(box: BrokerBox) -> None:
    passes = Passes(box)
    send_first_heartbeat(box, "leader")
    passes.run_all()
    before = len(batches_of(box, "g"))
    clients = []
    for number in range(5):
        clients.append(send_first_heartbeat(box, f"member-{number}"))
        passes.run()
    assert not any(client.answers for client in clients)
    passes.run()
    assert [client.answers[0].error_code for client in clients] == [0] * 5
    assert len(batches_of(box, "g")) == before + 1


def test_members_that_join_without_end_keep_nobody_waiting_for_longer_than_some_milliseconds(box: BrokerBox) -> None:
    passes = Passes(box)
    first = send_first_heartbeat(box, "leader")
    for number in range(MAX_GATHER_MS + 1):
        assert not first.answers
        passes.run()
        box.pass_time(1)
        send_first_heartbeat(box, f"member-{number}")
    assert first.answers[0].error_code == 0


def test_a_commit_waits_for_one_pass_of_the_event_loop_only(box: BrokerBox) -> None:
    passes = Passes(box)
    client = send_commit(box, "g")
    passes.run()
    assert error_of(client) is ErrorCode.NONE


def test_a_disk_that_stalls_stops_the_clock_of_groups_whose_records_are_held_back(synced_box: BrokerBox) -> None:
    box = synced_box
    assert shard_of(box, "g") is not shard_of(box, "other")
    send_commit(box, "g")
    box.pass_time(100)
    box.run_posted()  # the flush begins, and nobody hears of its end for long
    held = send_commit(box, "other")
    box.pass_time(100)
    clock = shard_of(box, "other").state.clock
    box.pass_time(10_000)
    assert clock.on_steady_clock(0, box.clock.steady_ms()) is None, "it stands still"
    box.run_posted()
    box.run_posted()  # a second flush, with what was held back
    box.pass_time()
    assert error_of(held) is ErrorCode.NONE
    assert clock.on_steady_clock(0, box.clock.steady_ms()) is not None


def test_deadlines_come_after_two_stalled_writes_that_end_in_the_same_millisecond(tmp_path: Path) -> None:
    box = BrokerBox(tmp_path, offsets_topic_num_partitions="1")
    box.topic("t", partitions=2)
    box.broker.coordinator = CoordinatorHost(box.broker, box.clock)
    box.broker.coordinator.start()
    joining = FakeConnection()
    request = JoinGroupRequest("h", 10_000, 10_000, "", None, "c", [JoinGroupRequestProtocol("range", b"")])
    box.send(ApiKey.JOIN_GROUP, request, 3, client=joining)  # the first member of a group waits for 3 s
    send_commit(box, "g")
    box.pass_time()
    box.run_posted()  # the flush begins, and nobody hears of its end for long
    send_commit(box, "g")
    box.pass_time(10_000)  # the second commit is written now, and waits for the second flush
    assert len(shard_of(box, "g").in_flight) == 2
    box.run_posted()
    box.pass_time()
    box.run_posted()
    box.pass_time()
    assert (shard_of(box, "g").in_flight, joining.answers) == ([], [])
    box.pass_time(3_000)
    assert joining.answers[0].error_code == ErrorCode.NONE
    box.close()


# --- the log is deleted


def test_with_the_offsets_topic_all_groups_are_gone_and_new_ones_begin(box: BrokerBox) -> None:
    coordinator = box.broker.coordinator
    send_commit(box, "g")
    box.pass_time()
    joining, waiting = FakeConnection(), FakeConnection()
    protocols = [JoinGroupRequestProtocol("range", b"")]
    box.send(ApiKey.JOIN_GROUP, JoinGroupRequest("h", 10_000, 10_000, "", None, "c", protocols), 3, client=joining)
    send_commit(box, "i", waiting)
    old = shard_of(box, "g")
    deleted = box.send(ApiKey.DELETE_TOPICS, DeleteTopicsRequest([], [CONSUMER_OFFSETS]), 5)
    assert [topic.error_code for topic in deleted.responses] == [0]
    assert joining.answers[0].error_code == ErrorCode.NOT_COORDINATOR
    assert error_of(waiting) is ErrorCode.NOT_COORDINATOR
    assert [group for shard in coordinator.runtime.shards for group in shard.state.groups] == []
    assert old.is_abandoned
    again = send_commit(box, "g")
    box.pass_time(10_000)
    assert error_of(again) is ErrorCode.NONE
    assert list(shard_of(box, "g").state.groups) == ["g"]
    assert (
        box.broker.catalog.ensure_internal(CONSUMER_OFFSETS).partitions[shard_of(box, "g").partition].log.log_end_offset
        == 1
    )


# --- retention


def test_offsets_expire_in_one_shard_after_the_other_and_others_have_their_turn_between(tmp_path: Path) -> None:
    box = BrokerBox(
        tmp_path, kohort_offsets_sync_before_reply="false", offsets_retention_minutes="1",
        offsets_retention_check_interval_ms="60000",
    )  # fmt: skip
    box.topic()
    coordinator = box.broker.coordinator = CoordinatorHost(box.broker, box.clock)
    coordinator.start()
    groups = [f"g{number}" for number in range(5)]
    for group_id in groups:
        send_commit(box, group_id)
    box.pass_time(60_000 - 1)
    seen: list[int] = []

    def look() -> None:
        seen.append(sum(len(shard.state.groups) for shard in coordinator.runtime.shards))
        if len(seen) < 2 * len(groups):
            box.broker.call_soon(look)

    box.broker.call_later(0.001, look)
    box.pass_time(1)
    assert seen[0] == len(groups)
    assert seen[-1] == 0
    assert {a - b for a, b in pairwise(seen)} == {0, 1}
    send_commit(box, "g0")
    box.pass_time(120_000)
    assert not shard_of(box, "g0").state.groups
    box.close()


# --- deadlines


class Waits:
    def __init__(self, problem: Exception | None = None) -> None:
        self._problem = problem
        self.has_expired = False

    def can_complete(self) -> bool:
        return False

    def complete(self, out: Outcome) -> None: ...

    def expire(self, out: Outcome) -> None:
        if self._problem is not None:
            raise self._problem
        self.has_expired = True


def test_a_bug_at_one_deadline_leaves_the_others_their_own(box: BrokerBox) -> None:
    runtime = box.broker.coordinator.runtime
    others = [Waits(), Waits()]
    for shard, operation in zip(runtime.shards, [others[0], Waits(ValueError("a bug")), others[1]], strict=False):
        shard.state.purgatory.watch(("join", "g"), operation, box.clock.steady_ms())
        box.broker.coordinator.apply(shard, Outcome())
    with pytest.raises(ValueError, match="a bug"):
        box.pass_time(5)
    box.pass_time(5)
    assert [each.has_expired for each in others] == [True, True]


# --- answers


class AnsweredAlready(FakeConnection):
    def answer_parked(self, call: Call, response: Any) -> None:
        raise RuntimeError("it was answered twice")


def test_a_reply_that_nobody_takes_does_not_keep_others_from_theirs(box: BrokerBox) -> None:
    clients = [AnsweredAlready(), FakeConnection()]
    for client in clients:
        assert send_commit(box, "g", client) is client
    box.pass_time()
    assert error_of(clients[1]) is ErrorCode.NONE


kept: list[Call] = []


def keep(broker: Any, request: Any, call: Call) -> Any:
    kept.append(call)
    return PARKED


class Transport:
    def __init__(self) -> None:
        self.sent = b""

    def write(self, data: bytes) -> None:
        self.sent += data

    def get_extra_info(self, name: str) -> tuple[str, int]:
        return "127.0.0.1", 50_000


def test_an_answer_that_cannot_be_written_is_a_failure_of_its_own_request() -> None:
    apis = ApiTable({ApiKey.HEARTBEAT: f"{__name__}:keep"})
    server: Any = SimpleNamespace(
        max_request_bytes=1_000, time=lambda: 0.0, admits=lambda _: True, routes=apis.routes, metrics=None,
        broker=SimpleNamespace(apis=apis),
    )  # fmt: skip
    transport: Any = Transport()
    connection = Connection(server, 0)
    connection.connection_made(transport)
    body = request_encoder(ApiKey.HEARTBEAT, 4)(HeartbeatRequest("g", 1, "m", None))
    assert isinstance(body, bytes)
    connection.data_received(framed(request_header(ApiKey.HEARTBEAT, 4, 7, "c"), body))
    kept.pop().reply(HeartbeatResponse(0, 1_000_000))
    correlation_id, pos = read_response_header(transport.sent[4:], ApiKey.HEARTBEAT, 4)
    answer = response_decoder(ApiKey.HEARTBEAT, 4)(transport.sent[4:], pos)
    assert (correlation_id, answer.error_code) == (7, ErrorCode.UNKNOWN_SERVER_ERROR)
