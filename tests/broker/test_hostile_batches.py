"""Batches that cost much more than their bytes: they are refused, or gone through in steps with little memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from struct import pack
from types import GeneratorType
from typing import Any

import pytest

from kohort.broker.call import Call
from kohort.broker.steps import WAIT, all_steps
from kohort.broker.topics import append_checks
from kohort.broker.topics.record_walk import walk_in_steps
from kohort.protocol.compression import COMPRESSION_NAMES, compress
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kohort.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kohort.protocol.record_batch import COVERED_FORMAT, BatchHeader, Record, covered_fields, rebuild_batch, with_crc
from kohort.protocol.varint import encode_varint
from tests.broker.broker_box import START_MS, BrokerBox, FakeConnection
from tests.parity.batches import batch

CODECS = range(1, 5)
MIB = 1024 * 1024
PRODUCE, LIST_OFFSETS = 0, 2


@pytest.fixture
def box(tmp_path: Path) -> Iterator[BrokerBox]:
    made = BrokerBox(tmp_path / "data")
    made.topic("t", 3)
    made.topic("large", 2, max_message_bytes=str(100 * MIB))
    yield made
    made.close()


def sealed(codec: int, body: bytes, count: int = 1) -> bytes:
    """The batch of `count` records that are packed in `body`."""
    fields = covered_fields(count, START_MS, -1)
    fields[0] = codec
    return with_crc(pack(f">{COVERED_FORMAT}", *fields) + compress(codec, body), 0)


def record(*, headers: int = 0, value: bytes = b"", index: int = 0) -> bytes:
    """A record with an empty key, this value, and so many empty headers."""
    body = b"\0\0" + encode_varint(index) + b"\0" + encode_varint(len(value)) + value
    body += encode_varint(headers) + b"\0\0" * headers
    return encode_varint(len(body)) + body


def steps_of(box: BrokerBox, api_key: int, request: Any, version: int, client: FakeConnection | None = None) -> Any:
    """What the handler returns: steps for a long request."""
    route = box.broker.apis.route(api_key, version)
    call = Call(client or FakeConnection(), route, "test")  # type: ignore[arg-type]
    call.correlation_id, call.now, call.steady_ms = 1, box.now, 0
    return route.handler(box.broker, request, call)


def to(topic: str, *partitions: tuple[int, bytes]) -> TopicProduceData:
    return TopicProduceData(topic, partition_data=[PartitionProduceData(*each) for each in partitions])


def produce_request(*topics: TopicProduceData) -> ProduceRequest:
    return ProduceRequest(None, -1, 1000, list(topics))


@pytest.fixture(params=["compiled", "pure"])
def walk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "pure":
        monkeypatch.setattr(append_checks, "fastest_walk_in_steps", lambda: walk_in_steps)


# --- Produce


@pytest.mark.usefixtures("walk")
@pytest.mark.parametrize("codec", CODECS, ids=COMPRESSION_NAMES[1:])
def test_a_small_batch_with_millions_of_headers_is_refused_after_a_few_steps(box: BrokerBox, codec: int) -> None:
    bomb = sealed(codec, record(headers=3_000_000))
    steps = steps_of(box, PRODUCE, produce_request(to("t", (0, bomb))), 9)
    assert isinstance(steps, GeneratorType)
    count = 0
    try:
        while count < 100:
            next(steps)
            count += 1
    except StopIteration as end:
        (answer,) = end.value.responses[0].partition_responses
    assert count < 100
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert box.append(b"the next") == 0


@pytest.mark.usefixtures("walk")
def test_a_small_batch_with_millions_of_records_is_refused(box: BrokerBox) -> None:
    bomb = sealed(4, b"".join(record(index=index) for index in range(1_000_001)), 1_000_001)
    if len(bomb) > 1_000_000:  # as many records as bytes would be allowed
        pytest.skip("zstd was not good enough")
    assert box.produce(bomb).error_code == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.usefixtures("walk")
@pytest.mark.parametrize("codec", CODECS, ids=COMPRESSION_NAMES[1:])
def test_a_small_batch_that_inflates_to_many_megabytes_is_refused(box: BrokerBox, codec: int) -> None:
    bomb = sealed(codec, record(value=bytes(40 * MIB)))
    if len(bomb) > 40 * MIB // append_checks.MAX_INFLATED_RATIO:
        bomb = sealed(codec, record(value=bytes(70 * MIB)))  # snappy: not so small
    assert box.produce(bomb, "large").error_code == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.usefixtures("walk")
@pytest.mark.parametrize("codec", CODECS, ids=COMPRESSION_NAMES[1:])
def test_a_large_record_is_taken_with_the_memory_of_a_piece(box: BrokerBox, codec: int) -> None:
    large = sealed(codec, record(value=bytes(15 * MIB)))
    assert box.produce(sealed(codec, record(value=bytes(300_000)))).error_code == 0  # what is imported once
    tracemalloc.start()
    try:
        answer = box.produce(large, partition=1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (answer.error_code, answer.base_offset) == (0, 0)
    assert peak < 2 * MIB + 4 * len(large)


@pytest.mark.usefixtures("walk")
@pytest.mark.parametrize("codec", [0, *CODECS], ids=COMPRESSION_NAMES)
def test_a_long_honest_batch_is_taken_in_steps(box: BrokerBox, codec: int) -> None:
    long = batch(3_000, start_ms=START_MS, size_bytes=200, compression=codec)
    steps = steps_of(box, PRODUCE, produce_request(to("t", (0, long))), 9)
    assert isinstance(steps, GeneratorType)
    assert sum(1 for _ in steps) > 2
    assert len(box.read_all()) == 3_000
    (answer,) = (
        all_steps(steps_of(box, PRODUCE, produce_request(to("t", (0, long))), 9)).responses[0].partition_responses
    )
    assert (answer.error_code, answer.base_offset) == (0, 3_000)


@pytest.mark.parametrize("codec", [0, *CODECS], ids=COMPRESSION_NAMES)
def test_a_usual_batch_is_taken_at_once(box: BrokerBox, codec: int) -> None:
    usual = batch(100, start_ms=START_MS, size_bytes=100, compression=codec)
    response = steps_of(box, PRODUCE, produce_request(to("t", (0, usual))), 9)
    assert response.responses[0].partition_responses[0].error_code == 0


@pytest.mark.usefixtures("walk")
@pytest.mark.parametrize("codec", [0, *CODECS], ids=COMPRESSION_NAMES)
@pytest.mark.parametrize("damage", ["cut off", "bytes behind", "offset delta", "count"])
def test_a_long_batch_that_is_damaged_is_refused(box: BrokerBox, codec: int, damage: str) -> None:
    body = b"".join(record(value=b"%d" % index * 40, index=index) for index in range(5_000))
    count = 5_000
    if damage == "cut off":
        body = body[:-1]
    elif damage == "bytes behind":
        body += b"\0"
    elif damage == "offset delta":
        body = body.replace(record(value=b"2500" * 40, index=2_500), record(value=b"2500" * 40, index=2_501))
    else:
        count = 5_001
    assert box.produce(sealed(codec, body, count)).error_code == ErrorCode.INVALID_RECORD


def test_only_one_long_batch_is_inflated_at_a_time(box: BrokerBox) -> None:
    long = sealed(4, record(value=bytes(MIB)))
    first = steps_of(box, PRODUCE, produce_request(to("t", (0, long))), 9)
    second = steps_of(box, PRODUCE, produce_request(to("t", (1, long))), 9)
    assert next(first) is None
    assert next(second) is WAIT
    third = steps_of(box, PRODUCE, produce_request(to("t", (2, long))), 9)
    assert next(third) is WAIT
    first.close()  # its client hung up
    for steps in (second, third):
        (answer,) = all_steps(steps).responses[0].partition_responses
        assert (answer.error_code, answer.base_offset) == (0, 0)
    assert box.append(b"the first was dropped") == 0


def test_a_topic_that_is_deleted_while_its_batch_is_checked_gets_nothing(box: BrokerBox) -> None:
    steps = steps_of(box, PRODUCE, produce_request(to("t", (0, sealed(4, record(value=bytes(MIB)))))), 9)
    next(steps)
    topic = box.broker.catalog.get("t")
    assert topic is not None
    box.broker.catalog.make(box.broker.catalog.deletion_of([topic]))
    (answer,) = all_steps(steps).responses[0].partition_responses
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# --- answers


def test_the_wrong_records_of_a_batch_are_named_up_to_a_number(box: BrokerBox) -> None:
    box.topic("compacted", cleanup_policy="compact")
    late = batch(25_000, start_ms=START_MS + 10**10, step_ms=0, size_bytes=0)
    answer = box.produce(late)
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [each.batch_index for each in answer.record_errors] == list(range(1_000))
    keyless = batch(25_000, start_ms=START_MS, step_ms=0, size_bytes=0, key=None)
    answer = box.produce(keyless, "compacted")
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert "due to 25000 record errors in total" in answer.error_message
    assert len(answer.record_errors) == 1_000


def test_wrong_records_are_looked_for_in_steps(box: BrokerBox) -> None:
    late = batch(5_000, start_ms=START_MS + 10**10, step_ms=0, size_bytes=0)
    assert len(late) < append_checks.AT_ONCE_BYTES
    steps = steps_of(box, PRODUCE, produce_request(to("t", (0, late))), 9)
    assert sum(1 for _ in steps) >= 10


def test_a_partition_named_twice_is_answered_once_and_its_last_batch_counts(box: BrokerBox) -> None:
    one, two, three = (batch(count, start_ms=START_MS) for count in (1, 2, 3))
    request = produce_request(to("t", (0, one), (0, two)), to("t", (1, one), (0, three)), to("nowhere", (0, one)))
    response = box.send(PRODUCE, request, 9)
    answered = [
        (topic.name, [(each.index, each.error_code, each.base_offset) for each in topic.partition_responses])
        for topic in response.responses
    ]
    assert answered == [
        ("t", [(0, 0, 0), (1, 0, 0)]),
        ("nowhere", [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]),
    ]
    assert [len(box.read_all(partition=index)) for index in (0, 1)] == [3, 1]


def test_each_partition_of_a_produce_is_a_step(box: BrokerBox) -> None:
    one = batch(1, start_ms=START_MS)
    request = produce_request(to("t", *((index, one) for index in range(3_000))))
    steps = steps_of(box, PRODUCE, request, 9)
    assert sum(1 for _ in steps) >= 3_000
    assert len(box.read_all(partition=2)) == 1


# --- ListOffsets


@pytest.mark.parametrize("codec", [0, *CODECS], ids=COMPRESSION_NAMES)
@pytest.mark.parametrize("bomb", ["headers", "value"])
def test_a_time_is_found_in_a_bomb_with_the_memory_of_a_piece(box: BrokerBox, codec: int, bomb: str) -> None:
    """An older broker may have taken it."""
    log = box.broker.catalog.get("large").partitions[0].log  # type: ignore[union-attr]
    body = record(headers=5_000_000) if bomb == "headers" else record(value=bytes(10 * MIB))
    log.append(sealed(codec, body), now=START_MS)
    asked = ListOffsetsTopic("large", [ListOffsetsPartition(0, -1, START_MS), ListOffsetsPartition(1, -1, START_MS)])
    request = ListOffsetsRequest(-1, 0, [asked])
    assert box.send(LIST_OFFSETS, request, 7).topics[0].partitions[0].offset == 0
    tracemalloc.start()
    try:
        found = box.send(LIST_OFFSETS, request, 7).topics[0].partitions[0]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (found.error_code, found.offset, found.timestamp) == (0, 0, START_MS)
    assert peak < 2 * MIB + 3 * log.size_bytes


def test_times_are_looked_for_in_steps(box: BrokerBox) -> None:
    records = [Record(index, START_MS + index, b"k", b"v") for index in range(20_000)]
    like = BatchHeader(0, 0, -1, 2, 0, 4, len(records) - 1, START_MS, 0, -1, -1, -1, len(records))
    assert box.produce(rebuild_batch(like, records)).error_code == 0
    asked = ListOffsetsPartition(0, -1, START_MS + 19_000)
    steps = steps_of(box, LIST_OFFSETS, ListOffsetsRequest(-1, 0, [ListOffsetsTopic("t", [asked])]), 7)
    count = sum(1 for _ in steps)
    assert count > 30
    (found,) = (
        box.send(LIST_OFFSETS, ListOffsetsRequest(-1, 0, [ListOffsetsTopic("t", [asked])]), 7).topics[0].partitions
    )
    assert (found.offset, found.timestamp) == (19_000, START_MS + 19_000)


def test_a_batch_that_is_too_large_for_the_topic_is_not_copied(box: BrokerBox) -> None:
    large = batch(20, start_ms=START_MS, size_bytes=MIB)
    request = produce_request(to("t", (0, large)))
    request.topic_data[0].partition_data[0].records = memoryview(large)
    tracemalloc.start()
    try:
        response = steps_of(box, PRODUCE, request, 9)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert peak < MIB


class CountedList(list[Any]):
    """Counts the elements that are read."""

    read = 0

    def __iter__(self) -> Iterator[Any]:
        for each in super().__iter__():
            CountedList.read += 1
            yield each


@pytest.mark.parametrize("in_one_topic", [True, False])
def test_no_step_of_a_produce_looks_at_many_partitions(box: BrokerBox, in_one_topic: bool) -> None:
    names = ["t"] * 500
    if in_one_topic:
        topics = [TopicProduceData("t", partition_data=CountedList(PartitionProduceData(0, b"") for _ in names))]
    else:
        topics = CountedList(TopicProduceData(name, partition_data=[PartitionProduceData(0, b"")]) for name in names)
    most, before = 0, CountedList.read
    for _ in steps_of(box, PRODUCE, ProduceRequest(None, -1, 1000, topics), 9):
        most, before = max(most, CountedList.read - before), CountedList.read
    assert max(most, CountedList.read - before) <= 2
    assert CountedList.read >= 500
