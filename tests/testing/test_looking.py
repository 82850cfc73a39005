"""What a test sees of groups, commits, requests and records."""

from __future__ import annotations

import pytest
from aiokafka import AIOKafkaConsumer

from kohort.testing import Broker
from kohort.testing.names import UnknownName
from kohort.testing.topic import UnknownTopic
from tests.testing.workers import ConfluentWorker, working

PROTOCOLS = ("classic", "consumer")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_tells_its_members_and_who_owns_what(kafka: Broker, protocol: str) -> None:
    with working(*(ConfluentWorker(kafka, f"worker-{number}", group_protocol=protocol) for number in range(2))):
        group = kafka.group("billing").wait_until("Stable", members=2)
        assert group.type == protocol
        assert {each.client_id for each in group.members} == {"worker-0", "worker-1"}
        assert {each.host for each in group.members} == {"127.0.0.1"}
        assert set(group.owners) == {("orders", number) for number in range(4)}
        assert sorted(len(each.assignment) for each in group.members) == [2, 2]
        assert [each.group_id for each in kafka.groups] == ["billing"]
    group.wait_until("Empty")
    assert group.members == []
    assert all(each.cause for each in group.rebalances)
    assert {each.group for each in group.rebalances} == {"billing"}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_tells_its_commits_and_its_lag(kafka: Broker, protocol: str) -> None:
    kafka.produce("orders", b"1", b"2", b"3", partition=1)
    worker = ConfluentWorker(kafka, "worker", group_protocol=protocol)
    with working(worker):
        group = kafka.group("billing").wait_until("Stable", members=1)
        worker.commit(2, partition=1)
        assert group.committed == {("orders", 1): 2}
        assert group.lag == {("orders", 1): 1}
        (commit,) = kafka.commits("billing")
        (member,) = group.members
        assert (commit.topic, commit.partition, commit.offset) == ("orders", 1, 2)
        assert (commit.member_id, commit.generation) == (member.member_id, group.generation)
        assert kafka.commits("other") == []


def test_a_group_that_does_not_exist_is_dead(kafka: Broker) -> None:
    group = kafka.group("nobody")
    assert (group.state, group.type, group.members, group.committed, group.rebalances) == ("Dead", None, [], {}, [])


def test_waiting_in_vain_says_what_was_seen(kafka: Broker) -> None:
    with working(ConfluentWorker(kafka, "worker-0")):
        kafka.group("billing").wait_until("Stable", members=1)
        with pytest.raises(TimeoutError) as raised:
            kafka.group("billing").wait_until("Stable", members=2, timeout=0.01)
    told = str(raised.value)
    assert "did not reach state='Stable', members=2 in 0.01 s" in told
    assert "Stable, generation 1, with 1 members" in told
    assert "worker-0" in told
    assert "orders-3" in told


def test_waiting_for_a_state_that_kafka_does_not_have_is_refused(kafka: Broker) -> None:
    with pytest.raises(UnknownName, match="did you mean Stable"):
        kafka.group("billing").wait_until("stable")


def test_requests_are_told_with_their_errors(kafka: Broker) -> None:
    with working(ConfluentWorker(kafka, "worker-0")):
        kafka.group("billing").wait_until("Stable", members=1)
    first, second = kafka.requests("JoinGroup", client_id="worker-0")
    assert (first.errors, second.errors) == (("MEMBER_ID_REQUIRED",), ())
    assert (second.group, second.topics) == ("billing", ())
    assert second.member_id is not None
    assert kafka.requests("JoinGroup", client_id="worker-1") == []
    with pytest.raises(UnknownName, match="did you mean JoinGroup"):
        kafka.requests("joingroup")


def test_a_topic_that_does_not_exist_is_refused_with_the_one_that_was_meant(kafka: Broker) -> None:
    with pytest.raises(UnknownTopic, match="did you mean orders"):
        kafka.topic("order").records()


async def test_a_group_of_aiokafka_looks_the_same() -> None:
    async with Broker() as kafka:
        kafka.create_topic("orders", partitions=2)
        async with AIOKafkaConsumer(
            "orders", bootstrap_servers=kafka.bootstrap_servers, group_id="billing", client_id="worker"
        ) as consumer:
            group = await kafka.group("billing").wait_until_async("Stable", members=1)
            assert {each.client_id for each in group.members} == {"worker"}
            await consumer.commit(dict.fromkeys(consumer.assignment(), 0))
            assert group.committed == {("orders", 0): 0, ("orders", 1): 0}
