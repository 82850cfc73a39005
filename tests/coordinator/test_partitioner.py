"""Group ids and the partition that a real Kafka 4.3.1 put them in (tests/data/group_partitions.json)."""

import json
from pathlib import Path
from typing import Any

import pytest

from kohort.coordinator.partitioner import java_hash, partition_of

MEASURED: dict[str, Any] = json.loads((Path(__file__).parent.parent / "data" / "group_partitions.json").read_text())
COUNT = MEASURED["offsets_topic_partitions"]


@pytest.mark.parametrize("kind", ["groups", "scenario_groups"])
def test_every_group_lies_where_kafka_put_it(kind: str) -> None:
    for group_id, partition in MEASURED[kind].items():
        assert partition_of(group_id, COUNT) == partition, repr(group_id)


def test_raw_bytes_become_the_id_that_kafka_stored_and_lie_where_it_put_them() -> None:
    for sample in MEASURED["raw"]:
        if sample["error"]:
            continue
        group_id = bytes.fromhex(sample["sent_hex"]).decode("utf-8", "java")
        assert group_id == sample["stored"], sample
        assert partition_of(group_id, COUNT) == sample["partition"], sample


@pytest.mark.parametrize(
    ("group_id", "hash_code", "partition"),
    [
        ("", 0, 0),
        ("g1", 3242, 42),
        ("orders", -1008770331, 31),
        ("polygenelubricants", -2147483648, 0),
        ("\U0001f600", 1772899, 49),
        ("\u65e5\u672c", 835047, 47),
        ("consumer-group-1", 147483020, 20),
    ],
)
def test_the_hash_is_over_utf_16_code_units_and_the_smallest_int_counts_as_zero(
    group_id: str, hash_code: int, partition: int
) -> None:
    assert java_hash(group_id) == hash_code
    assert partition_of(group_id, 50) == partition
