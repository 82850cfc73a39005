"""Attacks that no schema tells of: they need a state first, or the right bytes in the right place.

Each was seen to stop a broker for seconds, or is a sibling of one that did.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from struct import pack
from typing import Any

import zstandard

from kohort.client.client import Client
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from kohort.protocol.messages.api_versions import ApiVersionsRequest
from kohort.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.protocol.messages.delete_topics import DeleteTopicsRequest
from kohort.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kohort.protocol.messages.describe_groups import DescribeGroupsRequest
from kohort.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.protocol.messages.incremental_alter_configs import (
    AlterableConfig as IncrementalConfig,
)
from kohort.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource as IncrementalResource,
)
from kohort.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
)
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kohort.protocol.messages.list_groups import ListGroupsRequest
from kohort.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kohort.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kohort.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kohort.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kohort.protocol.record_batch import build_batch
from kohort.protocol.varint import encode_varint
from kohort.protocol.wire import MAX_STRING_BYTES
from tests.attack.attacker import Attack
from tests.attack.extremes import GROUP, MB, TOPIC
from tests.attack.shares import stories_of_shares
from tests.attack.story import one
from tests.attack.transactions import stories_of_transactions
from tests.parity.batches import changed

BIG_GROUP = "attacked-big-group"
SESSION_MS = 1_800_000
LARGE_GROUP = 1_000
TOPIC_RESOURCE = 2
ZSTD = 4
HEADERS_IN_BOMB = 33_000_000
INT32_MAX = 2**31 - 1


def stories() -> Iterator[Attack]:
    yield from _of_records()
    yield from _of_topics()
    yield from _of_groups()
    yield from _of_fetches()
    yield from _of_many_requests()
    yield from stories_of_transactions()
    yield from stories_of_shares()


# --- records


def _produce(batch: bytes) -> ProduceRequest:
    return ProduceRequest(None, -1, 1_000, [TopicProduceData(TOPIC, partition_data=[PartitionProduceData(0, batch)])])


def bomb() -> bytes:
    """A batch of a few kilobytes: one record, and in it 33 million headers without a name and without a value."""
    head = b"\0\0\0\x01\x01" + encode_varint(HEADERS_IN_BOMB)  # attributes, two deltas, no key, no value
    size = encode_varint(len(head) + 2 * HEADERS_IN_BOMB)
    body = zstandard.ZstdCompressor().compress(size + head + b"\0\x01" * HEADERS_IN_BOMB)
    plain = build_batch([(None, None)], timestamp=int(time.time() * 1000))
    length = len(body) + 49  # what stands between the length and the records
    return changed(plain[:61] + body, attributes=ZSTD, batch_length=length)


def _bad_timestamps() -> bytes:
    """Each record is from a time that is too far away, and the answer names each of them."""
    return build_batch([(None, b"")] * 30_000, timestamp=int(time.time() * 1000) + 10 * 86_400_000)


def _send_bombs(address: str) -> None:
    with Client(address) as client:
        for _ in range(3):
            client.send(ApiKey.PRODUCE, _produce(bomb()), 9)


def _of_records() -> Iterator[Attack]:
    yield one(ApiKey.PRODUCE, 9, "zstd: a record with 33 million headers", lambda: _produce(bomb()))
    yield one(ApiKey.PRODUCE, 9, "30,000 records with a bad timestamp", lambda: _produce(_bad_timestamps()))
    by_time = ListOffsetsPartition(0, -1, int(time.time() * 1000))
    yield one(
        ApiKey.LIST_OFFSETS, 6, "by time, behind three batches with 33 million headers each",
        lambda: ListOffsetsRequest(-1, 0, [ListOffsetsTopic(TOPIC, [by_time])]), prepare=_send_bombs,
    )  # fmt: skip


# --- topics


def _names(count: int, start: str) -> list[str]:
    return [f"{start}-{number}" for number in range(count)]


def _create(address: str, topics: list[CreatableTopic]) -> None:
    with Client(address, timeout_s=120) as client:
        client.send(ApiKey.CREATE_TOPICS, CreateTopicsRequest(topics, 100_000), 5)


def _of_topics() -> Iterator[Attack]:
    for count in (3_000_000, INT32_MAX):
        yield one(
            ApiKey.CREATE_TOPICS, 5, f"one topic with {count:,} partitions",
            partial(CreateTopicsRequest, [CreatableTopic("huge", count, 1)], 1_000),
        )  # fmt: skip
        yield one(
            ApiKey.CREATE_PARTITIONS, 1, f"{count:,} partitions",
            partial(CreatePartitionsRequest, [CreatePartitionsTopic(TOPIC, count, None)], 1_000),
        )  # fmt: skip
    resource = AlterConfigsResource(TOPIC_RESOURCE, TOPIC, [AlterableConfig("retention.ms", "86400000")])
    yield one(ApiKey.ALTER_CONFIGS, 1, "one topic 5,000 times", lambda: AlterConfigsRequest([resource] * 5_000))
    step = IncrementalResource(TOPIC_RESOURCE, TOPIC, [IncrementalConfig("retention.ms", 0, "86400000")])
    yield one(
        ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, "one topic 5,000 times",
        lambda: IncrementalAlterConfigsRequest([step] * 5_000),
    )  # fmt: skip
    broker = DescribeConfigsResource(4, "1", None)
    yield one(
        ApiKey.DESCRIBE_CONFIGS, 4, "all settings of the broker 2,000 times, with documentation",
        lambda: DescribeConfigsRequest([broker] * 2_000, True, True),
    )  # fmt: skip
    yield one(
        ApiKey.METADATA, 12, "2,000 topics that are created on demand",
        lambda: MetadataRequest([MetadataRequestTopic(name=name) for name in _names(2_000, "on-demand")]),
    )  # fmt: skip
    yield one(
        ApiKey.CREATE_TOPICS, 5, "2,000 topics",
        lambda: CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in _names(2_000, "created")], 60_000),
    )  # fmt: skip
    many = [CreatableTopic(name, 1, 1) for name in _names(1_000, "many")]
    yield one(
        ApiKey.DELETE_TOPICS, 5, "1,000 topics", lambda: DeleteTopicsRequest([], _names(1_000, "many"), 60_000),
        prepare=partial(_create, topics=many),
    )  # fmt: skip
    wide = [CreatableTopic(name, 1_000, 1) for name in _names(3, "wide")]
    yield one(
        ApiKey.METADATA, 12, "everything, 20 times, with 3 topics of 1,000 partitions", lambda: MetadataRequest(None),
        20, prepare=partial(_create, topics=wide),
    )  # fmt: skip


# --- groups


def _of_groups() -> Iterator[Attack]:
    long_id = "g" * MAX_STRING_BYTES
    partition = OffsetCommitRequestPartition(0, 1, -1, "")
    yield one(
        ApiKey.OFFSET_COMMIT, 8, "a group id of 32 kB, one partition 5,000 times",
        lambda: OffsetCommitRequest(
            long_id, topics=[OffsetCommitRequestTopic(TOPIC, partitions=[partition] * 5_000)]
        ),
    )  # fmt: skip
    yield one(
        ApiKey.OFFSET_FETCH, 8, "a group with 1,000 offsets 500 times",
        lambda: OffsetFetchRequest(groups=[OffsetFetchRequestGroup(GROUP, topics=None)] * 500), prepare=_commit_many,
    )  # fmt: skip
    yield one(
        ApiKey.DESCRIBE_GROUPS, 5, "a group of 1 MB 500 times",
        lambda: DescribeGroupsRequest([BIG_GROUP] * 500), prepare=_make_big_group,
    )  # fmt: skip
    yield from _of_members()
    yield from _of_migrations()


def _commit_many(address: str) -> None:
    _create(address, [CreatableTopic("wide", 1_000, 1)])
    partitions = [OffsetCommitRequestPartition(number, 1, -1, "") for number in range(1_000)]
    with Client(address) as client:
        commit = OffsetCommitRequest(GROUP, topics=[OffsetCommitRequestTopic("wide", partitions=partitions)])
        client.send(ApiKey.OFFSET_COMMIT, commit, 8)


def _make_big_group(address: str) -> None:
    with Client(address) as client:
        joined = _join(client, BIG_GROUP, b"m" * (MB // 2))
        if joined.error_code == 0:
            assignment = SyncGroupRequestAssignment(joined.member_id, b"a" * (MB // 2))
            client.send(
                ApiKey.SYNC_GROUP,
                SyncGroupRequest(BIG_GROUP, joined.generation_id, joined.member_id, assignments=[assignment]),
                3,
            )


def _join(client: Client, group: str, metadata: bytes = b"") -> Any:
    protocols = [JoinGroupRequestProtocol("range", metadata)]
    return client.send(
        ApiKey.JOIN_GROUP, JoinGroupRequest(group, SESSION_MS, 60_000, "", None, "consumer", protocols), 3
    )


def _assignment(partitions: int) -> bytes:
    """As consumers send it: version 0, one topic with so many partitions, no data of their own."""
    name = TOPIC.encode()
    topic = pack(">h", len(name)) + name + pack(">i", partitions) + bytes(4 * partitions)
    return pack(">hi", 0, 1) + topic + pack(">i", -1)


def _of_members() -> Iterator[Attack]:
    leader = ("", 0, "")  # of the group that `join` has made last: its id, generation and member

    def join(address: str) -> None:
        nonlocal leader
        group = f"attacked-{time.time_ns()}"
        with Client(address) as client:
            answer = _join(client, group)
        leader = (group, answer.generation_id, answer.member_id)

    def sync(members: int, size: int) -> SyncGroupRequest:
        assignments = [SyncGroupRequestAssignment(f"nobody-{n}", _assignment(size)) for n in range(members)]
        return SyncGroupRequest(*leader, None, None, None, assignments)

    def sync_own(size: int) -> SyncGroupRequest:
        own = SyncGroupRequestAssignment(leader[2], _assignment(size))
        return SyncGroupRequest(*leader, None, None, None, [own])

    yield one(
        ApiKey.SYNC_GROUP, 3, "4 million partitions for a member that does not exist", lambda: sync(1, 4_000_000),
        prepare=join,
    )  # fmt: skip
    yield one(
        ApiKey.SYNC_GROUP, 3, "4 million partitions for the leader itself", lambda: sync_own(4_000_000),
        prepare=join,
    )  # fmt: skip
    yield one(
        ApiKey.SYNC_GROUP, 3, "assignments for 90,000 members that do not exist", lambda: sync(90_000, 1),
        prepare=join,
    )  # fmt: skip
    protocols = [JoinGroupRequestProtocol(f"p{number}", b"") for number in range(90_000)]
    yield one(
        ApiKey.JOIN_GROUP, 3, "90,000 protocols",
        lambda: JoinGroupRequest("attacked-join", SESSION_MS, 60_000, "", None, "consumer", protocols),
    )  # fmt: skip


# --- groups that change their protocol


def _of_migrations() -> Iterator[Attack]:
    """A consumer joins a classic group of many members, and leaves it again."""
    group = ""  # that was made last

    def make(address: str) -> None:
        nonlocal group
        group = f"attacked-{time.time_ns()}"
        _make_large_group(address, group)

    def upgrade(address: str) -> None:
        make(address)
        with Client(address) as client:
            answer = client.send(ApiKey.CONSUMER_GROUP_HEARTBEAT, heartbeat(0), 1)
            assert answer.error_code == 0, answer

    def heartbeat(epoch: int) -> ConsumerGroupHeartbeatRequest:
        is_new = epoch == 0
        return ConsumerGroupHeartbeatRequest(
            group, "attacker", epoch, None, None, 60_000 if is_new else -1, [TOPIC] if is_new else None, None, None,
            [] if is_new else None,
        )  # fmt: skip

    yield one(
        ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, f"joins a classic group of {LARGE_GROUP:,} members",
        lambda: heartbeat(0), prepare=make, only_long=True,
    )  # fmt: skip
    yield one(
        ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, f"leaves a group of {LARGE_GROUP:,} classic members",
        lambda: heartbeat(-1), prepare=upgrade, only_long=True,
    )  # fmt: skip


def _member_count(client: Client, group: str) -> int:
    return len(client.send(ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest([group]), 5).groups[0].members)


def _make_large_group(address: str, group: str) -> None:
    """A stable classic group. Each member has a connection of its own, for its JoinGroup waits for the others."""
    topic = TOPIC.encode()
    subscription = pack(">hih", 0, 1, len(topic)) + topic + pack(">i", -1)
    protocols = [JoinGroupRequestProtocol("range", subscription)]

    def joining(member_id: str) -> JoinGroupRequest:
        return JoinGroupRequest(group, SESSION_MS, 60_000, member_id, None, "consumer", protocols)

    with ExitStack() as opened, Client(address) as admin:
        first, *others = [opened.enter_context(Client(address, timeout_s=60)) for _ in range(LARGE_GROUP)]
        member_id = first.send(ApiKey.JOIN_GROUP, joining(""), 3).member_id
        for client in others:
            client.post(ApiKey.JOIN_GROUP, joining(""), 3)
        while _member_count(admin, group) < LARGE_GROUP:
            time.sleep(0.1)
        leader = first.send(ApiKey.JOIN_GROUP, joining(member_id), 3)
        assignments = [SyncGroupRequestAssignment(each.member_id, _assignment(0)) for each in leader.members]
        request = SyncGroupRequest(group, leader.generation_id, member_id, None, None, None, assignments)
        assert first.send(ApiKey.SYNC_GROUP, request, 3).error_code == 0


# --- fetches


def _fetch(partitions: int, **fields: Any) -> FetchRequest:
    wanted = [FetchPartition(number + 100, partition_max_bytes=1 << 20) for number in range(partitions)]
    return FetchRequest(topics=[FetchTopic(TOPIC, partitions=wanted)], **fields)


def _of_fetches() -> Iterator[Attack]:
    yield one(
        ApiKey.FETCH, 12, "90,000 unknown partitions in a session, 5 clients that hang up",
        lambda: _fetch(90_000, max_wait_ms=100, min_bytes=1, session_epoch=0), 5, hang_up=True,
    )  # fmt: skip
    beyond = FetchPartition(0, fetch_offset=10_000_000, partition_max_bytes=1 << 20)
    end = FetchPartition(0, fetch_offset=130, partition_max_bytes=1 << 20)
    yield one(
        ApiKey.FETCH, 12, "90,000 times the end of a partition, waiting, 5 clients that hang up",
        lambda: FetchRequest(
            max_wait_ms=INT32_MAX, min_bytes=INT32_MAX, session_epoch=-1,
            topics=[FetchTopic(TOPIC, partitions=[end] * 90_000)],
        ),
        5, hang_up=True,
    )  # fmt: skip
    start = FetchPartition(0, fetch_offset=0, partition_max_bytes=1 << 20)
    yield one(
        ApiKey.FETCH, 12, "90,000 times the start of a partition",
        lambda: FetchRequest(
            max_wait_ms=100, min_bytes=1, session_epoch=-1,
            topics=[FetchTopic(TOPIC, partitions=[start, beyond] * 45_000)],
        ),
    )  # fmt: skip


# --- many requests at once


def _make_groups(address: str, count: int = 3_000) -> None:
    partition = OffsetCommitRequestPartition(0, 1, -1, "")
    with Client(address) as client:
        for number in range(count):
            topics = [OffsetCommitRequestTopic(TOPIC, partitions=[partition])]
            client.post(ApiKey.OFFSET_COMMIT, OffsetCommitRequest(f"group-{number}", topics=topics), 8)
        for _ in range(count):
            client.receive_frame()


def _of_many_requests() -> Iterator[Attack]:
    """Requests that are sent without waiting for the answers to the earlier ones."""
    yield one(
        ApiKey.LIST_GROUPS, 4, "50 times at once, 3,000 groups", lambda: ListGroupsRequest(), 50,
        prepare=_make_groups, at_once=True,
    )  # fmt: skip
    yield one(
        ApiKey.API_VERSIONS, 0, "50,000 times at once", lambda: ApiVersionsRequest(), 50_000, at_once=True,
    )  # fmt: skip
    yield one(
        ApiKey.METADATA, 12, "20,000 times at once", lambda: MetadataRequest(None), 20_000, at_once=True,
    )  # fmt: skip
    configs = DescribeConfigsRequest([DescribeConfigsResource(4, "1", None)], True, True)
    yield one(
        ApiKey.DESCRIBE_CONFIGS, 4, "1,000 times at once, all settings of the broker", lambda: configs, 1_000,
        at_once=True,
    )  # fmt: skip
    alter = AlterConfigsRequest(
        [AlterConfigsResource(TOPIC_RESOURCE, TOPIC, [AlterableConfig("retention.ms", "1000000")])]
    )
    yield one(ApiKey.ALTER_CONFIGS, 1, "2,000 times at once", lambda: alter, 2_000, at_once=True)
    yield from _of_many_clients(configs)


def _of_many_clients(configs: DescribeConfigsRequest) -> Iterator[Attack]:
    unknown = [ListOffsetsTopic(name, [ListOffsetsPartition(0, -1, -1)]) for name in _names(40_000, "unknown")]
    yield one(
        ApiKey.LIST_OFFSETS, 6, "40,000 topics, 10 clients at once", lambda: ListOffsetsRequest(-1, 0, unknown), 10,
        side_by_side=True,
    )  # fmt: skip
    many = [f"group-{number}" for number in range(20_000)]
    yield one(
        ApiKey.DESCRIBE_GROUPS, 5, "20,000 unknown groups, 100 clients at once",
        lambda: DescribeGroupsRequest(many), at_once=True, clients=100, only_long=True,
    )  # fmt: skip
    yield one(
        ApiKey.API_VERSIONS, 0, "1,000 times at once by each of 200 clients", lambda: ApiVersionsRequest(), 1_000,
        at_once=True, clients=200,
    )  # fmt: skip
    yield one(
        ApiKey.METADATA, 12, "200 times at once by each of 200 clients", lambda: MetadataRequest(None), 200,
        at_once=True, clients=200,
    )  # fmt: skip
    yield one(
        ApiKey.DESCRIBE_CONFIGS, 4, "10 times at once by each of 200 clients, all settings of the broker",
        lambda: configs, 10, at_once=True, clients=200, only_long=True,
    )  # fmt: skip
    wide = [CreatableTopic(name, 1_000, 1) for name in _names(9, "wide")]
    yield one(
        ApiKey.METADATA, 12, "everything, by each of 100 clients at once, with 9 topics of 1,000 partitions",
        lambda: MetadataRequest(None), at_once=True, clients=100, prepare=partial(_create, topics=wide),
        only_long=True,
    )  # fmt: skip
    yield one(
        ApiKey.OFFSET_COMMIT, 8, "100 times at once by each of 200 clients", _commit_of_one, 100,
        at_once=True, clients=200,
    )  # fmt: skip


def _commit_of_one() -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(0, 1, -1, "")
    return OffsetCommitRequest(GROUP, topics=[OffsetCommitRequestTopic(TOPIC, partitions=[partition])])
