"""Markers that end transactions, the last stable offset, and the two APIs that show and write such things."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import pytest

from kohort.broker import steps
from kohort.broker.steps import SLICE_NS
from kohort.broker.topics.producer_state import Producers
from kohort.broker.topics.txn_markers import write_marker
from kohort.broker.transactions.marker_sender import MARKERS_AT_ONCE, MarkerSender
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kohort.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kohort.protocol.record_batch import BATCH_HEADER_BYTES, parse_header
from kohort.protocol.txn_marker import TxnMarker
from kohort.storage.memory_disk import MemoryDisk
from tests.broker.broker_box import START_MS
from tests.broker.transaction_box import TransactionBox, data


@pytest.fixture
def box() -> Iterator[TransactionBox]:
    made = TransactionBox("/data", MemoryDisk())
    made.topic("t", 2)
    yield made
    made.close()


def batches(box: TransactionBox) -> list[bytes]:
    return [chunk[at : at + header.size_bytes] for header, chunk, at in box.partition().log.batches()]


# --- the marker -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("commit", "record"),
    [(True, "20 00 00 00 08 00000001 0c 000000000000 00"), (False, "20 00 00 00 08 00000000 0c 000000000000 00")],
)
def test_a_marker_has_kafkas_bytes(box: TransactionBox, commit: bool, record: str) -> None:
    box.write(0, epoch=3)
    assert box.end(commit=commit, epoch=4, version=2) == "NONE"
    _, marker = batches(box)
    assert marker[BATCH_HEADER_BYTES:].hex() == record.replace(" ", "")
    header = parse_header(marker)
    assert header[:4] == (1, 66, 0, 2)
    assert header[5:] == (0x30, 0, box.now, box.now, 7, 4, -1, 1)


def test_a_marker_says_which_coordinator_has_written_it(box: TransactionBox) -> None:
    assert box.end(coordinator_epoch=5) == "NONE"
    assert batches(box)[0].endswith(bytes.fromhex("0000 00000005 00"))


def test_a_partition_in_which_nothing_was_written_gets_its_marker_too(box: TransactionBox) -> None:
    assert box.end(epoch=3) == "NONE"
    assert box.partition().log.log_end_offset == box.stable() == 1
    assert box.write(0, epoch=2) == "INVALID_PRODUCER_EPOCH"


def test_an_unknown_partition_has_no_markers(box: TransactionBox) -> None:
    assert box.end(partition=2) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert box.end(topic="nowhere") == "UNKNOWN_TOPIC_OR_PARTITION"


@pytest.mark.parametrize("topic", ["__transaction_state", "__share_group_state"])
def test_topics_in_which_a_coordinator_alone_writes_have_no_markers(box: TransactionBox, topic: str) -> None:
    box.broker.catalog.ensure_internal(topic)
    assert box.end(topic=topic) == "TOPIC_AUTHORIZATION_FAILED"


def test_a_marker_of_nobody_is_not_written(box: TransactionBox) -> None:
    assert box.end(producer_id=-1) == "UNKNOWN_SERVER_ERROR"
    assert batches(box) == []


def test_a_marker_of_an_older_coordinator_is_fenced(box: TransactionBox) -> None:
    assert box.end(coordinator_epoch=2) == "NONE"
    assert box.end(coordinator_epoch=1) == "TRANSACTION_COORDINATOR_FENCED"
    assert box.end(coordinator_epoch=2) == "NONE"


def test_a_marker_with_a_lower_epoch_is_refused(box: TransactionBox) -> None:
    box.write(0, epoch=3)
    assert box.end(epoch=2) == "INVALID_PRODUCER_EPOCH"
    assert box.stable() == 0


def test_a_marker_of_version_2_needs_a_higher_epoch_while_a_transaction_is_open(box: TransactionBox) -> None:
    box.write(0, epoch=3)
    assert box.end(epoch=3, version=2) == "INVALID_PRODUCER_EPOCH"
    assert box.end(epoch=4, version=2) == "NONE"
    assert box.end(epoch=4, version=2) == "NONE", "one that comes again is written again"
    assert box.partition().log.log_end_offset == 3


@pytest.mark.parametrize("version", [0, 1])
def test_a_marker_of_earlier_versions_has_the_epoch_of_the_records(box: TransactionBox, version: int) -> None:
    box.write(0, epoch=3)
    assert box.end(epoch=3, version=version) == "NONE"


def test_a_marker_is_done_when_it_is_durable() -> None:
    box = TransactionBox("/data", MemoryDisk(), kohort_offsets_sync_before_reply="true")
    box.topic("t")
    box.write(0)
    answers: list[ErrorCode] = []
    write_marker(box.broker, "t", 0, TxnMarker(7, 0, True, 0, 0), answers.append)
    assert not answers
    assert box.stable() == 2, "readers need not wait for the disk"
    box.run_posted()  # the turn of the flusher
    assert not answers
    box.run_posted()  # its thread has synced
    assert answers == [ErrorCode.NONE]
    assert box.partition().log.recovery_point == 2
    box.close()


def test_markers_that_take_long_are_written_between_the_requests_of_others(
    box: TransactionBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first marker in a partition makes the files of its log: a hundred of them took a fifth of a second."""
    box.topic("wide", 500)
    now_ns, done = 0, []

    def slow_clock() -> int:
        nonlocal now_ns
        now_ns += 2_500_000  # at each look, of which there is one before each step
        return now_ns

    monkeypatch.setattr(steps, "monotonic_ns", slow_clock)

    def written() -> int:
        return sum(each.log.log_end_offset for each in box.partition(0, "wide").topic.partitions)

    sender = MarkerSender(box.broker)
    sender.send(TxnMarker(7, 0, True, 0, 0), {"wide": frozenset(range(500))}, lambda: False, lambda: done.append(True))
    at_once = written()
    assert 0 < at_once <= MARKERS_AT_ONCE * SLICE_NS / 2_500_000
    assert not done
    box.pass_time(1)
    assert written() == 500
    assert done == [True]


def test_a_log_that_has_failed_takes_no_marker(box: TransactionBox) -> None:
    box.write(0)
    box.partition().log.failed = "for a test"
    assert box.end() == "KAFKA_STORAGE_ERROR"
    assert box.stable() == 0
    box.partition().log.failed = None


# --- the last stable offset -----------------------------------------------------------------------


def test_without_transactions_all_is_stable(box: TransactionBox) -> None:
    assert box.stable() == 0
    box.append(b"a", b"b")
    assert box.stable() == 2
    box.write(0, transactional=False)
    assert box.stable() == 3


def test_an_open_transaction_holds_the_stable_offset_back(box: TransactionBox) -> None:
    box.append(b"a")
    box.write(0)
    box.append(b"b")
    box.write(1)
    assert box.stable() == 1
    box.end()
    assert box.stable() == 5


def test_the_oldest_of_several_counts(box: TransactionBox) -> None:
    for producer_id in (1, 2, 3):
        box.write(0, producer_id=producer_id)
    stable = []
    for producer_id in (2, 1, 3):
        box.end(producer_id=producer_id, commit=producer_id != 2)
        stable.append(box.stable())
    assert stable == [0, 2, 6]


def test_records_that_are_deleted_hold_nothing_back(box: TransactionBox) -> None:
    box.write(0, count=5)
    box.partition().log.advance_log_start(3)
    assert box.stable() == 3
    assert box.write(5) == 5, "the transaction lives on"
    box.end()
    assert box.stable() == 7


def test_aborted_transactions_with_data_are_in_the_transaction_index(box: TransactionBox) -> None:
    box.write(0, producer_id=1)
    box.write(0, producer_id=2)
    box.write(0, producer_id=3)
    for producer_id, commit in ((2, False), (3, True), (1, False), (1, False), (4, False)):
        box.end(producer_id=producer_id, commit=commit)
    index = box.partition().log.active.txn_index
    assert index is not None
    assert [tuple(entry) for entry in index.entries()] == [(2, 1, 3, 0), (1, 0, 5, 6)]


def test_ten_thousand_open_transactions_cost_no_search() -> None:
    """Each step looks at the first open transaction alone, however many were ended before it."""
    looked_at = 0

    class Counted(OrderedDict[int, int]):
        def items(self) -> Any:
            nonlocal looked_at
            for item in super().items():
                looked_at += 1
                yield item

    producers = Producers()
    producers.open = Counted()
    for producer_id in range(10_000):
        batch = parse_header(data(START_MS, 0, producer_id=producer_id))
        producers.appended(batch, producer_id, START_MS)
    for producer_id in range(9_999):
        assert producers.first_unstable_offset == producer_id
        assert producers.first_unstable_offset_without(producer_id) == producer_id + 1
        producers.ended(producer_id, 0, 0, START_MS)
    assert looked_at <= 3 * 10_000


# --- hostile orders -------------------------------------------------------------------------------


def test_markers_without_data_and_data_without_markers_in_any_order(box: TransactionBox) -> None:
    assert box.end(epoch=1) == "NONE"
    assert box.write(0, epoch=0) == "INVALID_PRODUCER_EPOCH"
    assert box.write(0, epoch=1, version=11) == 1
    assert box.end(epoch=1, version=0) == "NONE"
    assert box.end(epoch=0, version=0) == "INVALID_PRODUCER_EPOCH"
    assert box.write(0, epoch=2) == 3
    assert box.write(0, epoch=3) == 4, "the coordinator said yes to a higher epoch"
    assert box.stable() == 3
    assert box.end(epoch=3, version=2) == "INVALID_PRODUCER_EPOCH"
    assert box.end(epoch=32767, version=2) == "NONE"
    assert box.stable() == 6


def test_a_topic_that_is_deleted_while_its_log_is_looked_at_takes_no_marker() -> None:
    disk = MemoryDisk()
    box = TransactionBox("/data", disk)
    box.topic("t")
    box.broker.catalog.ensure_internal("__transaction_state")
    for sequence in range(3_000):
        box.write(sequence, version=11)
    box.crash()
    again = TransactionBox("/data", disk)
    answers: list[ErrorCode] = []
    steps_taken = 0

    class Slow:
        def __call__(self) -> int:
            nonlocal steps_taken
            steps_taken += 1
            return steps_taken * 4_000_000  # one step in each slice

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kohort.broker.steps.monotonic_ns", Slow())
        write_marker(again.broker, "t", 0, TxnMarker(7, 0, True, 0, 0), answers.append)
        assert not answers
        catalog = again.broker.catalog
        catalog.make(catalog.deletion_of([again.partition().topic]))
        again.pass_time(10)
    assert answers == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    again.close()


# --- WriteTxnMarkers ------------------------------------------------------------------------------


def write(box: TransactionBox, *markers: WritableTxnMarker, version: int = 2) -> Any:
    answer = box.send(27, WriteTxnMarkersRequest(list(markers)), version)
    return {
        (each.producer_id, topic.name, partition.partition_index): ErrorCode(partition.error_code).name
        for each in answer.markers
        for topic in each.topics
        for partition in topic.partitions
    }


def asked(producer_id: int, epoch: int, *, commit: bool = True, **fields: Any) -> WritableTxnMarker:
    topics = [WritableTxnMarkerTopic("t", [0, 1, 9]), WritableTxnMarkerTopic("nowhere", [0])]
    return WritableTxnMarker(producer_id, epoch, commit, topics, **fields)


@pytest.mark.parametrize("version", [1, 2])
def test_write_txn_markers_answers_for_each_partition(box: TransactionBox, version: int) -> None:
    box.write(0, epoch=3)
    assert write(box, asked(7, 3), asked(8, 0), version=version) == {
        (7, "t", 0): "NONE",
        (7, "t", 1): "NONE",
        (7, "t", 9): "UNKNOWN_TOPIC_OR_PARTITION",
        (7, "nowhere", 0): "UNKNOWN_TOPIC_OR_PARTITION",
        (8, "t", 0): "NONE",
        (8, "t", 1): "NONE",
        (8, "t", 9): "UNKNOWN_TOPIC_OR_PARTITION",
        (8, "nowhere", 0): "UNKNOWN_TOPIC_OR_PARTITION",
    }
    assert box.stable() == 3


def test_a_partition_that_is_named_twice_gets_one_marker(box: TransactionBox) -> None:
    twice = [WritableTxnMarkerTopic("t", [0, 0]), WritableTxnMarkerTopic("t", [0])]
    assert write(box, WritableTxnMarker(7, 0, True, twice)) == {(7, "t", 0): "NONE"}
    assert box.partition().log.log_end_offset == 1
    assert write(box, WritableTxnMarker(7, 0, True, twice), WritableTxnMarker(7, 0, True, twice[:1])) == {
        (7, "t", 0): "NONE"
    }
    assert box.partition().log.log_end_offset == 3


def test_write_txn_markers_v2_knows_the_version_of_the_transaction(box: TransactionBox) -> None:
    box.write(0, epoch=3)
    assert write(box, asked(7, 3, transaction_version=2))[7, "t", 0] == "INVALID_PRODUCER_EPOCH"
    assert write(box, asked(7, 3, transaction_version=2), version=1)[7, "t", 0] == "NONE"


def test_write_txn_markers_waits_for_the_disk() -> None:
    box = TransactionBox("/data", MemoryDisk(), kohort_offsets_sync_before_reply="true")
    box.topic("t", 2)
    assert write(box, asked(7, 3))[7, "t", 1] == "NONE"
    assert [box.partition(index).log.recovery_point for index in range(2)] == [1, 1]
    box.close()


# --- DescribeProducers ----------------------------------------------------------------------------


def describe(box: TransactionBox, topic: str = "t", *indexes: int) -> Any:
    answer = box.send(61, DescribeProducersRequest([TopicRequest(topic, list(indexes))]), 0)
    return [
        [
            (p.producer_id, p.producer_epoch, p.last_sequence, p.coordinator_epoch, p.current_txn_start_offset)
            for p in partition.active_producers
        ]
        if not partition.error_code
        else ErrorCode(partition.error_code).name
        for partition in answer.topics[0].partitions
    ]


def test_producers_are_described_with_their_transactions(box: TransactionBox) -> None:
    box.write(0, count=3, epoch=2)
    assert describe(box, "t", 0, 1, 7) == [[(7, 2, 2, -1, 0)], [], "UNKNOWN_TOPIC_OR_PARTITION"]
    box.end(epoch=3, coordinator_epoch=4, version=2)
    assert describe(box, "t", 0) == [[(7, 3, -1, 4, -1)]]
    box.write(0, epoch=3)
    assert describe(box, "t", 0) == [[(7, 3, 0, 4, 4)]]
    assert describe(box, "nowhere", 0) == ["UNKNOWN_TOPIC_OR_PARTITION"]


def test_the_time_of_a_producer_is_that_of_its_last_batch_or_marker(box: TransactionBox) -> None:
    box.write(0)
    box.pass_time(5)
    box.end()
    answer = box.send(61, DescribeProducersRequest([TopicRequest("t", [0])]), 0)
    assert answer.topics[0].partitions[0].active_producers[0].last_timestamp == box.now


def test_a_partition_that_is_named_twice_is_described_once(box: TransactionBox) -> None:
    box.write(0)
    assert len(describe(box, "t", 0, 0, 0)) == 1
