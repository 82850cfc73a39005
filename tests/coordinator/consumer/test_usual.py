"""Usual heartbeats are decided in a shorter way. Random groups, played in both ways, have the same answers and logs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest

from kohort.coordinator import membership
from kohort.coordinator.consumer.usual import usual_answer
from kohort.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from tests.coordinator.consumer.test_changes import state_of
from tests.coordinator.consumer.words import Group
from tests.coordinator.support import FakeTopics, Host

STEPS = 150
OTHER_OBJECTS = {"sessions", "rebalance_timeouts", "rebalance", "orders"}  # of the two hosts: not equal, only alike
ORDERS = ["orders"]
SUBSCRIPTIONS: tuple[list[str], ...] = (
    ORDERS,
    ORDERS,
    ORDERS,
    ["orders", "payments"],
    ["payments", "orders", "orders"],
    ["new"],
    [],
)


class Pair:
    """A group on two hosts: on one of them nothing is usual."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        settings: dict[str, Any] = {
            "audit_headers": random.random() < 0.8,
            "consumer_max_size": random.choice([5, 1_000]),
            "max_message_bytes": random.choice([250, 300, 400, 1_000_000, 1_000_000]),
        }
        self.quick, self.slow = (Group(Host(topics=FakeTopics(orders=12, payments=3), **settings)) for _ in range(2))
        self.made = 0
        self.epochs: dict[str, int] = {}
        self.has: dict[str, list[TopicPartitions]] = {}

    def both(self, request: ConsumerGroupHeartbeatRequest, client_id: str = "client") -> Any:
        answer = self.quick.host.send(request, 1, client_id).answer
        with everything_is_unusual():
            assert self.slow.host.send(request, 1, client_id).answer == answer, request
        return answer

    def join(self) -> None:
        random = self.random
        self.made += random.random() < 0.8
        request = ConsumerGroupHeartbeatRequest("billing", f"m{self.made}", 0)
        request.rebalance_timeout_ms = random.choice([60_000, 5_000])
        request.subscribed_topic_names, request.topic_partitions = random.choice(SUBSCRIPTIONS), []
        request.subscribed_topic_regex = random.choice([None] * 20 + ["", "pay.*"])
        request.instance_id = random.choice([None] * 9 + ["one"])
        request.rack_id = random.choice([None, "rack"])
        request.server_assignor = random.choice([None] * 20 + ["range"])
        self.take(request.member_id, self.both(request, random.choice(["client", "other"])))

    def beat(self) -> None:
        if not self.epochs:
            return
        random = self.random
        member_id = random.choice(list(self.epochs))
        request = ConsumerGroupHeartbeatRequest("billing", member_id, self.epochs[member_id])
        request.rebalance_timeout_ms = -1
        request.subscribed_topic_names = request.subscribed_topic_regex = request.topic_partitions = None
        what = random.random()
        if what < 0.4:
            request.topic_partitions = self.has.get(member_id, [])
        elif what < 0.45:
            request.subscribed_topic_names = random.choice(SUBSCRIPTIONS)
        elif what < 0.48:
            request.member_epoch += random.choice([-1, 1])
            request.topic_partitions = []
        elif what < 0.52:
            request.member_epoch = random.choice([-1, -1, -2])
        self.take(member_id, self.both(request))

    def take(self, member_id: str, answer: Any) -> None:
        if answer.error_code or answer.member_epoch < 0:
            self.epochs.pop(member_id, None)
            self.has.pop(member_id, None)
            return
        self.epochs[member_id] = answer.member_epoch
        if answer.assignment is not None:
            self.has[member_id] = list(answer.assignment.topic_partitions)

    def wait(self) -> None:
        ms = self.random.choice([1, 500, 1_000, 1_000, 6_000, 40_000])
        for group in (self.quick, self.slow):
            group.host.advance(ms)

    def change_topics(self) -> None:
        what = self.random.random()
        for group in (self.quick, self.slow):
            topics = group.host.topics
            if what < 0.3 and topics.topic_id("new") is None:
                topics.create("new", 2)
            elif what < 0.6:
                topics.grow("orders", topics.partition_count("orders") + 1)
            elif topics.topic_id("new") is not None:
                topics.delete("new")

    def play(self) -> None:
        steps = [self.join] * 4 + [self.beat] * 20 + [self.wait] * 3
        for _ in range(STEPS):
            (self.change_topics if self.random.random() < 0.01 else self.random.choice(steps))()
        quick, slow = self.quick.host, self.slow.host
        assert quick.disk.batches == slow.disk.batches
        assert quick.events == slow.events
        assert list(quick.runtime.shard_of("billing").state.purgatory.deadlines()) == list(
            slow.runtime.shard_of("billing").state.purgatory.deadlines()
        )
        if "billing" in quick.state_of("billing").groups:
            known, other = (state_of(group.object) for group in (self.quick, self.slow))
            alike = known.keys() - OTHER_OBJECTS
            assert {name: known[name] for name in alike} == {name: other[name] for name in alike}


@contextmanager
def everything_is_unusual() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(membership, "usual_answer", lambda *_: None)
        yield


@pytest.mark.parametrize("first", range(0, 100, 10))
def test_random_groups_are_the_same_if_nothing_counts_as_usual(first: int) -> None:
    for seed in range(first, first + 10):
        Pair(seed).play()


def test_most_heartbeats_of_a_group_that_converges_are_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the test above compares nothing, and the benchmark shows it."""
    found: Counter[bool] = Counter()

    def counting(*how: Any) -> Any:
        answer = usual_answer(*how)
        found[answer is not None] += 1
        return answer

    monkeypatch.setattr(membership, "usual_answer", counting)
    group = Group(Host(topics=FakeTopics(orders=12)))
    for number in range(6):
        group.join(f"m{number}")
    group.host.advance(1_000)
    for _ in range(4):
        for number in range(6):
            member = group.object.members[f"m{number}"]
            owned = [each for has in member.assigned.values() for each in has]
            group.beat(member.member_id, member.epoch, {"orders": owned})
    assert group.state == "Stable"
    # The first member makes the group, and another heartbeat computes the target. Six are like the one before.
    assert found == {True: 22, False: 1}
