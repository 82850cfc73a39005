"""Requests that name very many partitions take a step for each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from errno import ENOSPC
from pathlib import Path
from types import GeneratorType
from typing import Any

import pytest

from kohort.broker.call import PARKED, Call
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kohort.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from kohort.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kohort.storage.layout import parse_offsets
from tests.broker.broker_box import BrokerBox, FakeConnection

COUNT = 3_000


@pytest.fixture
def box(tmp_path: Path) -> Iterator[BrokerBox]:
    made = BrokerBox(tmp_path / "data")
    made.topic("t", 3)
    yield made
    made.close()


REQUESTS = [
    (21, 2, DeleteRecordsRequest([DeleteRecordsTopic("t", [DeleteRecordsPartition(i, 0) for i in range(COUNT)])])),
    (
        23,
        4,
        OffsetForLeaderEpochRequest(
            -2, [OffsetForLeaderTopic("t", [OffsetForLeaderPartition(i) for i in range(COUNT)])]
        ),
    ),
]


@pytest.mark.parametrize(("api_key", "version", "request_"), REQUESTS)
def test_each_partition_is_a_step(box: BrokerBox, api_key: int, version: int, request_: Any) -> None:
    route = box.broker.apis.route(api_key, version)
    call = Call(FakeConnection(), route, "test")  # type: ignore[arg-type]
    call.correlation_id, call.now = 1, box.now
    steps = route.handler(box.broker, request_, call)
    assert isinstance(steps, GeneratorType)
    assert sum(1 for _ in steps) >= COUNT
    answer = box.send(api_key, request_, version)
    (topic,) = answer.topics
    errors = [each.error_code for each in topic.partitions]
    assert errors == [0] * 3 + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * (COUNT - 3)


NOTHING_INSIDE = [
    (21, 2, DeleteRecordsRequest([DeleteRecordsTopic(f"t{i}") for i in range(COUNT)])),
    (23, 4, OffsetForLeaderEpochRequest(-2, [OffsetForLeaderTopic(f"t{i}") for i in range(COUNT)])),
    (1, 12, FetchRequest(session_epoch=0, topics=[FetchTopic(f"t{i}") for i in range(COUNT)])),
]


@pytest.mark.parametrize(("api_key", "version", "request_"), NOTHING_INSIDE)
def test_a_topic_without_partitions_is_a_step_too(box: BrokerBox, api_key: int, version: int, request_: Any) -> None:
    route = box.broker.apis.route(api_key, version)
    call = Call(FakeConnection(), route, "test")  # type: ignore[arg-type]
    call.correlation_id, call.now, call.is_long = 1, box.now, True
    steps: Any = route.handler(box.broker, request_, call)
    assert sum(1 for _ in steps) >= COUNT


def test_forgotten_topics_without_partitions_are_steps_too(box: BrokerBox) -> None:
    opened = box.send(1, FetchRequest(session_epoch=0, topics=[FetchTopic("t", partitions=[FetchPartition(0)])]), 12)
    call = Call(FakeConnection(), box.broker.apis.route(1, 12), "test")  # type: ignore[arg-type]
    call.correlation_id, call.now, call.is_long = 1, box.now, True
    gone = [ForgottenTopic(f"t{i}") for i in range(COUNT)]
    request = FetchRequest(session_id=opened.session_id, session_epoch=1, forgotten_topics_data=gone)
    steps: Any = call.route.handler(box.broker, request, call)
    assert sum(1 for _ in steps) >= COUNT


def test_records_of_a_partition_that_is_named_twice_are_deleted_once(box: BrokerBox) -> None:
    box.append(b"a", b"b", b"c")
    asked = [DeleteRecordsTopic("t", [DeleteRecordsPartition(0, offset)]) for offset in (1, 2)]
    (topic,) = box.send(21, DeleteRecordsRequest(asked), 2).topics
    assert [(each.partition_index, each.low_watermark) for each in topic.partitions] == [(0, 2)]


def delete_first_record(box: BrokerBox, client: FakeConnection) -> Any:
    asked = DeleteRecordsRequest([DeleteRecordsTopic("t", [DeleteRecordsPartition(0, 1)])])
    return box.send(21, asked, 2, client=client)


def test_deleted_records_are_answered_when_a_thread_has_saved_the_new_start(box: BrokerBox, tmp_path: Path) -> None:
    box.append(b"a", b"b")
    given: list[tuple[Callable[[], object], Callable[[], object]]] = []
    box.broker.catalog.save_in_thread = lambda work, done: given.append((work, done))
    client = FakeConnection()
    assert delete_first_record(box, client) is PARKED
    ((work, done),) = given
    path = tmp_path / "data" / "log-start-offset-checkpoint"
    assert not path.exists()
    work()
    assert parse_offsets(path.read_bytes(), str(path)) == {("t", 0): 1}
    assert client.answers == []
    done()
    assert client.answers[0].topics[0].partitions[0].low_watermark == 1


def test_a_start_that_could_not_be_saved_is_told(box: BrokerBox, monkeypatch: pytest.MonkeyPatch) -> None:
    box.append(b"a", b"b")

    def write_file(path: str, data: bytes, **more: bool) -> None:
        raise OSError(ENOSPC, "No space left on device", path)

    with monkeypatch.context() as patch:
        patch.setattr(box.disk, "write_file", write_file)
        (answer,) = delete_first_record(box, FakeConnection()).topics[0].partitions
    assert (answer.error_code, answer.low_watermark) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    (answer,) = delete_first_record(box, FakeConnection()).topics[0].partitions
    assert (answer.error_code, answer.low_watermark) == (0, 1)
