"""Produce inside transactions: what is asked of the coordinator, and what each of its answers becomes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kohort.broker.call import NO_ANSWER, Call
from kohort.broker.steps import Pause
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kohort.protocol.record_batch import build_batch, build_marker
from kohort.storage.memory_disk import MemoryDisk
from tests.broker.broker_box import BrokerBox, FakeConnection
from tests.broker.transaction_box import TransactionBox, data, told

VERSIONS = range(3, 13)


@pytest.fixture
def box() -> Iterator[TransactionBox]:
    made = TransactionBox("/data", MemoryDisk())
    made.topic("t", 3)
    yield made
    made.close()


def several(
    box: BrokerBox, batches: list[tuple[int, bytes]], *, version: int = 12, topic: str = "t", **fields: Any
) -> Any:
    """One answer per partition: the offset, or the name of the error."""
    partitions = [PartitionProduceData(index, batch) for index, batch in batches]
    request = ProduceRequest(fields.pop("tid", "mine"), -1, 1000, [TopicProduceData(topic, partition_data=partitions)])
    answer = box.send(0, request, version, **fields)
    return {each.index: told(each) for each in answer.responses[0].partition_responses}


# --- the request as a whole -----------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_without_a_transactional_id_all_partitions_are_refused(box: TransactionBox, version: int) -> None:
    batches = [(0, data(box.now, 0)), (1, data(box.now, 0, transactional=False)), (9, data(box.now, 0))]
    refused = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
    assert several(box, batches, version=version, tid=None) == {0: refused, 1: refused, 9: refused}
    assert several(box, batches, version=version, tid=None, topic="nowhere") == {0: refused, 1: refused, 9: refused}
    assert not box.coordinator.asked


@pytest.mark.parametrize("version", VERSIONS)
def test_two_producers_in_one_request_are_refused(box: TransactionBox, version: int) -> None:
    refused = "INVALID_PRODUCER_ID_MAPPING"
    for other in (data(box.now, 0, producer_id=8), data(box.now, 0, epoch=1)):
        assert several(box, [(0, data(box.now, 0)), (1, other)], version=version) == {0: refused, 1: refused}
    assert not box.coordinator.asked


def test_an_unknown_partition_is_not_added(box: TransactionBox) -> None:
    assert several(box, [(0, data(box.now, 0)), (9, data(box.now, 0))]) == {0: 0, 9: "UNKNOWN_TOPIC_OR_PARTITION"}
    assert [asked.partitions for asked in box.coordinator.asked] == [[("t", 0)]]
    assert box.write(0, topic="nowhere") == "UNKNOWN_TOPIC_OR_PARTITION"
    assert len(box.coordinator.asked) == 1


def test_bytes_that_are_no_batch_are_not_added(box: TransactionBox) -> None:
    batch = data(box.now, 0)
    assert told(box.produce(batch[:-1], transactional_id="mine")) == "INVALID_RECORD"
    assert not box.coordinator.asked


def test_a_transactional_batch_without_a_producer_id_is_appended_unchecked(box: TransactionBox) -> None:
    batch = build_batch([(b"k", b"v")], timestamp=box.now, transactional=True)
    assert told(box.produce(batch, transactional_id="mine")) == 0
    assert not box.coordinator.asked
    assert box.stable() == 1


def test_acks_0_is_not_answered_and_a_refusal_closes_the_connection(box: TransactionBox) -> None:
    client = FakeConnection()
    assert box.produce(data(box.now, 0), acks=0, transactional_id="mine", client=client) is NO_ANSWER
    assert not client.is_closed
    assert box.produce(data(box.now, 1), acks=0, client=client) is NO_ANSWER
    assert client.closed_because == "Produce with acks=0 failed: TRANSACTIONAL_ID_AUTHORIZATION_FAILED"


# --- what is asked --------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_v12_adds_what_earlier_versions_only_verify(box: TransactionBox, version: int) -> None:
    assert box.write(0, version=version) == 0
    (asked,) = box.coordinator.asked
    assert asked.who == ("mine", 7, 0)
    assert asked.partitions == [("t", 0)]
    assert asked.add is (version >= 12)


def test_an_open_transaction_is_not_asked_for_again(box: TransactionBox) -> None:
    assert [box.write(sequence) for sequence in range(3)] == [0, 1, 2]
    assert len(box.coordinator.asked) == 1
    box.end()
    assert box.write(3, version=11) == 4
    assert len(box.coordinator.asked) == 2


def test_all_partitions_are_added_at_once(box: TransactionBox) -> None:
    assert several(box, [(index, data(box.now, 0)) for index in range(3)]) == {0: 0, 1: 0, 2: 0}
    (asked,) = box.coordinator.asked
    assert asked.partitions == [("t", 0), ("t", 1), ("t", 2)]


def test_one_partition_may_be_in_the_transaction_and_another_not(box: TransactionBox) -> None:
    box.coordinator.by_partition["t", 1] = ErrorCode.TRANSACTION_ABORTABLE
    answers = several(box, [(index, data(box.now, 0)) for index in range(3)], version=11)
    assert answers == {0: 0, 1: "TRANSACTION_ABORTABLE", 2: 0}


def test_batches_outside_of_the_transaction_go_their_own_way(box: TransactionBox) -> None:
    box.coordinator.answers = [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    plain = build_batch([(b"k", b"v")], timestamp=box.now)
    assert several(box, [(0, data(box.now, 0)), (1, plain)]) == {0: "INVALID_PRODUCER_ID_MAPPING", 1: 0}


def test_with_verification_off_older_clients_are_not_verified() -> None:
    box = TransactionBox("/data", MemoryDisk(), transaction_partition_verification_enable="false")
    box.topic("t")
    assert box.write(0, version=11) == 0
    assert not box.coordinator.asked
    box.end()
    assert box.write(0, epoch=1, version=12) == 2
    assert len(box.coordinator.asked) == 1, "v12 adds all the same"
    box.close()


# --- the coordinator's answers --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "before_11", "v11", "v12"),
    [
        ("INVALID_PRODUCER_ID_MAPPING", "INVALID_PRODUCER_ID_MAPPING", "INVALID_PRODUCER_ID_MAPPING", None),
        ("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_EPOCH", None),
        ("TRANSACTION_ABORTABLE", "INVALID_TXN_STATE", "TRANSACTION_ABORTABLE", None),
        ("CONCURRENT_TRANSACTIONS", "NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS", "CONCURRENT_TRANSACTIONS"),
        ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS", None),
        ("COORDINATOR_NOT_AVAILABLE", "NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS", None),
        ("NOT_COORDINATOR", "NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS", None),
    ],
)
def test_what_the_coordinator_says_is_translated_for_each_version(
    box: TransactionBox, error: str, before_11: str, v11: str, v12: str | None
) -> None:
    for version in VERSIONS:
        box.coordinator.answers = [ErrorCode[error]] * 100
        expected = before_11 if version < 11 else v11 if version == 11 or v12 is None else v12
        assert box.write(0, version=version) == expected, version
    assert box.partition().log.log_end_offset == 0


def test_v12_waits_for_the_end_of_the_transaction_before(box: TransactionBox) -> None:
    began = box.now
    box.coordinator.answers = [ErrorCode.CONCURRENT_TRANSACTIONS] * 3
    assert box.write(0) == 0
    assert box.now - began == 60, "three times 20 ms"
    box.coordinator.answers = [ErrorCode.CONCURRENT_TRANSACTIONS] * 100
    assert box.write(0, producer_id=8) == "CONCURRENT_TRANSACTIONS"
    assert box.now - began == 160, "100 ms at most"
    assert len(box.coordinator.asked) == 4 + 6


def test_how_long_v12_waits_can_be_set() -> None:
    settings = {"add_partitions_to_txn_retry_backoff_ms": "7", "add_partitions_to_txn_retry_backoff_max_ms": "0"}
    box = TransactionBox("/data", MemoryDisk(), **settings)
    box.topic("t")
    box.coordinator.answers = [ErrorCode.CONCURRENT_TRANSACTIONS] * 100
    assert box.write(0) == "CONCURRENT_TRANSACTIONS"
    assert len(box.coordinator.asked) == 1
    box.close()


def test_earlier_versions_do_not_wait(box: TransactionBox) -> None:
    began = box.now
    box.coordinator.answers = [ErrorCode.CONCURRENT_TRANSACTIONS]
    assert box.write(0, version=11) == "NOT_ENOUGH_REPLICAS"
    assert box.now == began


# --- while the coordinator is asked ---------------------------------------------------------------


def begin(box: TransactionBox, batch: bytes, version: int = 12) -> Any:
    """A Produce that waits for the coordinator."""
    box.coordinator.waits = True
    route = box.broker.apis.route(0, version)
    call = Call(FakeConnection(), route, "test")  # type: ignore[arg-type]
    call.correlation_id, call.now, call.steady_ms = 1, box.now, 0
    request = ProduceRequest("mine", -1, 1000, [TopicProduceData("t", partition_data=[PartitionProduceData(0, batch)])])
    steps = route.handler(box.broker, request, call)
    while not isinstance(waits_for := next(steps), Pause):  # type: ignore[arg-type]
        pass
    assert not waits_for.is_over
    return steps


def finish(box: TransactionBox, steps: Any, error: ErrorCode = ErrorCode.NONE) -> Any:
    box.coordinator.waiting.pop(0)(error)
    box.coordinator.waits = False
    return told(box.take_all(steps).responses[0].partition_responses[0])


@pytest.mark.parametrize("version", [9, 11, 12])
def test_a_batch_waits_until_the_coordinator_has_answered(box: TransactionBox, version: int) -> None:
    steps = begin(box, data(box.now, 0), version)
    assert box.partition().log.log_end_offset == 0
    assert box.append(b"somebody else") == 0
    assert finish(box, steps) == 1


@pytest.mark.parametrize("version", [9, 11, 12])
def test_a_marker_that_comes_meanwhile_makes_the_answer_void(box: TransactionBox, version: int) -> None:
    """Otherwise the batch would open a transaction that nobody ends."""
    steps = begin(box, data(box.now, 0), version)
    assert box.end(commit=False, epoch=1) == "NONE"
    assert finish(box, steps) == "INVALID_TXN_STATE"
    assert box.stable() == box.partition().log.log_end_offset == 1


@pytest.mark.parametrize("is_known", [False, True])
def test_a_marker_of_the_transaction_before_does_not_if_the_coordinator_is_asked_again(
    box: TransactionBox, is_known: bool
) -> None:
    """A producer goes on when its last transaction is decided. It may meet a partition before the marker does."""
    if is_known:
        box.write(0)
    steps = begin(box, data(box.now, 0, epoch=1))
    box.coordinator.waits = False
    box.coordinator.waiting.pop(0)(ErrorCode.CONCURRENT_TRANSACTIONS)
    next(steps)
    assert box.end(epoch=1, version=2) == "NONE"
    box.pass_time(20)
    written = box.take_all(steps).responses[0].partition_responses[0]
    assert told(written) == (2 if is_known else 1)
    assert len(box.coordinator.asked) == (3 if is_known else 2)


def test_a_marker_of_another_producer_does_not(box: TransactionBox) -> None:
    steps = begin(box, data(box.now, 0))
    assert box.end(producer_id=8) == "NONE"
    assert finish(box, steps) == 1


def test_two_requests_of_one_producer_may_wait_at_the_same_time(box: TransactionBox) -> None:
    first, second = begin(box, data(box.now, 0)), begin(box, data(box.now, 1))
    assert finish(box, first, ErrorCode.NONE) == 0
    assert finish(box, second) == 1


def test_a_refusal_of_one_request_does_not_touch_the_other(box: TransactionBox) -> None:
    first, second = begin(box, data(box.now, 0), 11), begin(box, data(box.now, 0), 11)
    assert finish(box, first, ErrorCode.TRANSACTION_ABORTABLE) == "TRANSACTION_ABORTABLE"
    assert finish(box, second) == 0


def test_a_client_that_hangs_up_leaves_nothing_behind(box: TransactionBox) -> None:
    steps = begin(box, data(box.now, 0))
    steps.close()
    assert not box.producers()._verifications


@pytest.mark.parametrize("is_new", [False, True])
def test_a_topic_that_is_deleted_meanwhile_takes_no_batch(box: TransactionBox, is_new: bool) -> None:
    steps = begin(box, data(box.now, 0))
    catalog = box.broker.catalog
    catalog.make(catalog.deletion_of([box.partition().topic]))
    if is_new:
        box.topic("t")
    assert finish(box, steps) == ("INVALID_TXN_STATE" if is_new else "UNKNOWN_TOPIC_OR_PARTITION")


# --- in the log -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_a_lower_epoch_is_fenced(box: TransactionBox, version: int) -> None:
    assert box.write(0, epoch=3) == 0
    assert box.write(0, epoch=2, version=version) == "INVALID_PRODUCER_EPOCH"


def test_a_plain_batch_inside_an_open_transaction_is_refused(box: TransactionBox) -> None:
    assert box.write(0) == 0
    assert box.write(1, transactional=False) == "INVALID_TXN_STATE"
    assert box.write(2, transactional=False) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert box.write(0, transactional=False) == 0, "a repetition is recognised"
    assert box.write(0, transactional=False, producer_id=8) == 1
    box.end()
    assert box.write(1, transactional=False) == 3


def test_a_client_writes_no_markers(box: TransactionBox) -> None:
    for commit in (True, False):
        marker = build_marker(commit, producer_id=7, producer_epoch=0, coordinator_epoch=0, timestamp=box.now)
        assert told(box.produce(marker, transactional_id="mine")) == "INVALID_RECORD"
        plain = bytearray(marker)
        assert told(box.produce(bytes(plain))) == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"


def test_a_repetition_is_answered_with_the_first_offset(box: TransactionBox) -> None:
    assert [box.write(sequence, count=2) for sequence in (0, 2, 0, 2)] == [0, 2, 0, 2]


def test_a_repetition_that_comes_after_the_end_is_answered_too(box: TransactionBox) -> None:
    assert box.write(0, version=11) == 0
    box.end()
    assert box.write(0, version=11) == 0
    assert box.stable() == 2


def test_an_unknown_producer_begins_anywhere_before_v12_and_at_0_since(box: TransactionBox) -> None:
    assert box.write(5, version=11) == 0
    assert box.write(5, version=12, partition=1) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert [asked.partitions for asked in box.coordinator.asked] == [[("t", 0)], [("t", 1)]], (
        "it was added all the same"
    )
    assert box.write(0, version=12, partition=1) == 0


@pytest.mark.parametrize("version", [9, 11, 12])
def test_a_batch_does_not_overtake_one_that_the_coordinator_refused(box: TransactionBox, version: int) -> None:
    """The producer sends both at the same time, and the refused one again."""
    box.coordinator.answers = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    assert box.write(0, version=version) == "NOT_ENOUGH_REPLICAS"
    assert box.write(1, version=version) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert [box.write(sequence, version=version) for sequence in (0, 1)] == [0, 1]


def test_nor_does_one_of_a_producer_that_is_known(box: TransactionBox) -> None:
    assert box.write(0, version=11) == 0
    box.end()
    box.coordinator.answers = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    assert box.write(0, version=11, count=2) == "NOT_ENOUGH_REPLICAS"
    assert box.write(1, version=11) == "OUT_OF_ORDER_SEQUENCE_NUMBER"


@pytest.mark.parametrize("version", [9, 11, 12])
def test_a_zombie_that_the_coordinator_refuses_does_not_hold_its_successor_up(
    box: TransactionBox, version: int
) -> None:
    assert box.write(0, epoch=1, version=version) == 0
    box.coordinator.answers = [ErrorCode.PRODUCER_FENCED]
    assert box.write(0, epoch=0, version=version) == "INVALID_PRODUCER_EPOCH"
    assert box.write(1, epoch=1, version=version) == 1


def test_what_was_refused_is_forgotten_with_the_end_of_the_transaction_and_with_a_higher_epoch(
    box: TransactionBox,
) -> None:
    box.coordinator.answers = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    assert box.write(3, version=11) == "NOT_ENOUGH_REPLICAS"
    box.end(commit=False)
    assert box.write(0, version=11) == 1
    box.end(epoch=1, version=2)
    box.coordinator.answers = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    assert box.write(0, epoch=1, version=11, count=4) == "NOT_ENOUGH_REPLICAS"
    assert box.write(0, epoch=2, version=11) == 3


def test_what_was_refused_is_forgotten_with_time_and_if_there_is_too_much(box: TransactionBox) -> None:
    for producer_id in range(1_100):
        box.coordinator.answers = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
        assert box.write(0, producer_id=producer_id, version=11) == "NOT_ENOUGH_REPLICAS"
    assert box.write(1, producer_id=99, version=11) == 0
    assert box.write(1, producer_id=1_099, version=11) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    box.producers().expire(box.now + 1)
    assert box.write(1, producer_id=1_099, version=11) == 1


def test_a_new_epoch_begins_at_0(box: TransactionBox) -> None:
    assert box.write(0, version=11) == 0
    box.end()
    assert box.write(1, epoch=1, version=11) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert box.write(0, epoch=1, version=11) == 2


def test_the_next_transaction_of_version_0_goes_on_counting(box: TransactionBox) -> None:
    assert box.write(0, version=11) == 0
    assert box.end() == "NONE"
    assert box.write(2, version=11) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert box.write(1, version=11) == 2


def test_the_next_transaction_of_version_2_begins_at_0_again(box: TransactionBox) -> None:
    assert box.write(0) == 0
    assert box.end(epoch=1, version=2) == "NONE"
    assert box.write(1, epoch=0) == "INVALID_PRODUCER_EPOCH"
    assert box.write(1, epoch=1) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert box.write(0, epoch=1) == 2
    assert box.write(1, epoch=1) == 3
