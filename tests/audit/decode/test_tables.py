"""Stories in which one record decides what others mean: transactions, names of topics, headers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kohort.audit.decode import read_table
from kohort.audit.decode.folders import LogFolder, find_logs
from kohort.audit.decode.schemas import uuid_text
from kohort.protocol.log_records import (
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    SHARE_GROUP_STATE_PARTITION_METADATA,
    encode_key,
    encode_value,
)
from kohort.protocol.messages import log_share_group_state_partition_metadata as share
from kohort.protocol.record_batch import build_batch, read_records
from tests.audit.logs import START, Logs, topic_id
from tests.audit.new_groups import new_epoch

Row = dict[str, Any]


def rows(folder: LogFolder, table: str, **wanted: Any) -> list[Row]:
    return [row for batch in read_table(folder, table, **wanted) for row in batch.to_pylist()]


def the_log(logs: Logs) -> LogFolder:
    logs.close()
    (folder,), problems = find_logs([str(logs.path)])
    assert problems == []
    return folder


def test_a_transaction_ends_with_its_producers_next_marker_in_whatever_file_that_is(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    group = logs.group("orders")
    group.commit_in_transaction({"t-0": 1}, producer_id=1)
    group.commit_in_transaction({"t-1": 2}, producer_id=2)
    group.commit({"t-2": 3})
    group.end_transaction(commit=True, producer_id=1)
    group.commit_in_transaction({"t-0": 4, "t-3": 5}, producer_id=1)
    logs.roll(group.log_partition)
    group.commit({"t-2": 6})
    logs.roll(group.log_partition)
    group.end_transaction(commit=False, producer_id=2)
    group.commit_in_transaction({"t-0": 7}, producer_id=2)
    group.end_transaction(commit=False, producer_id=1)
    group.end_transaction(commit=True, producer_id=9)  # of which compaction has left nothing else
    folder = the_log(logs)
    found = {row["offset"]: (row["transaction"], row["producer_id"]) for row in rows(folder, "offset_commits")}
    assert found == {
        1: ("committed", 1), 2: ("aborted", 2), 3: ("none", -1), 4: ("aborted", 1), 5: ("aborted", 1),
        6: ("none", -1), 7: ("open", 2),
    }  # fmt: skip
    markers = [(row["marker"], row["producer_id"]) for row in rows(folder, "log_batches") if row["marker"]]
    assert markers == [("COMMIT", 1), ("ABORT", 2), ("ABORT", 1), ("COMMIT", 9)]
    later = rows(folder, "offset_commits", from_offset=4)
    assert {row["offset"]: row["transaction"] for row in later} == {4: "aborted", 5: "aborted", 6: "none", 7: "open"}


def assigned_names(folder: LogFolder, **wanted: Any) -> list[str | None]:
    found = rows(folder, "member_assignments", **wanted)
    return [
        one["topic"]
        for row in found
        if row["record_type"] == CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT
        for one in row["assigned"]
    ]


def test_topics_are_named_by_commits_that_come_later_or_lie_before_what_is_read(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    group = logs.group("orders")
    new_epoch(group, {"m1": ["clicks-0", "payments-3"]})
    assert logs.end_offset(group.log_partition) == 5
    group.commit({"clicks-0": 5})
    logs.roll(group.log_partition)
    new_epoch(group, {"m1": ["clicks-0", "payments-3"]})
    folder = the_log(logs)
    assert assigned_names(folder) == ["clicks", None] * 2
    assert assigned_names(folder, from_offset=6) == ["clicks", None]
    (row,) = (
        row
        for row in rows(folder, "member_assignments", from_offset=6)
        if row["record_type"] == CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT
    )
    assert row["assigned"][1] == {"topic": None, "topic_id": uuid_text(topic_id("payments")), "partition": 3}


def test_topics_are_named_by_share_groups_and_by_the_data_folder(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    group = logs.group("orders")
    new_epoch(group, {"m1": ["clicks-0", "payments-3", "returns-1"]})
    value = share.ShareGroupStatePartitionMetadataValue(
        initialized_topics=[share.TopicPartitionsInfo(topic_id("payments"), "payments", [3])]
    )
    group.raw(
        encode_key(SHARE_GROUP_STATE_PARTITION_METADATA, share.ShareGroupStatePartitionMetadataKey("orders")),
        encode_value(SHARE_GROUP_STATE_PARTITION_METADATA, value),
    )
    beside = tmp_path / "returns-0"
    beside.mkdir()
    (beside / "partition.metadata").write_text(f"version: 0\ntopic_id: {uuid_text(topic_id('returns'))}\n")
    assert assigned_names(the_log(logs)) == [None, "payments", "returns"]


@pytest.mark.parametrize("compression", range(5))
def test_every_codec_is_read(compression: int, tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    group = logs.group("orders")
    group.commit({f"t-{n}": n for n in range(200)}, by="m1")
    folder = the_log(logs)
    expected = rows(folder, "offset_commits")
    (path,) = logs.segments(group.log_partition)
    records = [(record.key, record.value, record.headers) for record in read_records(path.read_bytes())]
    packed = Logs(tmp_path / "packed")
    packed.append(group.log_partition, build_batch(records, timestamp=START, compression=compression), START)
    folder = the_log(packed)
    assert rows(folder, "offset_commits") == expected
    (batch,) = rows(folder, "log_batches")
    assert (batch["codec"], batch["record_count"]) == (("none", "gzip", "snappy", "lz4", "zstd")[compression], 200)


def test_kohorts_headers_are_columns_and_without_them_these_are_null(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    group = logs.group("orders")
    group.generation({"m1": ["t-0"]}, cause="member joined", trigger="m1", join_ms=250, sync_ms=30)
    group.commit({"t-0": 1}, by="m1")
    group.commit({"t-0": 2}, by="")
    group.commit({"t-0": 3})
    group.empty()
    folder = the_log(logs)
    told = [(row["member_id"], row["generation"]) for row in rows(folder, "offset_commits")]
    assert told == [("m1", 1), ("", -1), (None, None)]
    first, second = rows(folder, "group_generations")
    assert (first["cause"], first["trigger"]) == ("member joined", "m1")
    assert (first["state_time"] - first["join_start"]).total_seconds() == 0.25
    assert (first["record_time"] - first["state_time"]).total_seconds() == 0.03
    assert (second["cause"], second["trigger"], second["join_start"]) == (None, None, None)


def test_what_cannot_be_understood_is_a_row_that_says_so(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    group = logs.group("orders")
    group.raw(None, b"value")
    group.raw(b"\x00\x63key of a newer Kafka", b"\x00\x00")
    group.raw(
        encode_key(SHARE_GROUP_STATE_PARTITION_METADATA, share.ShareGroupStatePartitionMetadataKey("orders")),
        b"\x00\x09",
    )
    group.raw(b"\x00\x01\x00", b"\x00\x04")
    group.raw(b"\x00", None)
    found = rows(the_log(logs), "other_records")
    assert [(row["log_offset"], row["problem"], row["record_type"], row["group_id"]) for row in found] == [
        (0, "no key", None, None),
        (1, "unknown", 99, None),
        (2, "undecodable", 15, "orders"),
        (3, "undecodable", 1, None),
        (4, "undecodable", None, None),
    ]
    assert found[2]["detail"] == (
        "ShareGroupStatePartitionMetadata: ShareGroupStatePartitionMetadata value version 9; known are 0 to 0"
    )
    assert found[1]["key"] == b"\x00\x63key of a newer Kafka".hex()
    assert [row["tombstone"] for row in found] == [False, False, False, False, True]


def test_a_group_a_time_and_offsets_can_be_asked_for(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    one = logs.group("orders")
    two = logs.group_in(one.log_partition)
    for number in range(5):
        one.commit({"t-0": number})
        two.commit({"t-0": 100 + number})
        two.generation({"m": ["t-0"]})
    folder = the_log(logs)
    assert [row["offset"] for row in rows(folder, "offset_commits", group="orders")] == [0, 1, 2, 3, 4]
    found = rows(folder, "group_generations", group=two.group_id, since_ms=START + 3_000, until_ms=START + 7_000)
    assert [row["generation"] for row in found] == [2, 3]
    assert len(rows(folder, "member_assignments", from_offset=5, until_offset=8)) == 1
    assert [row["log_offset"] for row in rows(folder, "log_batches", from_offset=3, until_offset=6)] == [3, 4, 5]
