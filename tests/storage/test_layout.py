"""Names and text files are Kafka's to the byte."""

import pytest

from kohort.storage.layout import (
    CorruptCheckpoint,
    format_leader_epochs,
    format_offsets,
    format_partition_metadata,
    parse_leader_epochs,
    parse_offsets,
    parse_partition_folder,
    parse_partition_metadata,
    parse_segment_file,
    partition_folder,
    segment_file,
)


def test_segment_files_are_named_after_their_first_offset() -> None:
    assert segment_file(368_769, ".timeindex", ".swap") == "00000000000000368769.timeindex.swap"
    assert parse_segment_file("00000000000000368769.timeindex.swap") == (368_769, ".timeindex", ".swap")
    assert parse_segment_file("00000000000000000000.log") == (0, ".log", "")


@pytest.mark.parametrize("name", ["0.log", "00000000000000000000.txt", "leader-epoch-checkpoint", "dump.txt", ""])
def test_other_files_are_no_segments(name: str) -> None:
    assert parse_segment_file(name) is None


@pytest.mark.parametrize(("topic", "partition"), [("orders", 0), ("a-b-c", 12), ("__consumer_offsets", 49), ("7", 7)])
def test_a_partition_folder_is_topic_dash_partition(topic: str, partition: int) -> None:
    assert parse_partition_folder(partition_folder(topic, partition)) == (topic, partition)


@pytest.mark.parametrize("name", ["orders", "orders-", "-0", "orders-00", "orders--1x", "a-0.6f1c-delete", "a/b-0"])
def test_other_folders_are_no_partitions(name: str) -> None:
    assert parse_partition_folder(name) is None


def test_partition_metadata_is_written_as_kafka_does() -> None:
    written = b"version: 0\ntopic_id: D1z325FxQlGGpVTmKJ3jBg"  # from a live Kafka 4.3.1
    topic_id = parse_partition_metadata(written, "partition.metadata")
    assert topic_id == bytes.fromhex("0f5cf7db91714251 86a554e6289de306")
    assert format_partition_metadata(topic_id) == written


def test_checkpoints_are_written_as_kafka_does() -> None:
    epochs = [(0, 0), (3, 17)]
    assert format_leader_epochs(epochs) == b"0\n2\n0 0\n3 17\n"
    assert parse_leader_epochs(b"0\n2\n0 0\n3 17\n", "file") == epochs
    offsets = {("orders", 0): 5, ("a-b", 11): 2**40}
    assert format_offsets(offsets) == b"0\n2\norders 0 5\na-b 11 1099511627776\n"
    assert parse_offsets(format_offsets(offsets), "file") == offsets


def test_a_checkpoint_that_kafka_never_filled_is_empty() -> None:
    assert parse_offsets(b"", "file") == {}


@pytest.mark.parametrize(
    "damaged", [b"1\n0\n", b"0\n2\norders 0 5\n", b"0\n1\norders 0\n", b"0\nx\n", b"0\n1\norders 0 5x\n", b"\xff\xfe"]
)
def test_a_damaged_checkpoint_says_what_to_do(damaged: bytes) -> None:
    with pytest.raises(CorruptCheckpoint, match="some/file is no checkpoint file; if you remove it"):
        parse_offsets(damaged, "some/file")


def test_damaged_partition_metadata_says_what_to_do() -> None:
    with pytest.raises(CorruptCheckpoint, match="if you remove it"):
        parse_partition_metadata(b"version: 0\ntopic_id: short", "some/file")
