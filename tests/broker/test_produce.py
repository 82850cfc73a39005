"""Produce: which batches enter a log, and what the others are told. The error codes were learnt from Kafka 4.3.1."""

from __future__ import annotations

from collections.abc import Iterator
from errno import EMFILE
from pathlib import Path
from struct import pack_into
from typing import Any

import pytest
from crc32c import crc32c

from kohort.broker.call import NO_ANSWER, PARKED
from kohort.broker.topics.catalog import CONSUMER_OFFSETS
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kohort.protocol.record_batch import build_batch, parse_header
from kohort.storage.disk import RealDisk
from kohort.storage.memory_disk import NEVER_FULL
from tests.broker.broker_box import START_MS, BrokerBox, FakeConnection
from tests.simulation.disk import SimulatedDisk

NOW = START_MS
GOOD = build_batch([(b"k", b"v%d" % i) for i in range(3)], timestamp=NOW)
HOUR_MS = 3_600_000


@pytest.fixture
def box(tmp_path: Path) -> Iterator[BrokerBox]:
    made = BrokerBox(tmp_path / "data")
    made.topic("t", 2)
    yield made
    made.close()


def with_crc(batch: bytes) -> bytes:
    changed = bytearray(batch)
    pack_into(">I", changed, 17, crc32c(bytes(changed[21:])))
    return bytes(changed)


def changed(batch: bytes, position: int, layout: str, value: int) -> bytes:
    made = bytearray(batch)
    pack_into(layout, made, position, value)
    return with_crc(bytes(made))


def told(answer: Any) -> tuple[str, int]:
    """(error, log start offset) of an answer."""
    return ErrorCode(answer.error_code).name, answer.log_start_offset


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version_appends_and_tells_the_offset(box: BrokerBox, version: int) -> None:
    topic_id = box.broker.catalog.get("t").id  # type: ignore[union-attr]
    for offset in (0, 3):
        answer = box.produce(GOOD, version=version, topic_id=topic_id)
        assert (answer.error_code, answer.base_offset, answer.log_append_time_ms) == (0, offset, -1)
        assert answer.log_start_offset == (0 if version >= 5 else -1)
    assert [record.value for record in box.read_all()] == [b"v0", b"v1", b"v2"] * 2


@pytest.mark.parametrize(
    ("why", "batch", "error"),
    [
        ("no batch at all", b"", "INVALID_RECORD"),
        ("half a header", GOOD[:16], "INVALID_RECORD"),
        ("a batch that is cut off", GOOD[:-1], "INVALID_RECORD"),
        ("two batches", GOOD + GOOD, "INVALID_RECORD"),
        ("a broken second batch", GOOD + b"\0" * 20, "CORRUPT_MESSAGE"),
        ("magic 1", changed(GOOD, 16, ">b", 1), "INVALID_RECORD"),
        ("magic 3", changed(GOOD, 16, ">b", 3), "CORRUPT_MESSAGE"),
        ("magic -1", changed(GOOD, 16, ">b", -1), "CORRUPT_MESSAGE"),
        ("a length below that of any record", changed(GOOD, 8, ">i", 13), "CORRUPT_MESSAGE"),
        ("a negative length", changed(GOOD, 8, ">i", -5), "CORRUPT_MESSAGE"),
        ("a length below that of the header", changed(GOOD, 8, ">i", 14), "CORRUPT_MESSAGE"),
        ("a batch shorter than its header", changed(GOOD, 8, ">i", 48)[:60], "CORRUPT_MESSAGE"),
        ("a wrong checksum", GOOD[:17] + b"\0\0\0\7" + GOOD[21:], "CORRUPT_MESSAGE"),
    ],
)
def test_what_is_not_one_whole_batch_is_refused_without_a_look_at_the_log(
    box: BrokerBox, why: str, batch: bytes, error: str
) -> None:
    assert told(box.produce(batch)) == (error, -1), why
    assert box.read_all() == []


def record(position: int, data: bytes) -> bytes:
    """GOOD with some bytes of its first record changed, which starts at 61: length, attributes, time, offset, key."""
    return with_crc(GOOD[:position] + data + GOOD[position + len(data) :])


@pytest.mark.parametrize(
    ("why", "batch", "error"),
    [
        ("a base offset", changed(GOOD, 0, ">q", 5), "INVALID_RECORD"),
        ("a negative base offset", changed(GOOD, 0, ">q", -5), "INVALID_RECORD"),
        ("no records", changed(GOOD, 57, ">i", 0), "INVALID_RECORD"),
        ("a negative count", changed(GOOD, 57, ">i", -1), "INVALID_RECORD"),
        ("fewer records than offsets", changed(GOOD, 57, ">i", 2), "INVALID_RECORD"),
        ("more offsets than records", changed(GOOD, 23, ">i", 5), "INVALID_RECORD"),
        ("counts that agree on too many", changed(changed(GOOD, 23, ">i", 5), 57, ">i", 6), "INVALID_RECORD"),
        ("counts that agree on too few", changed(changed(GOOD, 23, ">i", 1), 57, ">i", 2), "INVALID_RECORD"),
        ("a control batch", changed(GOOD, 21, ">h", 0x20), "INVALID_RECORD"),
        ("a compression that does not exist", changed(GOOD, 21, ">h", 5), "UNKNOWN_SERVER_ERROR"),
        ("no gzip where it says so", changed(GOOD, 21, ">h", 1), "UNKNOWN_SERVER_ERROR"),
        ("no snappy where it says so", changed(GOOD, 21, ">h", 2), "UNKNOWN_SERVER_ERROR"),
        ("no lz4 where it says so", changed(GOOD, 21, ">h", 3), "UNKNOWN_SERVER_ERROR"),
        ("no zstd where it says so", changed(GOOD, 21, ">h", 4), "UNKNOWN_SERVER_ERROR"),
        ("a record that is longer than it is", record(61, b"\x14"), "INVALID_RECORD"),
        ("a record that is shorter than it is", record(61, b"\x10"), "INVALID_RECORD"),
        ("a negative record length", record(61, b"\x11"), "INVALID_RECORD"),
        ("a key that is longer than the record", record(65, b"\x7e"), "INVALID_RECORD"),
        ("a key length of -2", record(65, b"\x03"), "INVALID_RECORD"),
        ("a header that is not there", record(70, b"\x02"), "INVALID_RECORD"),
        ("minus one headers", record(70, b"\x01"), "INVALID_RECORD"),
        ("an offset delta out of line", record(64, b"\x04"), "INVALID_RECORD"),
        ("a negative offset delta", record(64, b"\x01"), "INVALID_RECORD"),
        (
            "a producer without a sequence",
            build_batch([(b"k", b"v")], timestamp=NOW, producer_id=7, producer_epoch=0, base_sequence=-1),
            "INVALID_RECORD",
        ),
    ],
)
def test_what_the_log_refuses_is_told_with_its_start(box: BrokerBox, why: str, batch: bytes, error: str) -> None:
    assert told(box.produce(batch)) == (error, 0), why
    assert box.read_all() == []


@pytest.mark.parametrize(
    ("why", "batch"),
    [
        ("a byte behind the batch", GOOD + b"\0"),
        ("half a batch behind it", GOOD + GOOD[:30]),
        ("a leader epoch", GOOD[:12] + b"\0\0\0\5" + GOOD[16:]),
        ("record attributes", record(62, b"\x05")),
        ("unused attributes", changed(GOOD, 21, ">h", 0x80)),
        ("a producer id below -1", changed(GOOD, 43, ">q", -2)),
        ("a long gone time", build_batch([(b"k", b"v0"), (b"k", b"v1"), (b"k", b"v2")], timestamp=1)),
        ("no time", build_batch([(b"k", b"v0"), (b"k", b"v1"), (b"k", b"v2")], timestamp=-1)),
    ],
)
def test_what_kafka_lets_pass_is_let_pass(box: BrokerBox, why: str, batch: bytes) -> None:
    assert told(box.produce(batch)) == ("NONE", 0), why
    assert [each.value for each in box.read_all()] == [b"v0", b"v1", b"v2"]


def stored(box: BrokerBox, topic: str = "t") -> Any:
    return parse_header(bytes(box.fetch(0, topic).records or b""))


@pytest.mark.parametrize("claimed", [5, NOW + 1_000_000_000])
def test_a_greatest_timestamp_that_is_not_true_is_corrected(box: BrokerBox, claimed: int) -> None:
    assert told(box.produce(changed(GOOD, 35, ">q", claimed))) == ("NONE", 0)
    assert stored(box).max_timestamp == NOW
    assert len(box.read_all()) == 3


def test_a_producer_cannot_choose_log_append_time(box: BrokerBox) -> None:
    batch = changed(GOOD, 21, ">h", 0x08)
    assert told(box.produce(batch)) == ("NONE", 0)
    assert stored(box).attributes == 0
    box.topic("appending", message_timestamp_type="LogAppendTime")
    answer = box.produce(batch, "appending")
    assert told(answer) == ("INVALID_TIMESTAMP", 0)
    assert (
        "Producer should not set timestamp type to LogAppendTime" in answer.record_errors[0].batch_index_error_message
    )


def test_log_append_time_replaces_the_producers_times(box: BrokerBox) -> None:
    box.topic("appending", message_timestamp_type="LogAppendTime")
    batch = build_batch([(b"k", b"v")], timestamp=NOW + 10 * HOUR_MS)
    assert box.produce(batch, "appending").log_append_time_ms == NOW
    assert [each.timestamp for each in box.read_all("appending")] == [NOW]


def test_times_out_of_range_are_told_record_by_record(box: BrokerBox) -> None:
    future = NOW + HOUR_MS + 1
    answer = box.produce(build_batch([(b"k", b"v")] * 2, timestamp=future))
    assert told(answer) == ("INVALID_TIMESTAMP", 0)
    assert answer.error_message == "One or more records have been rejected due to invalid timestamp"
    allowed = f"The timestamp should be within [{NOW - 2**63 + 1}, {NOW + HOUR_MS}]"
    assert [(each.batch_index, each.batch_index_error_message) for each in answer.record_errors] == [
        (index, f"Timestamp {future} of message with offset {index} is out of range. {allowed}") for index in range(2)
    ]
    assert told(box.produce(build_batch([(b"k", b"v")], timestamp=NOW + HOUR_MS))) == ("NONE", 0)


def test_a_topic_can_refuse_old_records_but_not_those_without_a_time(box: BrokerBox) -> None:
    box.topic("young", message_timestamp_before_max_ms="1000")
    assert told(box.produce(build_batch([(b"k", b"v")], timestamp=NOW - 1001), "young")) == ("INVALID_TIMESTAMP", 0)
    assert told(box.produce(build_batch([(b"k", b"v")], timestamp=NOW - 1000), "young")) == ("NONE", 0)
    assert told(box.produce(build_batch([(b"k", b"v")], timestamp=-1), "young")) == ("NONE", 0)


def test_a_compacted_topic_refuses_records_without_keys_and_names_them(box: BrokerBox) -> None:
    box.topic("compacted", cleanup_policy="compact")
    batch = build_batch([(b"a", b"v")] + [(None, b"v")] * 4, timestamp=NOW)
    answer = box.produce(batch, "compacted")
    text = "Compacted topic cannot accept message without key in topic partition compacted-0"
    assert told(answer) == ("INVALID_RECORD", 0)
    assert [(each.batch_index, each.batch_index_error_message) for each in answer.record_errors] == [
        (index, text) for index in (1, 2, 3, 4)
    ]
    shown = ", ".join(f"RecordError(batchIndex={index}, message='{text}')" for index in (1, 2, 3))
    assert answer.error_message == (
        "One or more records have been rejected due to 4 record errors in total, and only showing the first three "
        f"errors at most: [{shown}]"
    )
    assert told(box.produce(batch, "compacted", version=7)) == ("INVALID_RECORD", 0)  # too old for the details
    assert told(box.produce(GOOD, "compacted")) == ("NONE", 0)


def test_a_batch_above_max_message_bytes_is_too_large(box: BrokerBox) -> None:
    box.topic("small", max_message_bytes=str(len(GOOD) - 1))
    assert told(box.produce(GOOD, "small")) == ("MESSAGE_TOO_LARGE", -1)
    box.topic("large enough", max_message_bytes=str(len(GOOD)))
    assert told(box.produce(GOOD, "large enough")) == ("NONE", 0)


@pytest.mark.parametrize("compression", [1, 2, 3, 4])
def test_compressed_batches_are_stored_as_they_came(box: BrokerBox, compression: int) -> None:
    batch = build_batch([(b"k", b"v" * 100)] * 50, timestamp=NOW, compression=compression)
    assert told(box.produce(batch)) == ("NONE", 0)
    assert bytes(box.fetch(0).records or b"")[61:] == batch[61:]
    fewer = changed(changed(batch, 57, ">i", 49), 23, ">i", 48)
    assert told(box.produce(fewer)) == ("INVALID_RECORD", 0)


def test_zstd_needs_version_7(box: BrokerBox) -> None:
    batch = build_batch([(b"k", b"v")], timestamp=NOW, compression=4)
    assert told(box.produce(batch, version=6)) == ("UNSUPPORTED_COMPRESSION_TYPE", -1)
    assert told(box.produce(batch, version=7)) == ("NONE", 0)


def test_a_topic_or_partition_must_exist(box: BrokerBox) -> None:
    assert told(box.produce(GOOD, "nope")) == ("UNKNOWN_TOPIC_OR_PARTITION", -1)
    assert told(box.produce(GOOD, "t", 2)) == ("UNKNOWN_TOPIC_OR_PARTITION", -1)
    assert told(box.produce(GOOD, "t", -1)) == ("UNKNOWN_TOPIC_OR_PARTITION", -1)
    assert told(box.produce(GOOD, version=13, topic_id=b"\1" * 16)) == ("UNKNOWN_TOPIC_ID", -1)
    assert told(box.produce(GOOD, version=13)) == ("UNKNOWN_TOPIC_ID", -1)


def test_acks_must_be_one_of_three_and_a_bad_batch_matters_more(box: BrokerBox) -> None:
    assert told(box.produce(GOOD, acks=2)) == ("INVALID_REQUIRED_ACKS", -1)
    assert told(box.produce(b"", acks=2)) == ("INVALID_RECORD", -1)
    assert told(box.produce(GOOD, acks=1)) == ("NONE", 0)


@pytest.mark.parametrize("client_id", ["anybody", "__admin_client"])
def test_internal_topics_take_no_records_from_clients_whatever_they_call_themselves(
    box: BrokerBox, client_id: str
) -> None:
    box.broker.catalog.ensure_internal(CONSUMER_OFFSETS)
    assert told(box.produce(GOOD, "__consumer_offsets", client_id=client_id)) == ("INVALID_TOPIC_EXCEPTION", -1)


def test_a_setting_lets_kafkas_own_tools_write_into_internal_topics(tmp_path: Path) -> None:
    box = BrokerBox(tmp_path, kohort_internal_topics_writable="true")
    box.broker.catalog.ensure_internal(CONSUMER_OFFSETS)
    assert told(box.produce(GOOD, "__consumer_offsets")) == ("INVALID_TOPIC_EXCEPTION", -1)
    assert told(box.produce(GOOD, "__consumer_offsets", client_id="__admin_client")) == ("NONE", 0)
    box.close()


def test_a_transactional_id_means_nothing_to_batches_outside_transactions(box: BrokerBox) -> None:
    assert told(box.produce(GOOD, transactional_id="mine")) == ("NONE", 0)


def test_acks_0_is_not_answered_and_a_mistake_closes_the_connection(box: BrokerBox) -> None:
    client = FakeConnection()
    assert box.produce(GOOD, acks=0, client=client) is NO_ANSWER
    assert not client.is_closed
    assert box.produce(GOOD[:-1], acks=0, client=client) is NO_ANSWER
    assert client.closed_because == "Produce with acks=0 failed: INVALID_RECORD"
    assert len(box.read_all()) == 3


def test_null_instead_of_records_closes_the_connection(box: BrokerBox) -> None:
    client = FakeConnection()
    box.produce(None, client=client)
    assert client.closed_because == "Produce without records"


# --- durability -----------------------------------------------------------------------------------


def test_by_default_an_answer_waits_for_the_page_cache_only() -> None:
    disk = SimulatedDisk(seed=1)
    box = BrokerBox("/data", disk)
    box.topic()
    box.append(b"a")
    assert BrokerBox("/data", disk.after_kill()).read_all()[0].value == b"a"


def test_with_flush_messages_1_an_answer_waits_for_the_disk() -> None:
    disk = SimulatedDisk(seed=1)
    box = BrokerBox("/data", disk)
    box.topic(flush_messages="1")
    client = FakeConnection()
    assert box.produce(GOOD, client=client) is PARKED
    box.run_posted()  # the turn ends, the flush starts
    assert client.answers == []
    box.run_posted()  # the flush is back
    assert client.answers[0].responses[0].partition_responses[0].base_offset == 0
    assert len(BrokerBox("/data", disk.after_power_loss()).read_all()) == 3


def test_a_sync_that_fails_is_a_storage_error_and_so_is_every_later_append() -> None:
    disk = SimulatedDisk(seed=1)
    box = BrokerBox("/data", disk)
    box.topic(flush_messages="1")
    client = FakeConnection()
    disk.fail_next("sync", ".log")
    assert box.produce(GOOD, client=client) is PARKED
    box.run_posted()
    box.run_posted()
    assert told(client.answers[0].responses[0].partition_responses[0]) == ("KAFKA_STORAGE_ERROR", -1)
    assert told(box.produce(GOOD)) == ("KAFKA_STORAGE_ERROR", -1)


def test_a_full_disk_is_a_storage_error_until_there_is_room_again() -> None:
    disk = SimulatedDisk(seed=1)
    box = BrokerBox("/data", disk)
    box.topic()
    box.append(b"a")
    disk.capacity_bytes = disk.used_bytes()
    assert told(box.produce(GOOD)) == ("KAFKA_STORAGE_ERROR", -1)
    disk.capacity_bytes = NEVER_FULL
    assert told(box.produce(GOOD)) == ("NONE", 0)
    assert [each.value for each in box.read_all()] == [b"a", b"v0", b"v1", b"v2"]


def test_acks_0_is_flushed_too() -> None:
    disk = SimulatedDisk(seed=1)
    box = BrokerBox("/data", disk)
    box.topic(flush_messages="1")
    assert box.produce(GOOD, acks=0) is NO_ANSWER
    box.run_posted()
    box.run_posted()
    assert len(BrokerBox("/data", disk.after_power_loss()).read_all()) == 3


def test_a_log_that_cannot_be_opened_does_not_spoil_the_other_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = BrokerBox(tmp_path)
    box.topic("u", 2)
    batch = build_batch([(None, b"v")], timestamp=box.now)
    data = [PartitionProduceData(index, batch) for index in range(2)]
    request = ProduceRequest(None, -1, 1_000, [TopicProduceData("u", partition_data=data)])

    def codes() -> list[int]:
        return [each.error_code for each in box.send(0, request, 9).responses[0].partition_responses]

    def read_file(path: str) -> bytes:
        if "/u-1/" in path:
            raise OSError(EMFILE, "Too many open files")
        return RealDisk().read_file(path)

    with monkeypatch.context() as patched:
        patched.setattr(box.disk, "read_file", read_file)
        assert codes() == [0, ErrorCode.KAFKA_STORAGE_ERROR]
    assert codes() == [0, 0]
    box.close()
