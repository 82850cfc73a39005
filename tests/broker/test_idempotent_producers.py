"""Idempotent producers: sequences, duplicates, epochs, and what a restart remembers. As Kafka 4.3.1 answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import GeneratorType
from typing import Any

import pytest

from kohort.broker.call import Call
from kohort.broker.steps import all_steps
from kohort.broker.topics import producer_state
from kohort.broker.topics.producer_snapshots import from_bytes, save_all_snapshots, to_bytes
from kohort.broker.topics.producer_state import PRODUCERS, Producers
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.init_producer_id import InitProducerIdRequest
from kohort.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kohort.protocol.record_batch import build_batch
from tests.broker.broker_box import START_MS, BrokerBox, FakeConnection

DAY_MS = 86_400_000
MAX_SEQUENCE = 2**31 - 1


@pytest.fixture
def box(tmp_path: Path) -> Iterator[BrokerBox]:
    made = BrokerBox(tmp_path / "data")
    made.topic("t")
    yield made
    made.close()


def send(box: BrokerBox, sequence: int, count: int = 2, epoch: int = 0, producer_id: int = 7) -> Any:
    """The offset that two records got, or the name of the error."""
    batch = build_batch(
        [(b"k", b"v")] * count,
        timestamp=box.now,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    answer = box.produce(batch)
    return answer.base_offset if answer.error_code == 0 else ErrorCode(answer.error_code).name


def test_sequences_go_on_without_a_gap(box: BrokerBox) -> None:
    assert [send(box, sequence) for sequence in (0, 2, 4)] == [0, 2, 4]
    assert send(box, 7) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert send(box, 6) == 6


def test_a_producer_that_nobody_knows_may_start_anywhere(box: BrokerBox) -> None:
    assert send(box, 5) == 0


def test_a_retry_of_one_of_the_last_five_batches_is_answered_with_its_first_offset(box: BrokerBox) -> None:
    for sequence in range(0, 12, 2):
        send(box, sequence)
    assert [send(box, sequence) for sequence in (2, 4, 6, 8, 10)] == [2, 4, 6, 8, 10]
    assert send(box, 0) == "OUT_OF_ORDER_SEQUENCE_NUMBER"  # the sixth last is forgotten
    assert len(box.read_all()) == 12


def test_the_answer_to_a_retry_tells_the_time_of_the_first(box: BrokerBox) -> None:
    send(box, 0)
    box.pass_time(5)
    batch = build_batch([(b"k", b"v")] * 2, timestamp=box.now, producer_id=7, producer_epoch=0, base_sequence=0)
    assert box.produce(batch).log_append_time_ms == START_MS


def test_a_retry_must_be_the_same_batch(box: BrokerBox) -> None:
    send(box, 0)
    assert send(box, 0, count=1) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert send(box, 0, count=3) == "OUT_OF_ORDER_SEQUENCE_NUMBER"


def test_a_new_epoch_starts_at_zero_and_fences_the_old_one(box: BrokerBox) -> None:
    send(box, 0)
    assert send(box, 2, epoch=1) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert send(box, 0, epoch=1) == 2
    assert send(box, 2, epoch=0) == "INVALID_PRODUCER_EPOCH"
    assert send(box, 0, epoch=1) == 2


def test_behind_the_greatest_sequence_comes_zero(box: BrokerBox) -> None:
    assert send(box, MAX_SEQUENCE - 2) == 0
    assert send(box, MAX_SEQUENCE) == 2  # the first record has the greatest, the second 0
    assert send(box, 1) == 4
    assert send(box, MAX_SEQUENCE) == 2
    assert send(box, MAX_SEQUENCE, count=1, producer_id=8) == 6
    assert send(box, 0, producer_id=8) == 7


def test_producers_do_not_disturb_each_other(box: BrokerBox) -> None:
    assert [send(box, 0, producer_id=each) for each in (1, 2, 3)] == [0, 2, 4]
    assert [send(box, 2, producer_id=each) for each in (3, 2, 1)] == [6, 8, 10]


def reopened(box: BrokerBox, tmp_path: Path, *, clean: bool) -> BrokerBox:
    if clean:
        save_all_snapshots(box.broker)
        box.close()
    else:
        box.crash()
    return BrokerBox(tmp_path / "data")


@pytest.mark.parametrize("clean", [True, False])
def test_a_restart_forgets_no_producer(tmp_path: Path, clean: bool) -> None:
    box = BrokerBox(tmp_path / "data")
    box.topic("t")
    for sequence in range(0, 12, 2):
        send(box, sequence)
    again = reopened(box, tmp_path, clean=clean)
    assert send(again, 10) == 10
    assert send(again, 14) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert send(again, 12) == 12
    again.close()


def test_after_a_roll_recovery_starts_at_the_snapshot_of_the_new_segment(tmp_path: Path) -> None:
    box = BrokerBox(tmp_path / "data")
    topic = box.topic("t")
    send(box, 0, producer_id=1)
    topic.partitions[0].log.roll(box.now)
    send(box, 0, producer_id=2)
    box.crash()
    (snapshot,) = (tmp_path / "data" / "t-0").glob("*.snapshot")
    assert snapshot.name == "00000000000000000002.snapshot"
    told = from_bytes(snapshot.read_bytes())
    assert {key: each.batches[-1].last_sequence for key, each in told.by_id.items()} == {1: 1}
    batch = told.by_id[1].batches.pop()
    told.by_id[1].batches.append(batch._replace(last_sequence=41))  # not what the log says: who is believed?
    snapshot.write_bytes(to_bytes(told))
    again = BrokerBox(tmp_path / "data")
    assert send(again, 42, producer_id=1) == 4
    assert send(again, 2, producer_id=2) == 6
    again.close()


def test_a_damaged_snapshot_is_passed_over(tmp_path: Path) -> None:
    box = BrokerBox(tmp_path / "data")
    box.topic("t")
    send(box, 0)
    again = reopened(box, tmp_path, clean=True)
    again.crash()
    path = tmp_path / "data" / "t-0" / "00000000000000000002.snapshot"
    path.write_bytes(path.read_bytes()[:-1] + b"\7")
    third = BrokerBox(tmp_path / "data")
    assert send(third, 0) == 0
    assert send(third, 2) == 2
    third.close()


def test_an_empty_snapshot_has_the_ten_bytes_of_kafkas() -> None:
    assert to_bytes(Producers()) == bytes.fromhex("0001 48674bc7 00000000".replace(" ", ""))


def test_silent_producers_are_forgotten(box: BrokerBox) -> None:
    send(box, 0)
    producers = box.broker.catalog.get("t").partitions[0].extra[PRODUCERS]  # type: ignore[union-attr]
    producers.expire(START_MS - 1)
    assert 7 in producers.by_id
    producers.expire(START_MS)
    assert 7 not in producers.by_id


# --- InitProducerId -------------------------------------------------------------------------------


def take_id(box: BrokerBox, version: int = 4, **fields: Any) -> Any:
    return box.send(22, InitProducerIdRequest(**({"transactional_id": None} | fields)), version)


@pytest.mark.parametrize("version", range(6))
def test_every_producer_gets_an_id_of_its_own(box: BrokerBox, version: int) -> None:
    answers = [take_id(box, version) for _ in range(3)]
    assert [(each.error_code, each.producer_id, each.producer_epoch) for each in answers] == [
        (0, 0, 0),
        (0, 1, 0),
        (0, 2, 0),
    ]


def test_no_id_is_given_twice_not_even_after_a_crash(tmp_path: Path) -> None:
    taken: list[int] = []
    for _ in range(3):
        box = BrokerBox(tmp_path / "data")
        taken += [take_id(box).producer_id for _ in range(1500)]
        box.crash()
    assert len(set(taken)) == len(taken) == 4500


def test_ids_stay_away_from_those_that_foreign_logs_may_know(tmp_path: Path) -> None:
    box = BrokerBox(tmp_path / "data")
    box.topic("t")
    box.append(b"from elsewhere")
    box.close()
    box = BrokerBox(tmp_path / "data")
    assert take_id(box).producer_id >= 1_000_000_000
    box.close()


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"next_block": null}'])
def test_a_damaged_file_of_ids_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture, content: str) -> None:
    box = BrokerBox(tmp_path)
    (tmp_path / "kohort-producer-ids.json").write_text(content)
    assert take_id(box).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert f"{tmp_path / 'kohort-producer-ids.json'} is damaged" in caplog.text
    box.close()


def test_an_id_that_cannot_be_written_down_is_not_given(tmp_path: Path) -> None:
    box = BrokerBox(tmp_path / "data")
    (tmp_path / "data" / "kohort-producer-ids.json.tmp").mkdir()
    assert ErrorCode(take_id(box).error_code).name == "COORDINATOR_LOAD_IN_PROGRESS"
    box.close()


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"producer_id": 5}, "INVALID_REQUEST"),
        ({"producer_epoch": 5}, "INVALID_REQUEST"),
        ({"producer_id": 5, "producer_epoch": 5}, "NONE"),
        ({"transactional_id": ""}, "INVALID_REQUEST"),
        ({"transactional_id": "mine"}, "INVALID_TRANSACTION_TIMEOUT"),  # the coordinator decides
    ],
)
def test_what_is_asked_for_decides(box: BrokerBox, fields: dict[str, Any], error: str) -> None:
    assert ErrorCode(take_id(box, **fields).error_code).name == error


def test_producers_are_recovered_in_steps_while_others_append(tmp_path: Path) -> None:
    box = BrokerBox(tmp_path)
    box.topic("t")
    for number in range(1_000):
        assert box.produce(numbered(number)).error_code == 0
    box.crash()
    again = BrokerBox(tmp_path)
    first, second = (produce_in_steps(again, numbered(number)) for number in (1_000, 1_001))
    assert isinstance(first, GeneratorType)
    for _ in range(2):
        next(first)
        next(second)
    assert again.append(b"without a producer") == 1_000
    answers = [all_steps(steps).responses[0].partition_responses[0] for steps in (first, second)]
    assert [(answer.error_code, answer.base_offset) for answer in answers] == [(0, 1_001), (0, 1_002)]
    assert again.produce(numbered(1_001)).base_offset == 1_002, "a retry is recognised"
    assert again.produce(numbered(1_003)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    again.close()


@pytest.mark.parametrize("is_new", [False, True])
def test_a_topic_that_is_deleted_while_its_producers_are_recovered_is_unknown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_new: bool
) -> None:
    """A new topic of the same name has files of the same names, with other batches in other places."""
    box = BrokerBox(tmp_path)
    box.topic("t", segment_bytes="20000")
    for number in range(1_000):
        assert box.produce(numbered(number)).error_code == 0
    box.crash()
    forget_snapshots(tmp_path)
    again = BrokerBox(tmp_path)
    steps = produce_in_steps(again, numbered(1_000))
    next(steps)
    catalog = again.broker.catalog
    topic = catalog.get("t")
    assert topic is not None
    assert len(topic.partitions[0].log.segments) > 1
    catalog.make(catalog.deletion_of([topic]))
    if is_new:
        again.topic("t")
        again.append(b"new")
    (answer,) = all_steps(steps).responses[0].partition_responses
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not [record for record in caplog.records if record.levelname != "INFO"]
    again.close()


def test_producers_that_cannot_be_recovered_from_a_damaged_log_are_an_error_of_their_partition(tmp_path: Path) -> None:
    box = BrokerBox(tmp_path)
    box.topic("t", 2)
    for number in range(1_000):
        assert box.produce(numbered(number)).error_code == 0
    box.close()
    forget_snapshots(tmp_path)
    again = BrokerBox(tmp_path)
    path = tmp_path / "t-0" / "00000000000000000000.log"
    damaged = bytearray(path.read_bytes())
    damaged[8:12] = b"\xff" * 4  # the length of the first batch
    path.write_bytes(damaged)
    assert again.produce(numbered(1_000)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert again.produce(numbered(0), partition=1).error_code == 0
    again.close()


def forget_snapshots(folder: Path) -> None:
    """So that all segments have to be read."""
    for snapshot in folder.glob("t-0/*.snapshot"):
        snapshot.unlink()


def numbered(sequence: int) -> bytes:
    return build_batch([(b"k", b"v")], timestamp=START_MS, producer_id=7, producer_epoch=0, base_sequence=sequence)


def produce_in_steps(box: BrokerBox, records: bytes) -> Any:
    route = box.broker.apis.route(0, 9)
    call = Call(FakeConnection(), route, "test")  # type: ignore[arg-type]
    call.correlation_id, call.now, call.steady_ms = 1, box.now, 0
    data = [TopicProduceData("t", partition_data=[PartitionProduceData(0, records)])]
    return route.handler(box.broker, ProduceRequest(None, -1, 1000, data), call)


def test_the_producers_that_are_silent_for_the_longest_time_are_forgotten_if_there_are_too_many(
    box: BrokerBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_state, "MAX_PRODUCERS", 10)
    for producer_id in range(10):
        assert send(box, 0, producer_id=producer_id) == 2 * producer_id
    assert send(box, 2, producer_id=0) == 20
    for producer_id in range(100, 105):
        send(box, 0, producer_id=producer_id)
    remembered = box.broker.catalog.get("t").partitions[0].extra[PRODUCERS].by_id  # type: ignore[union-attr]
    assert list(remembered) == [6, 7, 8, 9, 0, 100, 101, 102, 103, 104]
    assert send(box, 2, producer_id=0) == 20, "a retry of one that was busy is recognised"
