"""Requests of all kinds with random fields, right and wrong, to two groups that change their protocol all the time.

The simulated world (docs/simulation.md) has clients that behave. Here nobody does. Whatever is sent, nothing may raise,
nothing may be written that the log would refuse, and the log must hold the groups that are in memory.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from kohort.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kohort.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kohort.protocol.messages.delete_groups import DeleteGroupsRequest
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kohort.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kohort.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.coordinator.support import FakeTopics, Host
from tests.group_requests import assignment_bytes, full_subscription
from tests.simulation.consumer_world import in_small_steps
from tests.simulation.world import consumer_groups, hard_consumer

SEEDS, STEPS = 24, 250
GROUPS = ("g", "g", "g", "other")
TOPICS = ("orders", "payments", "empty", "nowhere")
MEMBER_IDS = ("", "a", "b", "c", "Ü", "x" * 300)
PARTITIONS = (0, 1, 2, 3, 99, -1)
FIRST_WITH_INSTANCE = {"join": 5, "sync": 3, "heartbeat": 3}


class Chaos:
    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        settings: dict[str, Any] = {
            "consumer_migration_policy": random.choice(("bidirectional", "bidirectional", "upgrade", "downgrade")),
            "max_message_bytes": random.choice((1_048_588, 1_048_588, 700, 1_500, 4_000)),
            "consumer_max_size": random.choice((1_000, 1_000, 1, 2, 3)),
            "max_size": random.choice((1_000, 1_000, 1, 2, 3)),
        }
        self.host = Host(seed=seed, topics=FakeTopics(orders=4, payments=2, empty=1), **settings)

    def step(self) -> None:
        group_id, kind = self.random.choice(GROUPS), self.random.random()
        if kind < 0.45:
            self._consumer_heartbeat(group_id)
        elif kind < 0.65:
            self._join(group_id)
        elif kind < 0.8:
            self._sync(group_id)
        elif kind < 0.85:
            version = self.random.randint(0, 4)
            instance_id = self._instance(version, "heartbeat")
            self.host.send(
                HeartbeatRequest(group_id, self._epoch(group_id), self._member(group_id), instance_id), version
            )
        elif kind < 0.89:
            leaving = [MemberIdentity(self._member(group_id), self._instance(3, "sync"), None) for _ in range(2)]
            self.host.send(LeaveGroupRequest(group_id, "", leaving), self.random.choice((3, 4, 5)))
        elif kind < 0.92:
            self.host.send(ConsumerGroupDescribeRequest([group_id]), 1)
        elif kind < 0.93:
            self.host.send(DeleteGroupsRequest([group_id]), 2)
        elif kind < 0.95:
            self._change_topics()
        elif kind < 0.99:
            self.host.advance(self.random.choice((10, 1_000, 5_000, 11_000, 46_000)))
        else:
            self._restart()
        assert self.host.disk.too_large == []

    # --- requests

    def _consumer_heartbeat(self, group_id: str) -> None:
        choose, version = self.random.choice, self.random.choice((0, 1, 1))
        request = ConsumerGroupHeartbeatRequest(group_id, self._member(group_id), self._epoch(group_id))
        request.instance_id = self._instance(9, "join")
        request.rack_id = choose((None, None, None, "r1", "r2"))
        request.rebalance_timeout_ms = choose((-1, -1, 0, 1_000, 60_000, -5, 2**31 - 1))
        names: tuple[list[str] | None, ...] = (
            None,
            None,
            ["orders"],
            ["orders", "payments"],
            [],
            ["nowhere"],
            ["orders", "orders"],
            [""],
        )
        request.subscribed_topic_names = choose(names)
        regex = choose((None, None, None, "", "ord.*", ".*", "(", "pay.*|empty"))
        request.subscribed_topic_regex = regex if version else None
        request.server_assignor = choose((None, None, None, "uniform", "range", "what"))
        request.topic_partitions = choose((None, [], [], self._owned(), [TopicPartitions(b"\7" * 16, [0])]))
        self.host.send(request, version)

    def _join(self, group_id: str) -> None:
        version = self.random.randint(0, 9)
        names = self.random.sample(("range", "sticky", "x"), self.random.randint(1, 2))
        protocols = [JoinGroupRequestProtocol(name, self._subscription()) for name in names]
        kind = self.random.choice(("consumer", "consumer", "consumer", "other", ""))
        timeout_ms = self.random.choice((-1, 100, 1_000, 60_000)) if version else -1
        member_id, instance_id = self._member(group_id), self._instance(version, "join")
        self.host.send(JoinGroupRequest(group_id, 10_000, timeout_ms, member_id, instance_id, kind, protocols), version)

    def _sync(self, group_id: str) -> None:
        version = self.random.randint(0, 5)
        assignments = [
            SyncGroupRequestAssignment(self._member(group_id), self._assignment())
            for _ in range(self.random.randint(0, 3))
        ]
        member_id, instance_id = self._member(group_id), self._instance(version, "sync")
        request = SyncGroupRequest(
            group_id, self._epoch(group_id), member_id, instance_id, "consumer", "range", assignments
        )
        self.host.send(request, version)

    # --- their fields

    def _member(self, group_id: str) -> str:
        group: Any = self.host.state_of(group_id).groups.get(group_id)
        known: list[str] = list(group.members) if group is not None else []
        return self.random.choice((*MEMBER_IDS, *3 * known))

    def _epoch(self, group_id: str) -> int:
        group: Any = self.host.state_of(group_id).groups.get(group_id)
        members = group.members.values() if group is not None else ()
        known = [getattr(each, "epoch", group.generation if hasattr(group, "generation") else 0) for each in members]
        return self.random.choice((0, 0, 0, -1, -2, 1, 2, 3, -3, 2**31 - 1, *3 * known))

    def _instance(self, version: int, kind: str) -> str | None:
        chosen = self.random.choice((None, None, None, "one", "two"))
        return chosen if version >= FIRST_WITH_INSTANCE[kind] else None

    def _partitions(self) -> list[int]:
        return [self.random.choice(PARTITIONS) for _ in range(self.random.randint(0, 4))]

    def _owned(self) -> list[TopicPartitions]:
        return [TopicPartitions(self.host.topics.topic_id("orders") or b"\1" * 16, self._partitions())]

    def _subscription(self) -> bytes:
        random = self.random
        topics = random.sample((*TOPICS, ""), random.randint(0, 3))
        owned = {topic: self._partitions() for topic in topics}
        said = full_subscription(
            topics, owned, random.choice((-1, 0, 3)), random.randint(0, 3), random.choice((None, "r"))
        )
        kind = random.random()
        if kind < 0.7:
            return said
        return random.randbytes(random.randint(0, 12)) if kind < 0.85 else said[: random.randint(0, len(said))]

    def _assignment(self) -> bytes:
        if self.random.random() < 0.2:
            return self.random.randbytes(self.random.randint(0, 9))
        topics = self.random.sample(TOPICS, self.random.randint(0, 2))
        return assignment_bytes({topic: self._partitions() for topic in topics})

    # --- what else happens

    def _change_topics(self) -> None:
        topics, name = self.host.topics, self.random.choice(TOPICS)
        if topics.topic_id(name) is None:
            topics.create(name, self.random.randint(1, 5))
        elif self.random.random() < 0.5:
            topics.grow(name, topics.partition_count(name) + 1)
        else:
            self.host.delete_topic(name)

    def _restart(self) -> None:
        before = self._consumer_groups()
        self.host.crash()
        after = self._consumer_groups()
        # A large group of classic members alone is converted after a start: see ConsumerGroup.on_loaded.
        assert {group_id: before[group_id] for group_id in after} == after

    def _consumer_groups(self) -> dict[str, Any]:
        states = [shard.state for shard in self.host.runtime.shards]
        return {group.group_id: hard_consumer(group) for state in states for group in consumer_groups(state)}


@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_that_is_sent_breaks_a_group(seed: int) -> None:
    chaos = Chaos(seed)
    with in_small_steps(seed % 2 == 1):
        for _ in range(STEPS):
            chaos.step()
