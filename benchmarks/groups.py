"""What a group's requests cost the coordinator: CPU time of its process per Heartbeat, OffsetCommit, OffsetFetch, and
per rebalance.

    python -m benchmarks.groups [--seconds 2] [--kafka | --peer HOST:PORT --peer-pid PID]

As benchmarks.broker, with 50 connections. Commits are answered from the page cache, as Kafka does it, so that the same
work is compared (kohort.offsets.sync.before.reply=false); benchmarks.synced_commits measures Kohort's default. The peer
should have group.initial.rebalance.delay.ms=0.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from time import perf_counter, time
from typing import NamedTuple

from benchmarks.broker import Broker, Figure, Loop, frame, run_report
from benchmarks.rebalance import Crew
from kohort.client.client import Client
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.codec import response_decoder
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.headers import read_response_header
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.protocol.messages.delete_topics import DeleteTopicsRequest
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kohort.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kohort.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kohort.protocol.wire import NO_UUID

CONNECTIONS = 50
PARTITIONS = 100
SESSION_MS = 300_000
OVERRIDES = ("group.initial.rebalance.delay.ms=0", "kohort.offsets.sync.before.reply=false")


class Member(NamedTuple):
    group: str
    member_id: str
    generation: int
    topic: str


@contextmanager
def stable_group(broker: Broker) -> Iterator[Member]:
    """A group with one member, and a topic for its offsets."""
    with stable_groups(broker, 1) as (member,):
        yield member


@contextmanager
def stable_groups(broker: Broker, count: int) -> Iterator[list[Member]]:
    """Groups with one member each, and a topic for their offsets."""
    name = f"bench-group-{int(time() * 1000)}"
    with Client(broker.address) as client:
        client.send(ApiKey.CREATE_TOPICS, CreateTopicsRequest([CreatableTopic(name, PARTITIONS, 1)], 10_000), 5)
        asked = MetadataRequest([MetadataRequestTopic(NO_UUID, name)], False)
        while len(client.send(ApiKey.METADATA, asked, 9).topics[0].partitions) < PARTITIONS:
            pass  # a new topic may take a moment to be known
        try:
            yield [_join(client, f"{name}-{number}", name) for number in range(count)]
        finally:
            client.send(ApiKey.DELETE_TOPICS, DeleteTopicsRequest([], [name], 10_000), 5)


def _join(client: Client, group: str, topic: str) -> Member:
    """The only member of a new group."""
    while client.send(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest(group, 0), 2).error_code:
        pass
    protocols = [JoinGroupRequestProtocol("range", bytes(10))]
    joining = JoinGroupRequest(group, SESSION_MS, SESSION_MS, "", None, "consumer", protocols)
    joined = client.send(ApiKey.JOIN_GROUP, joining, 3)  # version 3 needs no second try with an id
    while joined.error_code in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR):
        joined = client.send(ApiKey.JOIN_GROUP, joining, 3)
    member = Member(group, joined.member_id, joined.generation_id, topic)
    assignment = [SyncGroupRequestAssignment(member.member_id, bytes(100))]
    synced = client.send(
        ApiKey.SYNC_GROUP, SyncGroupRequest(group, member.generation, member.member_id, assignments=assignment), 3
    )
    assert synced.error_code == 0, synced
    return member


def commit_request(member: Member, partitions: int) -> OffsetCommitRequest:
    rows = [OffsetCommitRequestPartition(index, 1_000_000_000 + index, 0, "") for index in range(partitions)]
    topic = OffsetCommitRequestTopic(member.topic, partitions=rows)
    return OffsetCommitRequest(member.group, member.generation, member.member_id, None, -1, [topic])


def measure_heartbeat(broker: Broker, seconds: float) -> Figure:
    def check(data: bytes, size: int) -> None:  # noqa: ARG001
        assert _decoded(data, ApiKey.HEARTBEAT, 4).error_code == 0

    with stable_group(broker) as member:
        request = HeartbeatRequest(member.group, member.generation, member.member_id, None)
        return _measure(broker, frame(ApiKey.HEARTBEAT, 4, request), check, seconds)


def measure_commit(partitions: int, broker: Broker, seconds: float) -> Figure:
    with stable_group(broker) as member:
        sent = frame(ApiKey.OFFSET_COMMIT, 9, commit_request(member, partitions))
        return _measure(broker, sent, _check_commit, seconds)


def measure_commits_of_groups(partitions: int, broker: Broker, seconds: float) -> Figure:
    """A group for each connection. Their records go to many logs, so few of them share a batch."""
    with stable_groups(broker, CONNECTIONS) as members:
        frames = [frame(ApiKey.OFFSET_COMMIT, 9, commit_request(member, partitions)) for member in members]
        return Loop(broker, frames, _check_commit, CONNECTIONS, own_frames=True).measure(seconds, seconds)


def _check_commit(data: bytes, size: int) -> None:  # noqa: ARG001
    answer = _decoded(data, ApiKey.OFFSET_COMMIT, 9)
    assert not any(p.error_code for topic in answer.topics for p in topic.partitions), answer


def measure_fetch(partitions: int, broker: Broker, seconds: float) -> Figure:
    def check(data: bytes, size: int) -> None:  # noqa: ARG001
        rows = _decoded(data, ApiKey.OFFSET_FETCH, 9).groups[0].topics[0].partitions
        assert [row.committed_offset for row in rows] == [1_000_000_000 + i for i in range(partitions)]

    with stable_group(broker) as member:
        with Client(broker.address) as client:
            client.send(ApiKey.OFFSET_COMMIT, commit_request(member, partitions), 9)
        topics = [OffsetFetchRequestTopics(member.topic, partition_indexes=list(range(partitions)))]
        groups = [OffsetFetchRequestGroup(member.group, member.member_id, member.generation, topics)]
        request = OffsetFetchRequest(groups=groups, require_stable=True)
        return _measure(broker, frame(ApiKey.OFFSET_FETCH, 9, request), check, seconds)


def measure_rebalance(broker: Broker, seconds: float) -> Figure:
    """One rebalance: every member of a group joins again, the leader assigns, everyone syncs. 50 connections."""
    name = f"bench-rebalance-{int(time() * 1000)}"
    wait_for_coordinator(broker, name)
    with ExitStack() as opened:
        connections = [opened.enter_context(connect(broker)) for _ in range(CONNECTIONS)]
        crew = opened.enter_context(Crew(name, connections, SESSION_MS))
        until = perf_counter() + seconds
        while perf_counter() < until:
            crew.rebalance()
        cpu_s, started, first = broker.cpu_s(), perf_counter(), crew.members[0].generation
        while perf_counter() < started + seconds:
            crew.rebalance()
        done = crew.members[0].generation - first
        return Figure(done, perf_counter() - started, broker.cpu_s() - cpu_s, 0)


def connect(broker: Broker) -> socket.socket:
    host, _, port = broker.address.rpartition(":")
    made = socket.create_connection((host, int(port)))
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def wait_for_coordinator(broker: Broker, group: str) -> None:
    with Client(broker.address) as client:
        while client.send(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest(group, 0), 2).error_code:
            pass
        nobody = HeartbeatRequest(group, 1, "nobody", None)
        while client.send(ApiKey.HEARTBEAT, nobody, 3).error_code != ErrorCode.UNKNOWN_MEMBER_ID:
            pass  # its log is still being loaded


def _measure(broker: Broker, sent: bytes, check: Callable[[bytes, int], None], seconds: float) -> Figure:
    return Loop(broker, [sent], check, CONNECTIONS).measure(seconds, seconds)


def _decoded(data: bytes, api_key: ApiKey, version: int):  # type: ignore[no-untyped-def]
    _, pos = read_response_header(data, api_key, version)
    return response_decoder(api_key, version)(data, pos)


SCENARIOS = (
    ("Heartbeat", measure_heartbeat, 0.35),
    ("OffsetCommit, 1 partition", partial(measure_commit, 1), 0.6),
    ("OffsetCommit, 10 partitions", partial(measure_commit, 10), 0.6),
    ("OffsetCommit, 1 partition, 50 groups", partial(measure_commits_of_groups, 1), None),
    ("OffsetCommit, 10 partitions, 50 groups", partial(measure_commits_of_groups, 10), None),
    ("OffsetFetch, 10 partitions", partial(measure_fetch, 10), 0.8),
    ("Rebalance of 50 members", measure_rebalance, 1.0),
)


if __name__ == "__main__":
    run_report(SCENARIOS, OVERRIDES)
