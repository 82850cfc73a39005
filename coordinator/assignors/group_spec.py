"""What an assignor knows about a group, and the order in which Kafka's assignors go through its members.

Racks are left out. They matter only if clients name their rack and replicas are spread unevenly over the racks; Kohort
is one broker, and the log of the groups says nothing about replicas.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

Partition = tuple[str, int]
Assignment = dict[str, list[Partition]]


@dataclass(frozen=True, slots=True)
class GroupSpec:
    subscriptions: Mapping[str, Collection[str]]  # member id: topics
    partitions: Mapping[str, int]  # topic: number of partitions; any other topic does not exist
    owned: Mapping[str, Collection[Partition]] = field(
        default_factory=dict
    )  # before the rebalance; only the sticky assignors look at it
    instances: Mapping[str, str] = field(default_factory=dict)  # group.instance.id of the static members

    def members(self) -> list[str]:
        """Static members first, by instance id, which survives a restart; then the other members, by member id."""
        return sorted(self.subscriptions, key=self._rank)

    def _rank(self, member: str) -> tuple[bool, str]:
        instance = self.instances.get(member)
        return (True, member) if instance is None else (False, instance)

    def topics(self) -> list[str]:
        """The existing topics that at least one member subscribes to, in order."""
        wanted = {topic for topics in self.subscriptions.values() for topic in topics}
        return sorted(topic for topic in wanted if self.partitions.get(topic))

    def subscribers(self, topic: str) -> list[str]:
        return [member for member in self.members() if topic in self.subscriptions[member]]

    def all_partitions(self) -> list[Partition]:
        return [(topic, number) for topic in self.topics() for number in range(self.partitions[topic])]

    def same_subscription(self) -> bool:
        return len({frozenset(topics) for topics in self.subscriptions.values()}) <= 1
