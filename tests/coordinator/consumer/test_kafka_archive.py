"""Consumer groups that a real Kafka 4.3.1 wrote become what it showed of them, and their members carry on with us."""

from __future__ import annotations

import json
import tarfile
from base64 import urlsafe_b64decode
from pathlib import Path
from typing import Any

import pytest

from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.member import ConsumerMember
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.consumer_protocol import ConsumerProtocolSubscription, TopicPartition
from kohort.protocol.subscription import pack_subscription
from tests.coordinator.consumer.migrants import partitions_of
from tests.coordinator.consumer.words import Answer, Group
from tests.coordinator.members import NONE, Member, fetched, send_fetch
from tests.coordinator.support import FakeTopics, Host
from tests.coordinator.test_kafka_archives import DATA, batches_of

ARCHIVE = "consumer_groups_848_4.3.1"
KAFKA: dict[str, Any] = json.loads((DATA / f"{ARCHIVE}.json").read_text())
MOVING = {"migrating", "unreleased", "unrevoked", "assigning", "topic-deleted"}  # members have something to do yet
AWAY = {"static", "static-away"}  # groups with a static member that is away


@pytest.fixture
def host(tmp_path: Path) -> Host:
    with tarfile.open(DATA / f"{ARCHIVE}.tar.gz") as tar:
        tar.extractall(tmp_path, filter="data")
    topics = FakeTopics()
    for name, topic in KAFKA["topics"].items():
        topics.create(name, topic["partitions"], urlsafe_b64decode(topic["id"] + "=="))
    host = Host(topics=topics, load=False)
    for shard in host.runtime.shards:
        for segment in sorted((tmp_path / ARCHIVE / f"__consumer_offsets-{shard.partition}").glob("*.log")):
            host.disk.batches.setdefault(shard.partition, []).extend(batches_of(segment.read_bytes()))
    host.load()
    return host


def test_groups_are_listed_as_kafka_listed_them(host: Host) -> None:
    ours = {each.group_id: (each.group_type, each.protocol_type, each.group_state) for each in host.list_groups()}
    theirs = {
        each["group_id"]: (each["group_type"], each["protocol_type"], each["group_state"]) for each in KAFKA["groups"]
    }
    theirs["downgrading"] = ("classic", "consumer", "Stable")  # a rebalance that was going on is forgotten
    assert ours == theirs


@pytest.mark.parametrize("group_id", sorted(KAFKA["consumer"]))
def test_a_consumer_group_is_described_as_kafka_described_it(host: Host, group_id: str) -> None:
    theirs, ours = KAFKA["consumer"][group_id], Group(host, group_id).describe()
    for field in ("error_code", "group_state", "group_epoch", "assignment_epoch", "assignor_name"):
        assert getattr(ours, field) == theirs[field], field
    shown = {each.member_id: each for each in ours.members}
    assert set(shown) == {each["member_id"] for each in theirs["members"]}
    for member in theirs["members"]:
        ours_of = shown[member["member_id"]]
        for field in ("instance_id", "rack_id", "member_epoch", "client_id", "client_host", "member_type"):
            assert getattr(ours_of, field) == member[field], field
        assert (ours_of.subscribed_topic_regex or "") == (member["subscribed_topic_regex"] or "")
        assert sorted(ours_of.subscribed_topic_names) == sorted(member["subscribed_topic_names"])
        for field in ("assignment", "target_assignment"):
            assert {
                topic.topic_name: sorted(topic.partitions) for topic in getattr(ours_of, field).topic_partitions
            } == {topic["topic_name"]: sorted(topic["partitions"]) for topic in member[field]["topic_partitions"]}


@pytest.mark.parametrize("group_id", sorted(KAFKA["classic"]))
def test_a_group_that_was_downgraded_is_described_as_kafka_described_it(host: Host, group_id: str) -> None:
    theirs, ours = KAFKA["classic"][group_id], host.describe(group_id)
    assert (ours.protocol_type, ours.error_code) == (theirs["protocol_type"], 0)
    shown = {each.member_id: each for each in ours.members}
    assert set(shown) == {each["member_id"] for each in theirs["members"]}
    for member in theirs["members"]:
        ours_of = shown[member["member_id"]]
        assert ours_of.group_instance_id == member["group_instance_id"]
        assert (ours_of.client_id, ours_of.client_host) == (member["client_id"], member["client_host"])
        assert ours_of.member_assignment == urlsafe_b64decode(member["member_assignment"] + "==")


def test_all_offsets_are_those_that_kafka_answered(host: Host) -> None:
    for group_id, theirs in KAFKA["offsets"].items():
        ours = fetched(send_fetch(host, group_id))
        assert {
            place: (each.committed_offset, each.committed_leader_epoch, each.metadata) for place, each in ours.items()
        } == {
            (topic["name"], row["partition_index"]): (
                row["committed_offset"],
                row["committed_leader_epoch"],
                row["metadata"],
            )
            for topic in theirs
            for row in topic["partitions"]
        }, group_id


@pytest.mark.parametrize("group_id", sorted(set(KAFKA["consumer"]) - MOVING - AWAY))
def test_members_of_a_group_at_rest_carry_on_as_if_nothing_had_happened(host: Host, group_id: str) -> None:
    """The hash of their topics is the one that Kafka wrote: otherwise the epoch would be bumped."""
    group = Group(host, group_id)
    before = group.describe()
    for member in before.members:
        epoch, owned = member.member_epoch, owned_by(member)
        if member.member_type == 1:
            assert group.beat(member.member_id, epoch, owned, instance_id=member.instance_id) == Answer(epoch, None)
        else:
            assert as_classic(host, group, member.member_id).heartbeat() is NONE
    after = group.describe()
    assert (after.group_state, after.group_epoch, after.assignment_epoch) == (
        before.group_state,
        before.group_epoch,
        before.assignment_epoch,
    )


@pytest.mark.parametrize("group_id", sorted(KAFKA["consumer"]))
def test_members_come_to_rest_and_share_all_partitions(host: Host, group_id: str) -> None:
    group = Group(host, group_id)
    for member in group.describe().members:
        if member.member_epoch == -2:
            back = group.join(f"{member.member_id}-back", member.subscribed_topic_names, instance_id=member.instance_id)
            assert isinstance(back, Answer)
    owned = {member_id: told(host, member) for member_id, member in group.object.members.items()}
    for _ in range(10):
        host.advance(1_000)
        for member_id in list(group.object.members):
            owned[member_id] = take_part(host, group, member_id, owned[member_id])
    described = group.describe()
    assert described.group_state in ("Stable", "Empty")
    deleted = group_id == "topic-deleted"  # since the last heartbeat
    assert described.group_epoch == KAFKA["consumer"][group_id]["group_epoch"] + deleted
    wanted = {name for name in host.topics.names() if group.object.subscriptions.includes(name)}
    held = sorted((topic, each) for mine in owned.values() for topic in mine for each in mine[topic])
    assert held == sorted((topic, each) for topic in wanted for each in range(host.topics.partition_count(topic)))


def owned_by(member: Any) -> dict[str, list[int]]:
    return {topic.topic_name: list(topic.partitions) for topic in member.assignment.topic_partitions}


def told(host: Host, member: ConsumerMember) -> dict[str, list[int]]:
    """What a member that does what it is told owns: it has given up what it was to give up."""
    return {
        name: list(owned)
        for topic_id, owned in member.assigned.items()
        if (name := host.topics.name_of(topic_id)) is not None
    }


def as_classic(host: Host, group: Group, member_id: str, owned: dict[str, list[int]] | None = None) -> Member:
    known = group.object.members[member_id]
    assert known.classic is not None
    member = Member(host, group.group_id, known.client_id, instance_id=known.instance_id)
    topics = [TopicPartition(topic, partitions) for topic, partitions in (owned or {}).items()]
    subscription = ConsumerProtocolSubscription(list(known.topic_names), None, topics, known.epoch)
    member.protocols = [(name, pack_subscription(subscription)) for name, _ in known.classic.protocols]
    member.member_id, member.generation = member_id, known.epoch
    return member


def take_part(host: Host, group: Group, member_id: str, owned: dict[str, list[int]]) -> dict[str, list[int]]:
    """A heartbeat of the member, and whatever it is asked for then. Returns what it owns."""
    known = group.object.members[member_id]
    if known.classic is None:
        answer = group.beat(member_id, known.epoch, owned, instance_id=known.instance_id)
        assert isinstance(answer, Answer), (member_id, answer)
        return owned if answer.assignment is None else answer.assignment
    member = as_classic(host, group, member_id, owned)
    if member.heartbeat() is NONE:
        return owned
    assert member.join().error is NONE
    return partitions_of(member.sync().answer.assignment)


def test_members_of_groups_that_were_downgraded_carry_on(host: Host) -> None:
    for group_id in KAFKA["classic"]:
        group = host.classic(group_id)
        for member_id, known in list(group.members.items()):
            member = Member(host, group_id, instance_id=known.instance_id)
            member.member_id, member.generation = member_id, group.generation
            assert member.heartbeat() is NONE
            assert member.commit({("orders", 1): 77}) is NONE
        assert not isinstance(host.state_of(group_id).groups[group_id], ConsumerGroup)


def test_a_group_that_was_deleted_is_gone(host: Host) -> None:
    assert Group(host, "deleted").beat("first", 1) == ErrorCode.GROUP_ID_NOT_FOUND
