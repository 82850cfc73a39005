"""Requests that name very many partitions take a step for each of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import GeneratorType
from typing import Any

import pytest

from kohort.broker.call import Call
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kohort.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
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


def test_records_of_a_partition_that_is_named_twice_are_deleted_once(box: BrokerBox) -> None:
    box.append(b"a", b"b", b"c")
    asked = [DeleteRecordsTopic("t", [DeleteRecordsPartition(0, offset)]) for offset in (1, 2)]
    (topic,) = box.send(21, DeleteRecordsRequest(asked), 2).topics
    assert [(each.partition_index, each.low_watermark) for each in topic.partitions] == [(0, 2)]
