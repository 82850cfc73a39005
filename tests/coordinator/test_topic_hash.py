"""The hash of a group's topics is the one that Kafka wrote into its record."""

from __future__ import annotations

from pathlib import Path

import pytest

from kohort.coordinator.consumer.group import find_consumer
from kohort.coordinator.group_shard import GroupShard
from kohort.coordinator.topic_hash import group_hash, hash_in_steps
from kohort.protocol.log_records import CONSUMER_GROUP_METADATA, decode_key
from kohort.protocol.record_batch import CONTROL, parse_header, read_records
from tests.coordinator.consumer.kafka_logs import GROUPS_848, OFFSETS, batches, topics_of
from tests.coordinator.support import FakeTopics, Host


@pytest.mark.parametrize(("archive", "count"), [(OFFSETS, 10), (GROUPS_848, 40)])
def test_each_epoch_of_a_real_log_has_the_hash_that_we_compute(archive: str, count: int, tmp_path: Path) -> None:
    """The record of an epoch stands behind those of the members, so the subscriptions are known when it comes."""
    host = Host(topics=topics_of(archive), load=False)
    compared, others = 0, set()
    for partition, batch in batches(archive, tmp_path):
        shard = host.runtime.shards[partition]
        assert isinstance(shard, GroupShard)
        for record in read_records(batch):
            if record.key is None or parse_header(batch).attributes & CONTROL:
                continue
            list(shard._load_record(record.key, record.value, 0, -1))
            kind, key = decode_key(record.key)
            if kind == CONSUMER_GROUP_METADATA and record.value is not None:
                group = find_consumer(shard.state, key.group_id)
                assert group is not None
                compared += 1
                if group.metadata_hash != group.subscriptions.metadata_hash(shard.state):
                    others.add(key.group_id)
    assert compared >= count
    assert others <= {"topic-deleted", "probe"}  # they wanted a topic that was deleted later


def test_no_existing_topic_has_the_hash_0() -> None:
    topics = FakeTopics(orders=3)
    assert group_hash(topics, [], "") == 0
    assert group_hash(topics, ["nowhere"], "") == 0
    assert group_hash(topics, ["nowhere", "orders"], "") == group_hash(topics, ["orders"], "") != 0


def test_whatever_changes_in_a_topic_changes_the_hash() -> None:
    topics = FakeTopics(orders=3)
    before = group_hash(topics, ["orders"], "")
    assert group_hash(topics, ["orders"], "rack") != before
    topics.grow("orders", 4)
    assert group_hash(topics, ["orders"], "") != before
    topics.grow("orders", 3)
    assert group_hash(topics, ["orders"], "") == before
    topics.delete("orders")
    topics.create("orders", 3)  # with another id
    assert group_hash(topics, ["orders"], "") != before


def test_hashing_ahead_of_time_changes_nothing() -> None:
    topics = FakeTopics(**{f"t{number}": 1 for number in range(1_200)})
    names = sorted(topics.names())
    assert len(list(hash_in_steps(topics, names, ""))) == 3
    assert group_hash(topics, names, "") == group_hash(topics, names, "")
