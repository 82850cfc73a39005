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
from kohort.coordinator.group import Group
from kohort.coordinator.shard import Shard, Status
from kohort.coordinator.shard_state import ShardState
from tests.coordinator.support import FakeTopics, Host
from tests.simulation.classic_world import check_group as check_classic_group
from tests.simulation.consumer_checks import held
from tests.simulation.consumer_client import TOPICS
from tests.simulation.consumer_world import GROUPS, MAX_PARTITIONS, ConsumerWorld
from tests.simulation.migrating_client import COOPERATIVE, EAGER, Migrant
from tests.simulation.world import Chances, consumer_groups, hard_consumer

NOT_STABLE = -1
GROWS_AFTER_MS = 60_000
NEVER = 10**15
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
        self._last: dict[str, tuple[Shard[ShardState], Group | None]] = {}  # of each group, after the last event
        self._unfinished: dict[str, tuple[type[Any], int]] = {}  # kind and epoch
        self._grows_at = NEVER  # when topics grow once nothing goes wrong any more
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
        self._look_for_conversions()
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

    def is_unfinished(self, group: Group) -> bool:
        return self._unfinished.get(group.group_id) == (type(group), epoch_of(group))

    def _look_for_conversions(self) -> None:
        """As in Kafka, a static member that starts again with the other protocol converts its group as it is.

        The epoch stays. If that was in the middle of a rebalance, or if topics have grown, then some partitions have no
        owner until something else begins a rebalance, and others may have two until one of them hears of that.
        Two such members, one after the other, convert it there and back.
        """
        for group_id in GROUPS:
            shard = self.host.shard_of(group_id)
            group = shard.state.groups.get(group_id)
            last_shard, last = self._last.get(group_id, (None, None))
            self._last[group_id] = shard, group
            if group is None or last is None or group is last or shard is not last_shard:
                continue
            if type(group) is type(last) and not _is_there_and_back(group, last):
                continue
            if isinstance(group, ConsumerGroup) and group.epoch == epoch_of(last):
                self._unfinished[group_id] = ConsumerGroup, group.epoch
            elif isinstance(group, ClassicGroup) and group.state is STABLE:
                self._unfinished[group_id] = ClassicGroup, group.generation
                for client in self.clients:
                    if client.group_id == group_id:
                        client.is_stray |= client.epoch != group.generation or client.holds != client.assignment

    def _look_for_strays(self) -> None:
        """Members of a classic group may have partitions that nobody knows of; they learn that from their next answer.

        A join phase forgets assignments, as in Kafka, and the group may be converted before there are new ones. A
        static member stays a member even if it does not join again, with what it had before. And a cooperative member
        may not have given up yet what its last assignment has taken away: only assignments are known of classic
        members, and the second rebalance, which would have waited for that, will not come.
        """
        for group_id in GROUPS:
            group = self.host.state_of(group_id).groups.get(group_id)
            generation = self._generations.pop(group_id, None)
            if isinstance(group, ClassicGroup):
                self._generations[group_id] = group.generation if group.state is STABLE else NOT_STABLE
            elif isinstance(group, ConsumerGroup) and generation is not None:
                for client in self.clients:
                    member = group.members.get(client.member_id) if client.group_id == group_id else None
                    if member is not None and (client.epoch != generation or client.holds != client.assignment):
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

    def _come_to_rest(self) -> None:
        self._grows_at = self.host.steady_ms + GROWS_AFTER_MS
        super()._come_to_rest()
        self._grows_at = NEVER

    def _everyone_goes_on(self) -> None:
        """If static members have left a group as it was, and it does not come to rest, topics grow: it rebalances."""
        super()._everyone_goes_on()
        if self.host.steady_ms >= self._grows_at and any(map(self._waits_for_a_rebalance, GROUPS)):
            self._grows_at = self.host.steady_ms + GROWS_AFTER_MS
            topics = self.host.topics
            for name in sorted(topics.names()):
                topics.grow(name, topics.partition_count(name) + 1)
            self.tell("all topics grow")

    def _waits_for_a_rebalance(self, group_id: str) -> bool:
        """So does a classic group whose static members have all started again.

        As with Kafka, nobody looks then whether topics have grown since the leader has assigned them.
        """
        group = self.host.state_of(group_id).groups.get(group_id)
        if group is None or self._unrest_of(group_id) is None:
            return False
        return self.is_unfinished(group) or (isinstance(group, ClassicGroup) and bool(group.static_members))

    def _unrest_of(self, group_id: str) -> str | None:
        group = self.host.state_of(group_id).groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return super()._unrest_of(group_id)
        assert group is None or isinstance(group, ClassicGroup)
        if group is None or group.state_name != "Stable":
            return "no group" if group is None else f"classic, {group.state_name}"
        return self._unrest_of_clients(group_id, dict.fromkeys(group.members))


def epoch_of(group: Group) -> int | None:
    if isinstance(group, ClassicGroup):
        return group.generation
    return group.epoch if isinstance(group, ConsumerGroup) else None


def _is_there_and_back(group: Group, last: Group) -> bool:
    """Whether a consumer group was a classic one since the last look: some of its members are the same."""
    if not (isinstance(group, ConsumerGroup) and isinstance(last, ConsumerGroup)):
        return False
    stayed = group.members.keys() & last.members.keys() or group.static_members.keys() & last.static_members.keys()
    return bool(stayed) and group.epoch == last.epoch
