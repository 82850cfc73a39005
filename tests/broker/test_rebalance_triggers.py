"""Everything that makes a group rebalance, with real consumers, and what the broker's log says about it.

Consumers of confluent-kafka are processes, and the test polls them in turn.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic  # type: ignore[attr-defined]

from tests.clients import group_programs as programs
from tests.clients.group_broker import GroupBroker, Rebalance
from tests.clients.remote_consumer import ConsumerFailed, Place, RemoteConsumer

PARTITIONS = 4
DEADLINE_S = 120.0  # for a busy machine; nothing is measured by it
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GroupBroker]:
    folder = tmp_path_factory.mktemp("triggers")
    with GroupBroker(folder, group_initial_rebalance_delay_ms="0") as broker:
        yield broker


def create(broker: GroupBroker, *topics: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.address})
    for done in admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in topics]).values():
        done.result(DEADLINE_S)


class Members:
    """Consumers of one group, polled in turn. What they own is what they were told."""

    def __init__(self, broker: GroupBroker, group: str) -> None:
        self.broker = broker
        self.group = group
        self.consumers: list[RemoteConsumer] = []
        self.told = 0  # rebalances that were looked at

    def join(self, *topics: str, **settings: Any) -> RemoteConsumer:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        consumer = RemoteConsumer(
            {
                "bootstrap.servers": self.broker.address,
                "client.id": f"{self.group}-{len(self.consumers)}",
                "group.id": self.group,
                "session.timeout.ms": 6000,
                "heartbeat.interval.ms": 300,
                "topic.metadata.refresh.interval.ms": 300,
                "log_level": 0,
                **named,
            },
            topics,
        )
        self.consumers.append(consumer)
        return consumer

    def until_each_owns_its_share(self, places: set[tuple[str, int]]) -> list[Rebalance]:
        """Poll until the consumers own exactly these, each at least one. The rebalances that were told since."""

        def shared() -> bool:
            owned = [consumer.assignment() for consumer in self.consumers]
            together = [place for each in owned for place in each]
            return all(owned) and sorted(together) == sorted(places)

        return self.until(shared)

    def until(self, condition: Callable[[], bool]) -> list[Rebalance]:
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < deadline, self.broker.rebalances(self.group)
            for consumer in self.consumers:
                consumer.poll(0.02)
        rebalances = self.broker.rebalances(self.group)
        news = rebalances[self.told :]
        self.told = len(rebalances)
        return news

    def kill(self) -> None:
        for consumer in self.consumers:
            consumer.kill()


@pytest.fixture
def members(broker: GroupBroker, request: pytest.FixtureRequest) -> Iterator[Members]:
    members = Members(broker, request.node.name)
    yield members
    members.kill()


@contextmanager
def member_process(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A member that has been assigned something; killed at the end."""
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert b"assigned" in process.stdout.readline()
            yield process
        finally:
            process.kill()


def partitions(*topics: str, count: int = PARTITIONS) -> set[tuple[str, int]]:
    return {(topic, partition) for topic in topics for partition in range(count)}


def test_a_member_joins(broker: GroupBroker, members: Members) -> None:
    create(broker, "joins")
    members.join("joins")
    first, *_ = members.until_each_owns_its_share(partitions("joins"))
    assert (first.generation, first.cause) == (1, "member joined")
    members.join("joins")
    second, *_ = members.until_each_owns_its_share(partitions("joins"))
    assert (second.generation, second.cause) == (2, "member joined")
    assert second.trigger.startswith(f"{members.group}-1-")


def test_a_member_leaves(broker: GroupBroker, members: Members) -> None:
    create(broker, "leaves")
    members.join("leaves")
    leaving = members.join("leaves")
    members.until_each_owns_its_share(partitions("leaves"))
    members.consumers.remove(leaving)
    leaving.close()
    rebalance, *_ = members.until_each_owns_its_share(partitions("leaves"))
    assert rebalance.cause.startswith("member left")
    assert rebalance.trigger.startswith(f"{members.group}-1-")


def test_a_member_crashes(broker: GroupBroker, members: Members) -> None:
    create(broker, "crashes")
    arguments = [broker.address, "crashes", "6000", f"{members.group}=range"]
    command = [sys.executable, "-m", "tests.clients.group_member_confluent", *arguments]
    with member_process(command):
        members.join("crashes")
        members.until(lambda: len(members.consumers[0].assignment()) == PARTITIONS // 2)
    rebalance, *_ = members.until_each_owns_its_share(partitions("crashes"))
    assert rebalance.cause == "session expired"
    assert rebalance.trigger.startswith("confluent-")


def test_a_member_polls_too_slowly(broker: GroupBroker, members: Members) -> None:
    """librdkafka then leaves by itself, heartbeats or not."""
    create(broker, "slow")
    slow = members.join("slow", max_poll_interval_ms=6000)
    members.join("slow")
    members.until_each_owns_its_share(partitions("slow"))
    members.consumers.remove(slow)  # from now on nobody polls it
    rebalance, *_ = members.until_each_owns_its_share(partitions("slow"))
    assert rebalance.cause.startswith("member left")
    assert rebalance.trigger.startswith(f"{members.group}-0-")
    slow.kill()


@pytest.mark.kafka
def test_a_java_member_polls_too_slowly(broker: GroupBroker, members: Members) -> None:
    """Newer clients say why they leave."""
    create(broker, "numbers")
    java, *arguments = programs.java(broker.address, [f"{members.group}=range"])
    with member_process([java, "-Dkafka.max.poll.interval.ms=6000", *arguments]) as slow:
        members.join("numbers")
        members.until(lambda: len(members.consumers[0].assignment()) == PARTITIONS // 2)
        assert slow.stdin is not None
        slow.stdin.write(b"stall\n")
        slow.stdin.flush()
        rebalance, *_ = members.until_each_owns_its_share(partitions("numbers"))
    assert rebalance.cause == "member left: consumer poll timeout has expired."
    assert rebalance.trigger.startswith("java-")


def test_a_subscription_changes(broker: GroupBroker, members: Members) -> None:
    create(broker, "subscribed", "also-subscribed")
    members.join("subscribed")
    changing = members.join("subscribed")
    members.until_each_owns_its_share(partitions("subscribed"))
    changing.subscribe(["subscribed", "also-subscribed"])
    rebalances = members.until_each_owns_its_share(partitions("subscribed", "also-subscribed"))
    assert rebalances[0].cause == "metadata changed"
    assert rebalances[0].trigger.startswith(f"{members.group}-1-")


def test_a_pattern_matches_a_new_topic(broker: GroupBroker, members: Members) -> None:
    create(broker, "regex-a")
    members.join("^regex-.*")
    members.join("^regex-.*")
    members.until_each_owns_its_share(partitions("regex-a"))
    create(broker, "regex-b")
    rebalances = members.until_each_owns_its_share(partitions("regex-a", "regex-b"))
    assert rebalances[0].cause == "metadata changed"


def test_partitions_are_added(broker: GroupBroker, members: Members) -> None:
    create(broker, "grows")
    members.join("grows")
    members.until_each_owns_its_share(partitions("grows"))  # alone first: so this one leads
    members.join("grows")
    members.until_each_owns_its_share(partitions("grows"))
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_partitions([NewPartitions("grows", PARTITIONS * 2)])["grows"].result(DEADLINE_S)
    rebalances = members.until_each_owns_its_share(partitions("grows", count=PARTITIONS * 2))
    assert rebalances[0].cause == "leader rejoined"  # it alone looks at partitions
    assert rebalances[0].trigger.startswith(f"{members.group}-0-")


@pytest.mark.parametrize("end", ["restart", "kill"])
def test_a_broker_that_comes_back_is_no_reason(broker: GroupBroker, members: Members, end: str) -> None:
    """Members that are heard from within their session go on: their commits carry the generation that they had."""
    create(broker, end)
    members.join(end, session_timeout_ms=60_000, reconnect_backoff_max_ms=300)
    members.join(end, session_timeout_ms=60_000, reconnect_backoff_max_ms=300)
    members.until_each_owns_its_share(partitions(end))
    before = broker.describe(members.group), broker.rebalances(members.group)
    if end == "restart":
        broker.restart()
    else:
        broker.kill()
        broker.start_again()
    for consumer in members.consumers:
        owned = dict.fromkeys(consumer.assignment(), 7)
        members.until(lambda consumer=consumer, owned=owned: commits(consumer, owned))  # type: ignore[misc]
    assert broker.committed(members.group) == dict.fromkeys(partitions(end), 7)
    assert (broker.describe(members.group), broker.rebalances(members.group)) == before


def commits(consumer: RemoteConsumer, offsets: dict[Place, int]) -> bool:
    """Whether the broker has taken them; not if it is away."""
    try:
        consumer.commit(offsets)
    except ConsumerFailed as problem:
        if problem.code in (KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID):
            raise
        return False
    return True
