"""TxnOffsetCommit: what exists, then the transaction coordinator, then the group; and then it waits for the marker."""

from __future__ import annotations

import pytest

from kohort.coordinator.offset_store import OffsetStore
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitRequestTopic
from kohort.protocol.record_batch import parse_header, read_records
from kohort.protocol.txn_marker import TxnMarker
from tests.coordinator.consumer.words import a_group, next_target
from tests.coordinator.members import commit, errors_of, fetch, fetched, joined, send_fetch, stable, static_members
from tests.coordinator.share.words import a_group as a_share_group
from tests.coordinator.support import Host
from tests.coordinator.txn_words import Producer, txn_request, write_marker

NONE = ErrorCode.NONE
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
ILLEGAL = ErrorCode.ILLEGAL_GENERATION
VERSIONS = range(6)
PLACE, OTHER = ("orders", 0), ("orders", 1)


# --- what exists


@pytest.mark.parametrize("version", VERSIONS)
def test_unknown_topics_and_partitions_fail_alone(version: int) -> None:
    host = Host()
    producer = Producer(host, version=version)
    call = producer.send({PLACE: 1, ("orders", 12): 1, ("orders", -1): 1, ("ghost", 0): 1})
    assert list(errors_of(call).items()) == [(("orders", 12), 3), (("orders", -1), 3), (PLACE, 0), (("ghost", 0), 3)]
    producer.end(commit=True)
    assert fetch(host, "g") == {PLACE: 1}


@pytest.mark.parametrize("version", VERSIONS)
def test_if_nothing_is_left_nobody_is_asked(version: int) -> None:
    host = Host()
    host.transactions.answer = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert Producer(host, version=version).commit({("ghost", 0): 1}, group_id="") == 3
    assert host.transactions.asked == []
    assert host.list_groups() == []


def test_a_commit_of_nothing_is_answered_with_nothing() -> None:
    host = Host()
    assert list(host.ask(TxnOffsetCommitRequest("shop", "g")).topics) == []
    empty = TxnOffsetCommitRequest("shop", "g", topics=[TxnOffsetCommitRequestTopic("orders")])
    assert list(host.ask(empty).topics) == []
    assert host.transactions.asked == []


# --- the transaction coordinator


@pytest.mark.parametrize("version", VERSIONS)
def test_the_group_needs_a_name(version: int) -> None:
    host = Host()
    assert Producer(host, version=version).commit({PLACE: 1}, group_id="") is ErrorCode.INVALID_GROUP_ID
    assert host.transactions.asked == []


@pytest.mark.parametrize("version", VERSIONS)
def test_so_does_the_transaction(version: int) -> None:
    host = Host()
    call = host.send(txn_request("g", {PLACE: 1}, transactional_id=""), version)
    assert errors_of(call) == {PLACE: ErrorCode.INVALID_REQUEST}
    assert host.list_groups() == []


@pytest.mark.parametrize("version", VERSIONS)
def test_newer_versions_add_the_groups_partition_of_the_log_and_older_ones_verify_it(version: int) -> None:
    host = Host()
    assert Producer(host, version=version).commit({PLACE: 1}) is NONE
    partition = host.shard_of("g").partition
    assert host.transactions.asked == [("shop", 7, 0, [("__consumer_offsets", partition)], version == 5)]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("said", "answered"),
    [
        (ErrorCode.TRANSACTION_ABORTABLE, (48, 48, 48, 48, 120, 120)),  # the partition is not in the transaction
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, (49,) * 6),
        (ErrorCode.PRODUCER_FENCED, (47,) * 6),
        (ErrorCode.CONCURRENT_TRANSACTIONS, (51,) * 6),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, (15, 15, 14, 14, 14, 14)),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, (15,) * 6),
        (ErrorCode.NOT_COORDINATOR, (16,) * 6),
    ],
)
def test_its_refusals_are_answered_as_the_version_knows_them(
    version: int, said: ErrorCode, answered: tuple[int, ...]
) -> None:
    host = Host()
    host.transactions.answer = said
    call = Producer(host, version=version).send({PLACE: 1, ("ghost", 0): 1})
    assert errors_of(call) == {("ghost", 0): 3, PLACE: answered[version]}
    assert host.list_groups() == []


def test_it_may_take_its_time() -> None:
    host = Host()
    host.transactions.answer = None
    call = Producer(host).send({PLACE: 1})
    assert not call.is_answered
    assert host.log_of("g") == []
    host.advance(500)
    host.transactions.waiting.pop()(NONE)
    assert errors_of(call) == {PLACE: NONE}
    assert len(host.log_of("g")) == 1


def test_it_is_asked_once_per_transaction() -> None:
    host = Host()
    producer = Producer(host)
    for offset in range(3):
        assert producer.commit({PLACE: offset}) is NONE
    assert len(host.transactions.asked) == 1
    producer.end(commit=True)
    producer.commit({PLACE: 9})
    assert len(host.transactions.asked) == 2


def test_a_marker_that_comes_while_it_is_asked_fences_the_commit() -> None:
    # Measured for Produce on Kafka 4.3.1: what is verified for one transaction is not written into the next.
    host = Host()
    host.transactions.answer = None
    call = Producer(host, version=3).send({PLACE: 1})
    assert write_marker(host, "g", TxnMarker(7, 0, False, 0, 0)).error is NONE
    host.transactions.waiting.pop()(NONE)
    assert errors_of(call) == {PLACE: ErrorCode.INVALID_TXN_STATE}
    assert not host.state_of("g").offsets.pending


@pytest.mark.parametrize("version", VERSIONS)
def test_an_epoch_below_the_last_one_is_fenced(version: int) -> None:
    host = Host()
    Producer(host, epoch=5).commit({PLACE: 1})
    assert Producer(host, epoch=4, version=version).commit({PLACE: 2}) is ErrorCode.INVALID_PRODUCER_EPOCH
    host.crash()
    assert Producer(host, epoch=4, version=version).commit({PLACE: 2}) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert Producer(host, epoch=5, version=version).commit({PLACE: 3}) is NONE
    assert Producer(host, epoch=6, version=version).commit({PLACE: 4}) is NONE


# --- the group


@pytest.mark.parametrize("version", VERSIONS)
def test_a_group_that_does_not_exist_is_made(version: int) -> None:
    host = Host()
    assert Producer(host, version=version).commit({PLACE: 1}) is NONE
    (listed,) = host.list_groups()
    assert (listed.group_id, listed.group_state, listed.protocol_type) == ("g", "Empty", "")


@pytest.mark.parametrize("version", range(3, 6))
def test_but_not_by_somebody_with_a_generation(version: int) -> None:
    host = Host()
    assert Producer(host, version=version).commit({PLACE: 1}, generation=0) is ILLEGAL
    assert host.list_groups() == []


def test_a_member_id_without_generation_is_no_obstacle_in_a_missing_or_empty_group() -> None:
    host = Host()
    producer = Producer(host)
    assert producer.commit({PLACE: 1}, member_id="m") is NONE
    assert producer.commit({PLACE: 1}, member_id="m") is NONE


@pytest.mark.parametrize("version", range(3, 6))
def test_in_a_stable_group_the_member_and_its_generation_must_be_right(version: int) -> None:
    host = Host()
    (member,) = stable(host, "a")
    producer = Producer(host, version=version)
    me, now = member.member_id, member.generation
    assert producer.commit({PLACE: 1}, member_id=me, generation=now) is NONE
    assert producer.commit({PLACE: 1}, member_id=me, generation=now + 1) is ILLEGAL
    assert producer.commit({PLACE: 1}, member_id=me, generation=-1) is ILLEGAL
    assert producer.commit({PLACE: 1}, member_id="stranger", generation=now) is UNKNOWN
    assert producer.commit({PLACE: 1}, generation=now) is UNKNOWN


def test_a_static_member_is_known_by_its_instance() -> None:
    host = Host()
    (member,) = static_members(host, "a")
    producer = Producer(host)
    me, now, instance = member.member_id, member.generation, member.instance_id
    assert producer.commit({PLACE: 1}, member_id=me, generation=now, instance_id=instance) is NONE
    assert producer.commit({PLACE: 1}, member_id="x", generation=now, instance_id=instance) is (
        ErrorCode.FENCED_INSTANCE_ID
    )
    assert producer.commit({PLACE: 1}, member_id=me, generation=now, instance_id="?") is UNKNOWN
    assert producer.commit({PLACE: 1}, instance_id="?") is UNKNOWN


@pytest.mark.parametrize("version", VERSIONS)
def test_who_does_not_say_who_it_is_always_passes(version: int) -> None:
    host = Host()
    stable(host, "a")
    assert Producer(host, version=version).commit({PLACE: 1}) is NONE
    joined(host, "b", group_id="h")
    assert Producer(host, 8, version=version).commit({PLACE: 1}, "h") is NONE


def test_a_rebalance_is_no_obstacle() -> None:
    host = Host()
    (member,) = joined(host, "a")
    assert host.state("g") == "CompletingRebalance"
    assert Producer(host).commit({PLACE: 1}, member_id=member.member_id, generation=member.generation) is NONE


def test_it_is_no_sign_of_life() -> None:
    host = Host()
    (member,) = stable(host, "a")
    producer = Producer(host)
    for _ in range(11):
        host.advance(1_000)
        producer.send({PLACE: 1}, member_id=member.member_id, generation=member.generation)
    assert host.state("g") == "Empty"


def test_members_of_consumer_groups_commit_with_their_epoch() -> None:
    group = a_group()
    group.join("m1")
    next_target(group)
    group.join("m2")
    group.beat("m1", 2)
    group.beat("m1", 2, {"orders": [0, 1]})
    group.beat("m2", 3)
    producer = Producer(group.host)

    def committed(epoch: int, *partitions: int, member_id: str = "m1") -> ErrorCode:
        offsets = {("orders", partition): 1 for partition in partitions}
        return producer.commit(offsets, "billing", generation=epoch, member_id=member_id)

    assert committed(3, 0, 1) is NONE
    assert committed(3, 2) is NONE  # with its exact epoch, a member may commit whatever it wants
    assert committed(4, 0) is ILLEGAL  # and not STALE_MEMBER_EPOCH, as OffsetCommit has it
    assert committed(2, 0, 1) is NONE
    assert committed(2, 0, 2) is ILLEGAL
    assert committed(1, 0) is ILLEGAL
    assert committed(-1, 0) is ILLEGAL
    assert committed(3, 0, member_id="m3") is UNKNOWN
    assert committed(-1, 0, member_id="") is NONE
    assert producer.commit({PLACE: 1}, "billing", version=0) is NONE
    group.leave("m1")
    group.leave("m2")
    assert committed(-1, 0, member_id="whoever") is NONE
    assert committed(3, 0) is UNKNOWN


def test_share_groups_have_no_offsets() -> None:
    group = a_share_group()
    group.join("m1")
    assert Producer(group.host).commit({PLACE: 1}, group.group_id) is ErrorCode.GROUP_ID_NOT_FOUND


def test_metadata_that_is_too_long_fails_alone() -> None:
    host = Host(offset_metadata_max_bytes=4)
    request = txn_request("g", {PLACE: 1, OTHER: 2}, metadata="1234")
    request.topics[0].partitions[1].committed_metadata = "12345"
    assert errors_of(host.send(request, 5)) == {PLACE: 0, OTHER: ErrorCode.OFFSET_METADATA_TOO_LARGE}
    write_marker(host, "g", TxnMarker(7, 1, True, 0, 2))
    assert fetched(send_fetch(host, "g"))[PLACE].metadata == "1234"
    assert len(fetch(host, "g")) == 1


def test_if_all_metadata_is_too_long_nothing_is_written() -> None:
    host = Host(offset_metadata_max_bytes=4)
    assert errors_of(Producer(host).send({PLACE: 1}, metadata="12345")) == {PLACE: 12}
    assert host.log_of("g") == []
    assert host.list_groups() == []
    assert Producer(host, epoch=-1).commit({PLACE: 1}, generation=4) is ILLEGAL


@pytest.mark.parametrize("version", VERSIONS)
def test_null_metadata_is_empty_and_the_leader_epoch_is_kept_where_there_is_one(version: int) -> None:
    host = Host()
    host.send(txn_request("g", {PLACE: 1}, metadata=None, leader_epoch=4 if version >= 2 else -1), version)
    write_marker(host, "g", TxnMarker(7, 1, True, 0, 2))
    row = fetched(send_fetch(host, "g"))[PLACE]
    assert (row.metadata, row.committed_leader_epoch) == ("", 4 if version >= 2 else -1)


# --- what is written


def test_each_commit_is_a_batch_of_its_own_with_the_producer_in_its_header() -> None:
    host = Host()
    host.disk.is_slow = True
    commit(host, "g", {PLACE: 1})
    host.disk.is_busy = True  # all that follows becomes one write
    commit(host, "g", {PLACE: 2})
    Producer(host, 7, 3).send({PLACE: 3, OTHER: 4})
    Producer(host, 8, 0).send({PLACE: 5})
    commit(host, "g", {PLACE: 6})
    host.disk_catches_up()
    headers = [parse_header(batch) for batch in host.disk.batches[host.shard_of("g").partition]]
    said = [(h.base_offset, h.record_count, h.producer_id, h.producer_epoch, h.is_transactional) for h in headers]
    assert said == [
        (0, 1, -1, -1, False), (1, 1, -1, -1, False), (2, 2, 7, 3, True), (4, 1, 8, 0, True), (5, 1, -1, -1, False),
    ]  # fmt: skip
    assert {header.base_sequence for header in headers} == {0}


def test_its_records_say_who_has_committed_as_those_of_other_commits_do() -> None:
    host = Host()
    (member,) = stable(host, "a")
    Producer(host).commit({PLACE: 1}, member_id=member.member_id, generation=1)
    (record,) = read_records(host.disk.batches[host.shard_of("g").partition][-1])
    assert dict(record.headers) == {b"kohort.member": member.member_id.encode(), b"kohort.generation": b"1"}


def test_the_answer_waits_for_the_disk_and_so_does_that_to_a_marker() -> None:
    host = Host()
    host.disk.is_slow = True
    producer = Producer(host)
    call = producer.send({PLACE: 1})
    assert not call.is_answered
    host.disk_catches_up()
    assert errors_of(call) == {PLACE: NONE}
    host.disk.is_slow = True
    marker = write_marker(host, "g", TxnMarker(7, 1, True, 0, 2))
    assert marker.error is None
    host.disk_catches_up()
    assert marker.error is NONE


@pytest.mark.parametrize("version", VERSIONS)
def test_if_the_disk_fails_the_sender_comes_again(version: int) -> None:
    host = Host()
    host.disk.is_slow = True
    call = Producer(host, version=version).send({PLACE: 1, ("ghost", 0): 1})
    host.disk_fails()
    assert errors_of(call) == {("ghost", 0): 3, PLACE: ErrorCode.NOT_COORDINATOR}
    assert Producer(host, version=version).commit({PLACE: 1}) == (15 if version < 2 else 14)
    host.load()
    assert Producer(host, version=version).commit({PLACE: 1}) is NONE


@pytest.mark.parametrize("in_steps", [False, True])
def test_what_does_not_fit_into_one_batch_is_refused(in_steps: bool) -> None:
    host = Host(max_message_bytes=10_000)
    host.runtime.limit_batches(10_000)
    host.handles_long = in_steps
    many = txn_request("g", {PLACE: 1})
    row = many.topics[0].partitions[0]
    many.topics = [TxnOffsetCommitRequestTopic("orders", [row] * 1_000)]
    assert set(errors_of(host.send(many)).values()) == {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert host.log_of("g") == []
    many.topics = [TxnOffsetCommitRequestTopic("orders", [row] * 150)]
    assert set(errors_of(host.send(many)).values()) == {NONE}
    (batch,) = host.disk.batches[host.shard_of("g").partition]
    assert parse_header(batch).record_count == 150
    assert len(batch) <= 10_000


def test_our_headers_are_left_out_if_the_records_fit_without_them() -> None:
    host = Host(max_message_bytes=10_000)
    producer = Producer(host)
    row = txn_request("g", {PLACE: 1}).topics[0].partitions[0]
    for count, has_headers in ((100, True), (170, False)):
        request = txn_request("g", {}, member_id="m")
        request.topics = [TxnOffsetCommitRequestTopic("orders", [row] * count)]
        assert set(errors_of(host.send(request)).values()) == {NONE}
        record = next(iter(read_records(host.disk.batches[host.shard_of("g").partition][-1])))
        assert bool(record.headers) is has_headers
    assert producer.end(commit=True) is NONE


def test_topics_that_vanish_meanwhile_are_looked_up_again() -> None:
    host = Host()
    host.transactions.answer = None
    call = Producer(host).send({PLACE: 1, ("payments", 0): 2})
    host.delete_topic("orders")
    host.transactions.waiting.pop()(NONE)
    assert errors_of(call) == {PLACE: 3, ("payments", 0): 0}
    assert [(place, each.offset) for place, each in _offsets(host).all_offsets()] == [(("g", "payments", 0), 2)]


def _offsets(host: Host) -> OffsetStore:
    return host.state_of("g").offsets
