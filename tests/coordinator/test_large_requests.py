"""What a large or hostile request may cost: what the log takes of it is bounded, and long work is done in pieces.

The errors were measured on Kafka 4.3.1, with the same requests.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from types import GeneratorType
from typing import Any

import pytest

from kohort.coordinator.api import ELEMENTS_IN_STEP, Steps, all_steps
from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.membership import SYNC_GROUP
from kohort.coordinator.outcome import PARKED
from kohort.coordinator.pieces import PIECE
from kohort.coordinator.runtime import EXPIRATIONS_IN_STEP, MAX_ANSWER_BYTES
from kohort.protocol.api_keys import APIS, ApiKey
from kohort.protocol.codec import request_decoder, request_encoder
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.delete_groups import DeleteGroupsRequest
from kohort.protocol.messages.describe_groups import DescribeGroupsRequest
from kohort.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kohort.protocol.messages.list_groups import ListGroupsRequest
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from kohort.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kohort.protocol.wire import NO_UUID, LazyArray
from tests.coordinator.consumer.migrants import ClassicMember
from tests.coordinator.consumer.words import Answer, Group
from tests.coordinator.members import Member, commit, complete_joins, fetched, joined, send_fetch, stable
from tests.coordinator.support import KEY_OF_NAME, SERVED, Call, FakeTopics, Host
from tests.group_requests import assignment_bytes, delete_offsets_request, subscription

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
    return host.send(delete_offsets_request(group_id, ("orders", indexes)))


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
            assert host.runtime.piece_size < 2 * PIECE
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
    assert 0 < host.runtime.piece_size < 2 * PIECE, "the first piece at once"
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
    return assignment_bytes({"orders": partitions})


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
    assert host.events[-1].moved == 0, "the same bytes need not be read"
    a.join()
    a.sync({a.member_id: assignment(*range(1, 60_000))})
    assert host.events[-1].moved == -1


def test_partitions_that_changed_hands_are_counted_among_members_that_keep_theirs() -> None:
    host = Host()
    a, b, c = joined(host, "a", "b", "c")
    first = {a.member_id: assignment(0, 1, 2), b.member_id: assignment(3), c.member_id: assignment(4)}
    a.sync(first)
    assert host.events[-1].moved == 0
    for member in (a, b, c):
        member.join()
    for member in (a, b, c):
        member.learn()
    a.sync({**first, a.member_id: assignment(0), b.member_id: assignment(3, 1, 2)})
    assert host.events[-1].moved == 2


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
    few, many = subscription("orders"), subscription(*[f"{n}" for n in range(50_001)])
    stable(host, "a", protocols=[("range", few)])
    assert host.classic("g").subscribed_topics == frozenset({"orders"})
    stable(host, "a", "b", group_id="h", protocols=[("range", many)])
    assert host.classic("h").subscribed_topics is None


def test_a_group_has_no_more_members_than_the_log_could_keep() -> None:
    host = Host(max_message_bytes=75 * 20)
    members = [Member(host, "g", f"m{n}", version=3) for n in range(21)]
    calls = [member.ask_to_join() for member in members]
    assert [call.is_answered for call in calls] == [False] * 20 + [True]
    assert calls[-1].error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_ids_are_not_handed_out_without_end() -> None:
    host = Host(max_size=10)
    errors = [Member(host, "g").ask_to_join().error for _ in range(1_012)]
    assert errors == [ErrorCode.MEMBER_ID_REQUIRED] * 1_010 + [ErrorCode.GROUP_MAX_SIZE_REACHED] * 2


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


# --- long requests, in steps


def steps_of(host: Host, request: Any, version: int | None = None) -> tuple[Steps[Any], Call]:
    """As `host.send`, for a request with more than 2,000 elements; the test takes the steps."""
    api = APIS[KEY_OF_NAME[type(request).__name__.removesuffix("Request")]]
    version = api.max_version if version is None else version
    raw = request_encoder(api.key, version)(request)
    request = request_decoder(api.key, version)(raw if type(raw) is bytes else b"".join(raw))
    call = Call(host, api.key, version, "client", request)
    call.is_long = True
    served: Any = SERVED[api.key]
    steps = served(host, request, call)
    assert isinstance(steps, GeneratorType)
    return steps, call


def answer_of(host: Host, steps: Steps[Any], call: Call) -> Any:
    """Take the rest of the steps."""
    response = all_steps(steps)
    if response is not PARKED:
        call.reply(response)
    host.settle()
    return call.answer


def take(steps: Steps[Any], count: int) -> None:
    for _ in range(count):
        next(steps)


MANY_ROWS = 20 * ELEMENTS_IN_STEP


def long_requests(host: Host) -> list[tuple[Any, int]]:
    """Requests about group g and partitions of `orders`, each with its version."""
    host.topics.create("long", MANY_ROWS)
    rows = [OffsetCommitRequestPartition(n % (MANY_ROWS + 9), 5, -1, "") for n in range(MANY_ROWS + 9)]
    indexes = list(range(MANY_ROWS + 9))
    asked = OffsetFetchRequestTopics("long", NO_UUID, indexes)
    leaving = [MemberIdentity(f"m{n}", None, None) for n in range(MANY_ROWS)]
    assigned = [SyncGroupRequestAssignment(f"m{n}", b"") for n in range(MANY_ROWS)]
    return [
        (OffsetCommitRequest("g", -1, "", None, -1, [OffsetCommitRequestTopic("long", partitions=rows)]), 9),
        (OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", None, -1, [asked])]), 9),
        (OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", None, -1, None)]), 9),
        (OffsetFetchRequest("g", [OffsetFetchRequestTopic("long", indexes)]), 6),
        (OffsetFetchRequest("g", None), 6),
        (delete_offsets_request("g", ("long", indexes)), 0),
        (LeaveGroupRequest("g", "", leaving), 5),
        (SyncGroupRequest("g", 1, "m", None, "consumer", "range", assigned), 5),
        (ListGroupsRequest(["Empty", "none"] * MANY_ROWS, ["Classic"] * MANY_ROWS), 5),
        (DescribeGroupsRequest([f"g{n % 10}" for n in range(MANY_ROWS)]), 6),
        (DeleteGroupsRequest([f"g{n}" for n in range(MANY_ROWS)]), 2),
    ]


def refuse_to_index(array: LazyArray[Any], index: object) -> None:
    raise AssertionError("an element of a large array is found by reading the array from its start")


def test_long_requests_give_way_after_every_few_elements_and_get_the_same_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hosts = [Host(partition_count=3), Host(partition_count=3)]
    for (request, version), (same, _) in zip(*map(long_requests, hosts), strict=True):
        at_once = hosts[0].send(request, version).answer
        with monkeypatch.context() as patch:
            patch.setattr(LazyArray, "__getitem__", refuse_to_index)
            steps, call = steps_of(hosts[1], same, version)
            take(steps, MANY_ROWS // ELEMENTS_IN_STEP)
            answer = answer_of(hosts[1], steps, call)
        assert answer == at_once
        assert hosts[0].disk.batches == hosts[1].disk.batches


def test_a_long_commit_is_refused_if_its_shard_fails_meanwhile() -> None:
    host = Host(partition_count=1)
    request, version = long_requests(host)[0]
    steps, call = steps_of(host, request, version)
    take(steps, 5)
    host.runtime.start_over(host.runtime.shards[0])
    answer = answer_of(host, steps, call)
    errors = {row.error_code for row in answer.topics[0].partitions if row.partition_index < MANY_ROWS}
    assert errors == {ErrorCode.NOT_COORDINATOR}
    host.load()
    assert fetched(send_fetch(host, "g")) == {}


def test_a_long_commit_looks_again_at_topics_that_change_meanwhile() -> None:
    host = Host(partition_count=1)
    request, version = long_requests(host)[0]
    steps, call = steps_of(host, request, version)
    take(steps, 5)
    host.delete_topic("long")
    answer = answer_of(host, steps, call)
    assert {row.error_code for row in answer.topics[0].partitions} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert len(answer.topics[0].partitions) == MANY_ROWS + 9
    assert host.list_groups() == []


def test_members_that_leave_in_a_long_request_leave_together_in_its_last_step() -> None:
    host = Host()
    a, b, c = stable(host, "a", "b", "c")
    leaving = [MemberIdentity(f"m{n}", None, None) for n in range(1_000)]
    leaving += [MemberIdentity(each.member_id, None, None) for each in (a, b, a)]
    steps, call = steps_of(host, LeaveGroupRequest("g", "", leaving))
    take(steps, 1_003)
    assert (host.state("g"), len(host.classic("g").members)) == ("Stable", 3), (
        "if the client hangs up, nothing happened"
    )
    answer = answer_of(host, steps, call)
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert [member.error_code for member in answer.members[-4:]] == [unknown, NONE, NONE, unknown]
    assert list(host.classic("g").members) == [c.member_id]
    assert c.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_long_sync_tells_its_member_to_join_again_if_the_group_is_converted_meanwhile() -> None:
    """Kafka handles the SyncGroup before or after the conversion: here it is after it."""
    group = Group(Host())
    leader = ClassicMember(group, "leader")
    complete_joins(group.host, [leader])
    assigned = [SyncGroupRequestAssignment(f"m{n}", b"") for n in range(MANY_ROWS)]
    request = SyncGroupRequest(
        group.group_id, leader.generation, leader.member_id, None, "consumer", leader.protocol, assigned
    )
    steps, call = steps_of(group.host, request)
    take(steps, 5)
    assert isinstance(group.join("new"), Answer)
    assert answer_of(group.host, steps, call).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert isinstance(leader.rejoin(), dict), "it is a member still"


def test_an_answer_about_groups_waits_for_what_was_written_while_it_was_made() -> None:
    host = Host(partition_count=1)
    commit(host, "g", {("orders", n): 1 for n in range(12)})
    host.disk.is_slow = True
    steps, call = steps_of(
        host, OffsetFetchRequest(groups=[OffsetFetchRequestGroup(name, None, -1, None) for name in "gh"])
    )
    take(steps, 1)
    commit(host, "h", {("orders", 0): 5})
    assert all_steps(steps) is PARKED
    host.settle()
    assert not call.is_answered
    host.disk_catches_up()
    assert [len(group.topics) for group in call.answer.groups] == [1, 1]


@pytest.mark.parametrize("count", [1, 500])
def test_an_answer_about_several_groups_ends_at_some_size_and_clients_ask_again_for_the_rest(count: int) -> None:
    host = Host(max_message_bytes=5_000_000)
    (a,) = joined(host, "a")
    a.sync({a.member_id: bytes(4_000_000)})
    answer = host.ask(DescribeGroupsRequest(["g"] * count))
    whole = [group for group in answer.groups if not group.error_code]
    assert {len(group.members[0].member_assignment) for group in whole} == {4_000_000}
    assert len(whole) == min(count, MAX_ANSWER_BYTES // 4_000_000)
    others = {group.error_code for group in answer.groups} - {0}
    assert others == ({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS} if count > 1 else set())
    assert len(answer.groups) == count


def test_offsets_of_a_large_group_are_not_told_five_hundred_times() -> None:
    host = Host(topics=FakeTopics(orders=100))
    commit(host, "g", {("orders", n): 1 for n in range(100)}, metadata="m" * 4_000)
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", None, -1, None)] * 500)
    answer = host.ask(request)
    assert sum(1 for group in answer.groups if not group.error_code) <= MAX_ANSWER_BYTES // 400_000 + 1
    assert {group.error_code for group in answer.groups} == {0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}


def test_all_groups_are_listed_in_steps() -> None:
    host = Host(partition_count=1)
    for number in range(4 * ELEMENTS_IN_STEP):
        host.runtime.shards[0].state.groups[f"g{number}"] = ClassicGroup(f"g{number}")
    steps, call = steps_of(host, ListGroupsRequest())
    take(steps, 4)
    assert len(answer_of(host, steps, call).groups) == 4 * ELEMENTS_IN_STEP


# --- sessions that end together


def test_sessions_that_end_at_the_same_time_end_a_few_at_a_time() -> None:
    host = Host()
    names = [f"m{n}" for n in range(3 * EXPIRATIONS_IN_STEP)]
    stable(host, *names)
    host.steady_ms += 10_000
    left = []
    while (deadline := host.runtime.next_deadline(host.steady_ms)) is not None and deadline <= host.steady_ms:
        host.runtime.expire(host.steady_ms, host.now)
        left.append(len(host.classic("g").members))
    assert left[:2] == [len(names) - EXPIRATIONS_IN_STEP, len(names) - 2 * EXPIRATIONS_IN_STEP]
    host.settle()
    assert host.state("g") == "Empty"


def test_sessions_of_many_groups_that_end_at_the_same_time_end_a_few_at_a_time_in_all_shards_together() -> None:
    host = Host()
    names = [f"g{n}" for n in range(2 * EXPIRATIONS_IN_STEP)]
    members = [Member(host, name) for name in names]
    complete_joins(host, members)
    assert len({host.shard_of(name) for name in names}) > len(host.runtime.shards) // 2
    host.steady_ms += 60_000
    host.runtime.expire(host.steady_ms, host.now)
    assert len([name for name in names if not host.classic(name).members]) == EXPIRATIONS_IN_STEP
    host.advance(0)
    assert not [name for name in names if host.classic(name).members]


def test_an_answer_about_several_groups_is_freed_without_the_garbage_collector() -> None:
    """It may be large, and the collector comes much later."""
    host = Host()
    commit(host, "g", {("orders", 0): 5})
    groups = [OffsetFetchRequestGroup(group, topics=None) for group in ("g", "other", "third")]
    gc.collect()
    gc.disable()
    try:
        assert len(host.send(OffsetFetchRequest(groups=groups), 9).answer.groups) == 3
        assert not [each for each in gc.get_objects() if type(each) is OffsetFetchResponse]
    finally:
        gc.enable()


class DecodedWhenIterated(Sequence[OffsetFetchRequestGroup]):
    """As a LazyArray, which decodes from the first element on each time. Counts what would be decoded."""

    def __init__(self, groups: list[OffsetFetchRequestGroup]) -> None:
        self._groups = groups
        self.decoded = 0

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[OffsetFetchRequestGroup]:
        for group in self._groups:
            self.decoded += 1
            yield group

    def __getitem__(self, index: Any) -> Any:
        self.decoded += index + 1
        return self._groups[index]


def test_each_of_many_groups_is_decoded_once() -> None:
    groups = DecodedWhenIterated([OffsetFetchRequestGroup(f"g{n}", None, -1, None) for n in range(500)])
    host = Host()
    answer = answer_of(host, *steps_of(host, OffsetFetchRequest(groups=groups), 9))
    assert [group.group_id for group in answer.groups] == [group.group_id for group in groups]
    assert groups.decoded == 500 + 500  # the second time by this test


def test_a_request_about_many_groups_does_not_drive_out_what_is_known_of_others() -> None:
    host = Host()
    commit(host, "in use", {("orders", 0): 5})
    known = dict(host.runtime.known_shards)
    answer_of(host, *steps_of(host, DescribeGroupsRequest([f"g{n}" for n in range(5_000)])))
    assert host.runtime.known_shards == known
