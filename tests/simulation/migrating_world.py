"""Groups that migrate: processes start again with the other protocol, and a group becomes a consumer group or a classic
one while its members go on (group.consumer.migration.policy).

Everything that must hold of consumer groups holds of these, whatever they are at the moment (consumer_world.py). Nobody
holds a partition twice also while a group is a classic one, and the batch that converts a group of members does not
lower its epoch.
"""

from __future__ import annotations

from random import Random
from typing import Any

from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.state import STABLE
from kohort.coordinator.config import ConsumerGroupSettings
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.shard import Status
from kohort.coordinator.shard_state import ShardState
from tests.coordinator.support import FakeTopics, Host
from tests.simulation.classic_world import check_group as check_classic_group
from tests.simulation.consumer_checks import held
from tests.simulation.consumer_client import TOPICS
from tests.simulation.consumer_world import GROUPS, MAX_PARTITIONS, ConsumerWorld
from tests.simulation.migrating_client import COOPERATIVE, EAGER, Migrant
from tests.simulation.world import Chances, consumer_groups, hard_consumer

NOT_STABLE = -1
POLICIES = ("bidirectional",) * 5 + ("upgrade", "downgrade", "disabled")


class MigratingWorld(ConsumerWorld):
    processes_take_over = True
    calm_ms = 400_000  # members of a classic group may have to wait for each other several times

    def _new_host(self, seed: int, random: Random, settings: ConsumerGroupSettings) -> Host:
        self.tide = random.choice((0.0, 0.5, 1.0))  # how many of those that start speak the classic protocol
        self.protocols = {group_id: random.choice((EAGER, COOPERATIVE)) for group_id in GROUPS}
        self.conversions = 0
        self._generations: dict[str, int] = {}  # of classic groups, after the last event
        self._kinds: dict[str, type[Any]] = {}
        return Host(
            seed=seed, partition_count=2, topics=FakeTopics(orders=6, payments=3), consumer=settings,
            consumer_migration_policy=random.choice(POLICIES), initial_rebalance_delay_ms=random.choice((0, 500)),
        )  # fmt: skip

    def _client(self, n: int) -> Migrant:
        return Migrant(self, f"c{n}", GROUPS[n % len(GROUPS)], f"desk{n}" if self.random.random() < 0.4 else None)

    def chances(self) -> Chances:
        return [*super().chances(), (0.005, self.tide_turns)]

    def tide_turns(self) -> None:
        self.tide = self.random.choice((0.0, 0.2, 0.8, 1.0))
        self.tell(f"{self.tide} of those that start speak the classic protocol")

    def topics_change(self) -> None:
        """None is deleted: classic members know topics by name, and could not tell a new one from the old."""
        topics, name = self.host.topics, self.random.choice(TOPICS)
        count = topics.partition_count(name)
        if count == 0:
            topics.create(name, self.random.randint(1, 4))
        elif count < MAX_PARTITIONS:
            topics.grow(name, count + 1)
        self.tell(f"{name} has {topics.partition_count(name)} partitions")

    def durable(self, state: ShardState) -> Any:
        """A classic group is only in the log what its last complete generation was."""
        return sorted((group.group_id, hard_consumer(group)) for group in consumer_groups(state))

    def check(self) -> None:
        self._look_for_strays()
        super().check()
        for shard in self.host.runtime.shards:
            if shard.status is Status.ACTIVE:
                for group in shard.state.groups.values():
                    if isinstance(group, ClassicGroup):
                        check_classic_group(shard, group)
                    if group.member_count and self._kinds.get(group.group_id) is not type(group):
                        self.conversions += group.group_id in self._kinds
                        self._kinds[group.group_id] = type(group)

    def _look_for_strays(self) -> None:
        """Members of a classic group may have partitions that nobody knows of; they learn that from their next answer.

        A join phase forgets assignments, as in Kafka, and the group may be converted before there are new ones. And
        a static member stays a member even if it does not join again, with what it had before.
        """
        for group_id in GROUPS:
            group = self.host.state_of(group_id).groups.get(group_id)
            generation = self._generations.pop(group_id, None)
            if isinstance(group, ClassicGroup):
                self._generations[group_id] = group.generation if group.state is STABLE else NOT_STABLE
            elif isinstance(group, ConsumerGroup) and generation is not None:
                for client in self.clients:
                    member = group.members.get(client.member_id) if client.group_id == group_id else None
                    if member is not None and client.epoch != generation:
                        client.is_stray |= not client.holds <= held(member)

    def calm_down(self) -> None:
        """All processes start once more: with the one protocol, the other, or some of each.

        Where groups may not become classic ones again, classic members alone would never get a new target in a consumer
        group: as with Kafka, they do not ask for one as long as they have what their last target says.
        """
        self.tide = self.random.choice((0.0, 0.5, 1.0)) if self.host.config.downgrades_groups else 0.0
        for client in self.clients:
            client.start()
        super().calm_down()

    def _unrest_of(self, group_id: str) -> str | None:
        group = self.host.state_of(group_id).groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return super()._unrest_of(group_id)
        assert group is None or isinstance(group, ClassicGroup)
        if group is None or group.state_name != "Stable":
            return "no group" if group is None else f"classic, {group.state_name}"
        return self._unrest_of_clients(group_id, dict.fromkeys(group.members))
