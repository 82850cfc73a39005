"""What a large or hostile request may cost: what the log takes of it is bounded, and long work is done in pieces.

The errors were measured on Kafka 4.3.1, with the same requests.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest

from kohort.coordinator.membership import SYNC_GROUP
from kohort.coordinator.pieces import PIECE
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, TopicPartition
from kohort.protocol.messages.delete_groups import DeleteGroupsRequest
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kohort.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kohort.protocol.subscription import pack_assignment
from tests.coordinator.members import Member, commit, fetched, joined, send_fetch, stable, subscription
from tests.coordinator.support import Call, FakeTopics, Host

NONE, TOO_LARGE = ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR
LONG_ID = "g" * 32_000
MAX_BATCH_BYTES = 1_048_588  # of the log


def log_bytes(host: Host) -> int:
    return sum(len(batch) for batches in host.disk.batches.values() for batch in batches)


def commit_many(
    host: Host, group_id: str, times: int, member_id: str = "", version: int = 9, retention_time_ms: int = -1
) -> Call:
    """Name partition 0 many times, behind a partition that does not exist."""
    rows = [OffsetCommitRequestPartition(99, 1, -1, "")]
    rows += [OffsetCommitRequestPartition(0, offset, -1, "") for offset in range(times)]
    topics = [OffsetCommitRequestTopic("orders", partitions=rows)]
    return host.send(OffsetCommitRequest(group_id, -1, member_id, None, retention_time_ms, topics), version)


def errors(call: Call) -> set[int]:
    unknown, *others = call.answer.topics[0].partitions
    assert (unknown.partition_index, unknown.error_code) == (99, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return {row.error_code for row in others}


# --- what the log takes


@pytest.mark.parametrize(("version", "retention_ms"), [(9, -1), (3, 1_000)])
def test_a_commit_that_does_not_fit_into_one_batch_is_refused_and_nothing_is_written(
    version: int, retention_ms: int
) -> None:
    host = Host()
    call = commit_many(host, LONG_ID, 5_000, version=version, retention_time_ms=retention_ms)
    assert errors(call) == {TOO_LARGE}
    assert log_bytes(host) == 0
    assert host.list_groups() == []


def test_as_many_partitions_with_a_long_group_id_as_fit_are_committed() -> None:
    host = Host()
    assert errors(commit_many(host, LONG_ID, 32)) == {NONE}
    assert errors(commit_many(host, LONG_ID, 33)) == {TOO_LARGE}
    assert log_bytes(host) < MAX_BATCH_BYTES


def test_a_commit_of_ten_thousand_partitions_is_taken_and_one_of_twenty_thousand_is_not() -> None:
    host = Host()
    assert errors(commit_many(host, "short", 10_000)) == {NONE}
    assert errors(commit_many(host, "short", 20_000)) == {TOO_LARGE}


def test_long_member_ids_are_left_out_of_the_log_when_they_make_a_commit_too_large() -> None:
    host = Host()
    assert errors(commit_many(host, "g", 1_000, member_id="m" * 32_000)) == {NONE}
    assert log_bytes(host) < MAX_BATCH_BYTES
    assert {record.headers for record in host.log_of("g")} == {()}
    assert fetched(send_fetch(host, "g"))["orders", 0].committed_offset == 999


def delete_offsets(host: Host, group_id: str, indexes: list[int]) -> Call:
    partitions = [OffsetDeleteRequestPartition(index) for index in indexes]
    return host.send(OffsetDeleteRequest(group_id, [OffsetDeleteRequestTopic("orders", partitions)]))


def test_tombstones_that_do_not_fit_into_one_batch_are_refused_and_nothing_is_deleted() -> None:
    host = Host(topics=FakeTopics(orders=100))
    for start in range(0, 100, 20):
        commit(host, LONG_ID, {("orders", index): 1 for index in range(start, start + 20)})
    before = log_bytes(host)
    assert delete_offsets(host, LONG_ID, list(range(100))).error is TOO_LARGE
    assert log_bytes(host) == before
    assert delete_offsets(host, LONG_ID, list(range(30))).error is NONE
    assert len(fetched(send_fetch(host, LONG_ID))) == 70


def test_a_partition_that_is_named_often_gets_one_tombstone() -> None:
    host = Host()
    commit(host, LONG_ID, {("orders", 0): 1})
    before = log_bytes(host)
    assert delete_offsets(host, LONG_ID, [0] * 5_000).error is NONE
    assert log_bytes(host) - before < 2 * len(LONG_ID)


# --- what is done in pieces


def a_group_with_many_offsets(host: Host, count: int) -> None:
    for start in range(0, count, 5_000):
        commit(host, "g", {("orders", index): 1 for index in range(start, min(start + 5_000, count))})


MANY = 5 * PIECE


@pytest.fixture
def host() -> Host:
    made = Host(topics=FakeTopics(orders=MANY), partition_count=1)
    a_group_with_many_offsets(made, MANY)
    made.disk.is_busy = True  # nothing is written unless the test says so
    return made


def records_in_pieces(host: Host) -> list[int]:
    """How many records each write has, if the disk takes what there is after each piece."""
    sizes = []
    while host.runtime.busy:
        offset = host.runtime.shards[0].next_offset
        while host.runtime.go_on(host.steady_ms, host.now):
            assert host.runtime.shards[0].piece_size < 2 * PIECE
        sizes.append(host.runtime.shards[0].next_offset - offset)
        host.disk.on_the_way += host.take_writes()
    return sizes


def test_a_million_offsets_expire_in_pieces_that_wait_for_the_disk(host: Host) -> None:
    host.advance(host.config.offsets_retention_ms)
    host.runtime.expire_offsets(host.runtime.shards[0])
    sizes = records_in_pieces(host)
    assert len(sizes) >= MANY // (2 * PIECE)
    assert sum(sizes) == MANY + 1, "one for the group, when nothing of it is left"
    assert host.runtime.shards[0].state.groups == {}


def test_a_commit_between_two_pieces_keeps_the_group(host: Host) -> None:
    host.advance(host.config.offsets_retention_ms)
    host.runtime.expire_offsets(host.runtime.shards[0])
    host.runtime.go_on(host.steady_ms, host.now)
    commit(host, "g", {("orders", 0): 7})
    records_in_pieces(host)
    host.disk_catches_up()
    assert {place: row.committed_offset for place, row in fetched(send_fetch(host, "g")).items()} == {("orders", 0): 7}


def test_the_offsets_of_a_deleted_topic_go_in_pieces(host: Host) -> None:
    host.topics.create("payments", 4)
    host.runtime.topics_deleted([("orders", host.topics.delete("orders"))])
    shard = host.runtime.shards[0]
    assert 0 < shard.piece_size < 2 * PIECE, "the first piece at once"
    assert sum(records_in_pieces(host)) + PIECE >= MANY
    assert shard.gone_topics, "until the last tombstone is durable"
    host.disk_catches_up()
    assert (shard.state.offsets.count(), shard.gone_topics) == (0, [])


def test_a_group_with_many_offsets_is_deleted_in_pieces_and_answered_at_the_end(host: Host) -> None:
    call = host.send(DeleteGroupsRequest(["g", "nobody"]))
    records_in_pieces(host)
    assert not call.is_answered, "the tombstones are not durable"
    host.disk_catches_up()
    assert [result.error_code for result in call.answer.results] == [NONE, ErrorCode.GROUP_ID_NOT_FOUND]
    assert host.runtime.shards[0].state.groups == {}
    host.crash()
    assert host.runtime.shards[0].state.groups == {}
    assert host.runtime.shards[0].state.offsets.count() == 0


def test_offsets_that_are_committed_while_the_group_is_being_deleted_go_too(host: Host) -> None:
    call = host.send(DeleteGroupsRequest(["g"]))
    commit(host, "g", {("orders", 0): 7})
    records_in_pieces(host)
    host.disk_catches_up()
    assert [result.error_code for result in call.answer.results] == [NONE]
    host.crash()
    assert host.runtime.shards[0].state.offsets.count() == 0


def test_a_client_whose_group_is_being_deleted_is_told_when_the_disk_fails(host: Host) -> None:
    call = host.send(DeleteGroupsRequest(["g"]))
    assert not call.is_answered
    host.disk.on_the_way += host.take_writes()
    host.disk_fails()
    assert [result.error_code for result in call.answer.results] == [ErrorCode.NOT_COORDINATOR]
    assert not host.runtime.busy


# --- JoinGroup and SyncGroup


def assignment(*partitions: int) -> bytes:
    topics = [TopicPartition("orders", list(partitions))]
    return pack_assignment(ConsumerProtocolAssignment(topics, None))


def peak_bytes(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_assignments_for_members_that_do_not_exist_are_not_looked_at() -> None:
    host = Host()
    (a,) = joined(host, "a")
    a.sync({a.member_id: assignment(0, 1)})
    a.join()
    a.sync({"nobody": assignment(0, 1), "": b"what is no assignment", a.member_id: assignment(0)})
    assert host.events[-1].moved == 0, "nobody got a partition of somebody else"
    (member,) = host.describe("g").members
    assert member.member_assignment == assignment(0)


def test_a_large_assignment_is_refused_before_it_is_packed() -> None:
    host = Host()
    (a,) = joined(host, "a")
    request = SyncGroupRequest(
        "g", a.generation, a.member_id, None, "consumer", "range",
        [SyncGroupRequestAssignment(a.member_id, bytes(20_000_000))],
    )  # fmt: skip
    call = Call(host, ApiKey.SYNC_GROUP, 5, "a", request)
    assert peak_bytes(lambda: host.submit("g", SYNC_GROUP, request, call)) < 1_000_000
    host.settle()
    assert call.error is TOO_LARGE


def test_what_moved_is_not_counted_in_assignments_that_take_long_to_read() -> None:
    host = Host()
    (a,) = joined(host, "a")
    a.sync({a.member_id: assignment(*range(60_000))})
    assert host.events[-1].moved == 0
    a.join()
    a.sync({a.member_id: assignment(*range(60_000))})
    assert host.events[-1].moved == -1


@pytest.mark.parametrize(
    ("protocols", "error"),
    [
        ([(f"p{n}", b"") for n in range(100)], NONE),
        ([(f"p{n}", b"") for n in range(101)], TOO_LARGE),
        ([("range", b"")] * 101, TOO_LARGE),
        ([("range", bytes(1_000_000)), ("sticky", bytes(1_000_000))], NONE),
        ([("range", bytes(1_000_000)), ("sticky", bytes(1_100_000))], TOO_LARGE),
    ],
)
def test_a_member_brings_no_more_protocols_than_the_log_could_keep(
    protocols: list[tuple[str, bytes]], error: ErrorCode
) -> None:
    host = Host()
    member = Member(host, "g", protocols=protocols, version=3)
    call = member.ask_to_join()
    host.advance(3_000)
    assert call.error is error
    assert len(host.list_groups()) == (1 if error is NONE else 0)


def test_subscriptions_to_very_many_topics_are_not_read() -> None:
    host = Host()
    few, many = subscription("orders"), subscription(*[f"{n}" for n in range(50_000)])
    stable(host, "a", protocols=[("range", few)])
    assert host.classic("g").subscribed_topics == frozenset({"orders"})
    stable(host, "a", "b", group_id="h", protocols=[("range", many)])
    assert host.classic("h").subscribed_topics is None


# --- the largest generation


def test_after_the_largest_generation_comes_the_first() -> None:
    host = Host()
    (a,) = stable(host, "a")
    host.classic("g").generation = 2**31 - 1
    a.generation = 2**31 - 1
    a.join()
    assert a.generation == 1
    a.sync({a.member_id: assignment(0)})
    assert (host.state("g"), a.heartbeat(), a.commit({("orders", 0): 1})) == ("Stable", NONE, NONE)
    host.crash()
    assert host.classic("g").generation == 1
