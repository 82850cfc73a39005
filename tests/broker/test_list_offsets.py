"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords and DescribeLogDirs: where partitions start, end, and lie."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kohort.broker.call import Call
from kohort.broker.steps import all_steps
from kohort.broker.topics.catalog import CONSUMER_OFFSETS
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kohort.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kohort.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kohort.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kohort.protocol.record_batch import build_batch
from tests.broker.broker_box import START_MS, BrokerBox, FakeConnection

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = range(-1, -7, -1)


@pytest.fixture
def box(tmp_path: Path) -> Iterator[BrokerBox]:
    """A topic with a record per second, and an empty one."""
    made = BrokerBox(tmp_path / "data")
    made.topic("t", 2)
    made.topic("empty")
    for i in range(5):
        made.append(b"%d" % i)
        made.pass_time(1000)
    yield made
    made.close()


def asked(
    box: BrokerBox, timestamp: int, topic: str = "t", *, version: int = 11, epoch: int = -1, partition: int = 0
) -> object:
    """(timestamp, offset, leader epoch), or the name of the error."""
    request = ListOffsetsRequest(-1, 0, [ListOffsetsTopic(topic, [ListOffsetsPartition(partition, epoch, timestamp)])])
    answer = box.send(2, request, version).topics[0].partitions[0]
    if answer.error_code:
        return ErrorCode(answer.error_code).name
    return answer.timestamp, answer.offset, answer.leader_epoch


@pytest.mark.parametrize("version", range(1, 12))
def test_every_version_finds_the_start_the_end_and_a_time(box: BrokerBox, version: int) -> None:
    epoch = 0 if version >= 4 else -1
    assert asked(box, EARLIEST, version=version) == (-1, 0, epoch)
    assert asked(box, LATEST, version=version) == (-1, 5, epoch)
    assert asked(box, START_MS + 1001, version=version) == (START_MS + 2000, 2, epoch)


@pytest.mark.parametrize(
    ("timestamp", "first_version", "full", "empty"),
    [
        (MAX_TIMESTAMP, 7, (START_MS + 4000, 4, 0), (-1, -1, -1)),
        (EARLIEST_LOCAL, 8, (-1, 0, 0), (-1, 0, 0)),
        (LATEST_TIERED, 9, (-1, -1, -1), (-1, -1, -1)),
        (EARLIEST_PENDING_UPLOAD, 11, (-1, -1, -1), (-1, -1, -1)),
    ],
)
def test_special_times_came_one_by_one(
    box: BrokerBox, timestamp: int, first_version: int, full: object, empty: object
) -> None:
    assert asked(box, timestamp, version=first_version) == full
    assert asked(box, timestamp, "empty", version=first_version) == empty
    assert asked(box, timestamp, version=first_version - 1) == "UNSUPPORTED_VERSION"


def test_times_behind_the_last_record_and_in_an_empty_log_are_not_found(box: BrokerBox) -> None:
    assert asked(box, START_MS + 4001) == (-1, -1, -1)
    assert asked(box, START_MS, "empty") == (-1, -1, -1)
    assert asked(box, LATEST, "empty") == (-1, 0, 0)


def test_what_does_not_exist_or_is_asked_for_wrongly(box: BrokerBox) -> None:
    assert asked(box, LATEST, "nope") == "UNKNOWN_TOPIC_OR_PARTITION"
    assert asked(box, LATEST, partition=2) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert asked(box, -7) == "UNSUPPORTED_VERSION"
    assert asked(box, LATEST, epoch=1) == "UNKNOWN_LEADER_EPOCH"
    assert asked(box, LATEST, epoch=0) == (-1, 5, 0)


@pytest.mark.parametrize("timestamp", [START_MS, MAX_TIMESTAMP])
@pytest.mark.parametrize("is_new", [False, True])
def test_a_topic_that_is_deleted_between_two_steps_is_unknown(
    box: BrokerBox, caplog: pytest.LogCaptureFixture, timestamp: int, is_new: bool
) -> None:
    """A new topic of the same name has files of the same names. They are not what is known of the old ones."""
    route = box.broker.apis.route(2, 7)
    call = Call(FakeConnection(), route, "test")  # type: ignore[arg-type]
    request = ListOffsetsRequest(-1, 0, [ListOffsetsTopic("t", [ListOffsetsPartition(0, -1, timestamp)])])
    steps: Any = route.handler(box.broker, request, call)
    for _ in range(4):  # the topic and its partition are counted, the topic again, and the last has looked at the log
        next(steps)
    catalog = box.broker.catalog
    topic = catalog.get("t")
    assert topic is not None
    catalog.make(catalog.deletion_of([topic]))
    if is_new:
        box.topic("t")
        box.produce(build_batch([(None, b"new")], timestamp=START_MS))
    answer = all_steps(steps).topics[0].partitions[0]
    assert (answer.error_code, answer.offset) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert not [record for record in caplog.records if record.levelname != "INFO"]


def test_a_partition_asked_for_twice_is_an_invalid_request(box: BrokerBox) -> None:
    twice = [
        ListOffsetsPartition(0, -1, LATEST),
        ListOffsetsPartition(1, -1, LATEST),
        ListOffsetsPartition(0, -1, LATEST),
    ]
    answers = box.send(2, ListOffsetsRequest(-1, 0, [ListOffsetsTopic("t", twice)]), 11).topics[0].partitions
    assert [(each.partition_index, ErrorCode(each.error_code).name) for each in answers] == [
        (0, "INVALID_REQUEST"),
        (1, "NONE"),
    ]


# --- OffsetForLeaderEpoch -------------------------------------------------------------------------


def end_of(box: BrokerBox, epoch: int, topic: str = "t", current: int = -1, version: int = 4) -> object:
    request = OffsetForLeaderEpochRequest(
        -1, [OffsetForLeaderTopic(topic, [OffsetForLeaderPartition(0, current, epoch)])]
    )
    answer = box.send(23, request, version).topics[0].partitions[0]
    return ErrorCode(answer.error_code).name if answer.error_code else (answer.leader_epoch, answer.end_offset)


@pytest.mark.parametrize("version", [2, 3, 4])
def test_the_present_epoch_ends_where_the_log_does(box: BrokerBox, version: int) -> None:
    assert end_of(box, 0, version=version) == (0, 5)
    assert end_of(box, 0, "empty", version=version) == (0, 0)


def test_epochs_that_never_were_have_no_end(box: BrokerBox) -> None:
    assert [end_of(box, epoch, topic) for epoch in (-1, 1) for topic in ("t", "empty")] == [(-1, -1)] * 4
    assert end_of(box, 0, current=1) == "UNKNOWN_LEADER_EPOCH"
    assert end_of(box, 0, "nope") == "UNKNOWN_TOPIC_OR_PARTITION"


# --- DeleteRecords --------------------------------------------------------------------------------


def delete(box: BrokerBox, offset: int, topic: str = "t", partition: int = 0, version: int = 2) -> object:
    """The new start, or the name of the error."""
    request = DeleteRecordsRequest([DeleteRecordsTopic(topic, [DeleteRecordsPartition(partition, offset)])], 1000)
    answer = box.send(21, request, version).topics[0].partitions[0]
    return ErrorCode(answer.error_code).name if answer.error_code else answer.low_watermark


@pytest.mark.parametrize("version", [0, 1, 2])
def test_records_are_deleted_up_to_an_offset_or_all(box: BrokerBox, version: int) -> None:
    assert delete(box, 3, version=version) == 3
    assert asked(box, EARLIEST) == (-1, 3, 0)
    assert [record.offset for record in box.read_all()] == [3, 4]
    assert delete(box, 1, version=version) == 3
    assert delete(box, -1, version=version) == 5
    assert asked(box, EARLIEST) == asked(box, LATEST) == (-1, 5, 0)


def test_records_that_are_not_there_or_may_not_go_stay(box: BrokerBox) -> None:
    box.topic("compacted", cleanup_policy="compact")
    box.broker.catalog.ensure_internal(CONSUMER_OFFSETS)
    assert delete(box, 6) == delete(box, -2) == "OFFSET_OUT_OF_RANGE"
    assert delete(box, 0, "nope") == delete(box, 0, partition=2) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert delete(box, 0, "compacted") == "POLICY_VIOLATION"
    assert delete(box, 0, "__consumer_offsets") == "INVALID_TOPIC_EXCEPTION"


def test_a_new_start_survives_a_crash(tmp_path: Path) -> None:
    box = BrokerBox(tmp_path / "data")
    box.topic("t")
    for i in range(5):
        box.append(b"%d" % i)
    delete(box, 3)
    box.crash()
    again = BrokerBox(tmp_path / "data")
    assert [record.offset for record in again.read_all()] == [3, 4]
    again.close()


# --- DescribeLogDirs ------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(1, 6))
def test_the_data_folder_is_described(box: BrokerBox, tmp_path: Path, version: int) -> None:
    request = DescribeLogDirsRequest([DescribableLogDirTopic("t", [0, 7]), DescribableLogDirTopic("nope", [0])])
    (result,) = box.send(35, request, version).results
    size = (tmp_path / "data" / "t-0" / "00000000000000000000.log").stat().st_size
    found = [
        (topic.name, each.partition_index, each.partition_size) for topic in result.topics for each in topic.partitions
    ]
    assert (result.error_code, result.log_dir, found) == (0, str(tmp_path / "data"), [("t", 0, size)])
    assert (result.total_bytes > 0) == (result.usable_bytes > 0) == (version >= 4)


def test_null_asks_for_all_topics_and_an_empty_list_for_none(box: BrokerBox) -> None:
    (everything,) = box.send(35, DescribeLogDirsRequest(None), 4).results
    assert {topic.name for topic in everything.topics} == {"t", "empty"}
    (nothing,) = box.send(35, DescribeLogDirsRequest([]), 4).results
    assert nothing.topics == []
