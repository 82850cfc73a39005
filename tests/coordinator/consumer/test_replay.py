"""What a log says is what the group is, whoever wrote it, and however often it is replayed."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from kohort.coordinator.consumer.group import NO_ASSIGNMENT, find_consumer, replay
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.log_records import CONSUMER_GROUP_PARTITION_METADATA
from kohort.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kohort.protocol.messages.log_consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from kohort.protocol.messages.log_consumer_group_member_metadata import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)
from kohort.protocol.messages.log_consumer_group_metadata import ConsumerGroupMetadataKey, ConsumerGroupMetadataValue
from kohort.protocol.messages.log_consumer_group_partition_metadata import (
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
)
from kohort.protocol.messages.log_consumer_group_target_assignment_metadata import (
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from tests.coordinator.consumer.kafka_logs import GROUPS_848, loaded, what_kafka_said
from tests.coordinator.consumer.words import Answer, Group, a_group, next_target
from tests.coordinator.support import Host
from tests.kafka.make_consumer_groups import as_json

T = b"T" * 16


def test_groups_of_a_real_kafka_are_listed_as_kafka_listed_them(tmp_path: Path) -> None:
    host = loaded(GROUPS_848, tmp_path)
    ours = {(each.group_id, each.protocol_type, each.group_state, each.group_type) for each in host.list_groups()}
    theirs = {
        (each["group_id"], each["protocol_type"], each["group_state"], each["group_type"])
        for each in what_kafka_said()["groups"]
    }
    assert {each for each in ours if each[3] == "consumer"} == {each for each in theirs if each[3] == "consumer"}


def test_groups_of_a_real_kafka_are_described_as_kafka_described_them(tmp_path: Path) -> None:
    host = loaded(GROUPS_848, tmp_path)
    said = what_kafka_said()["consumer"]
    assert len(said) >= 15
    for group_id, theirs in said.items():
        (ours,) = host.ask(ConsumerGroupDescribeRequest([group_id]), 1).groups
        assert in_order(as_json(ours)) == in_order(theirs), group_id


def in_order(described: Any) -> Any:
    """Members and partitions are sorted: their order in an answer says nothing."""
    if isinstance(described, dict):
        return {name: in_order(value) for name, value in described.items()}
    if isinstance(described, list):
        return sorted(map(in_order, described), key=repr)
    return described


def test_members_of_a_real_kafka_carry_on(tmp_path: Path) -> None:
    """`plain` is stable: its members need not notice that another broker answers."""
    host = loaded(GROUPS_848, tmp_path)
    group = Group(host, "plain")
    described = group.describe()
    assert described.group_state == "Stable"
    for member in described.members:
        assert group.beat(member.member_id, member.member_epoch) == Answer(member.member_epoch, None)
    assert (group.state, group.describe().group_epoch) == ("Stable", described.group_epoch)


# --- single records


def a_shard() -> ShardState:
    return Host().state_of("g")


def test_the_first_record_makes_the_group_and_the_tombstone_of_its_epoch_ends_it() -> None:
    shard = a_shard()
    replay(shard, ConsumerGroupMetadataKey("g"), None)
    assert find_consumer(shard, "g") is None
    replay(shard, ConsumerGroupMetadataKey("g"), ConsumerGroupMetadataValue(7, 99))
    group = find_consumer(shard, "g")
    assert group is not None
    assert (group.epoch, group.metadata_hash, group.state_name) == (7, 99, "Empty")
    replay(shard, ConsumerGroupMetadataKey("g"), None)
    assert find_consumer(shard, "g") is None
    assert group.is_abandoned


def test_records_of_a_member_may_come_in_any_order() -> None:
    """Compaction can leave the older of two records behind the newer one of another kind."""
    metadata = (
        ConsumerGroupMemberMetadataKey("g", "m"),
        ConsumerGroupMemberMetadataValue("i", "r", "c", "/h", ["b", "a", "a"], "", 5_000, "range"),
    )
    current = (
        ConsumerGroupCurrentMemberAssignmentKey("g", "m"),
        ConsumerGroupCurrentMemberAssignmentValue(4, 3, 2, [TopicPartitions(T, [1, 2], [3, 4])], []),
    )
    groups = []
    for records in ((metadata, current), (current, metadata)):
        shard = a_shard()
        for key, value in records:
            replay(shard, key, value)
        group = find_consumer(shard, "g")
        assert group is not None
        groups.append(group)
    assert groups[0].members == groups[1].members
    member = groups[0].members["m"]
    assert (member.epoch, member.previous_epoch, member.state, member.topic_names) == (4, 3, 2, ("a", "b"))
    assert member.assigned == {T: {1: 3, 2: 4}}
    assert groups[0].static_members == {"i": "m"}
    assert groups[0].is_held(T, 1)
    assert not groups[0].is_held(T, 0)


def test_records_of_a_kafka_before_4_3_do_not_say_since_when_a_partition_is_there() -> None:
    shard = a_shard()
    value = ConsumerGroupCurrentMemberAssignmentValue(4, 3, 0, [TopicPartitions(T, [1], None)], [])
    replay(shard, ConsumerGroupCurrentMemberAssignmentKey("g", "m"), value)
    group = find_consumer(shard, "g")
    assert group is not None
    assert group.members["m"].owned_since(T, 1) == 4
    assert group.members["m"].owned_since(T, 0) is None


def test_tombstones_take_back_what_the_records_said() -> None:
    shard = a_shard()
    replay(shard, ConsumerGroupMetadataKey("g"), ConsumerGroupMetadataValue(7, 0))
    group = find_consumer(shard, "g")
    assert group is not None
    key = ConsumerGroupTargetAssignmentMetadataKey("g")
    replay(shard, key, ConsumerGroupTargetAssignmentMetadataValue(6, 55))
    assert (group.assignment_epoch, group.assignment_timestamp) == (6, 55)
    replay(shard, key, None)
    assert (group.assignment_epoch, group.assignment_timestamp) == (NO_ASSIGNMENT, 0)
    current = ConsumerGroupCurrentMemberAssignmentKey("g", "m")
    replay(shard, current, ConsumerGroupCurrentMemberAssignmentValue(4, 3, 0, [TopicPartitions(T, [1], [2])], []))
    replay(shard, current, None)
    assert not group.is_held(T, 1)
    assert group.members["m"].assigned == {}


def test_tombstones_of_what_is_not_there_are_nothing() -> None:
    shard = a_shard()
    replay(shard, ConsumerGroupMetadataKey("g"), ConsumerGroupMetadataValue(7, 0))
    replay(shard, ConsumerGroupCurrentMemberAssignmentKey("g", "m"), None)
    replay(shard, ConsumerGroupMemberMetadataKey("g", "m"), None)
    group = find_consumer(shard, "g")
    assert group is not None
    assert (group.members, group.state_name) == ({}, "Empty")


def test_the_record_of_a_kafka_before_4_1_is_taken_away_with_the_next_epoch() -> None:
    group = a_group()
    group.join("m1")
    replay(
        group.host.state_of("billing"),
        ConsumerGroupPartitionMetadataKey("billing"),
        ConsumerGroupPartitionMetadataValue([]),
    )
    size = len(group.log())
    next_target(group)
    group.host.topics.grow("orders", 4)
    group.beat("m1", 2)
    assert (CONSUMER_GROUP_PARTITION_METADATA, False) in group.types(start=size)


# --- whole logs


@pytest.mark.parametrize("seed", range(20))
def test_a_restart_at_any_time_changes_nothing_that_is_described(seed: int) -> None:
    random = Random(seed)
    group = a_group(partitions=7)
    for _ in range(60):
        what, member_id = random.randrange(8), f"m{random.randrange(5)}"
        members = group.object.members if group.log() else {}
        member = members.get(member_id)
        instance = f"i{member_id[1]}" if int(member_id[1]) < 2 else None
        if member is None or what == 0:
            topics = random.sample(["orders", "payments", "nowhere"], random.randrange(1, 3))
            group.join(member_id, topics, instance_id=instance)
        elif what == 1:
            group.leave(member_id, random.choice([-1, -2]) if instance else -1, instance_id=instance)
        elif what == 2:
            group.beat(member_id, member.epoch, subscribed_topic_names=[random.choice(["orders", "payments"])])
        else:
            names = group.host.topics
            owned = {names.name_of(topic) or "": list(parts) for topic, parts in member.assigned.items()}
            group.beat(member_id, member.epoch, owned)
        group.host.advance(random.choice([0, 300, 1_000]))
        before, holders = group.describe(), group.object._holders
        group.host.crash()
        assert group.describe() == before
        assert group.object._holders == holders
