"""What a server-side assignor is given, and gives (KIP-848). The ways to assign are in the files beside this one.

An assignor is a generator: it yields now and then, so that a group of ten thousand members does not keep the others
waiting, and returns the new target of each member.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field

from kohort.coordinator.assignors.java_order import (
    JavaMap,
    JavaNumbers,
    capacity_for,
    hash_of_uuid,
)

TopicId = bytes
Target = Mapping[TopicId, Sequence[int]]  # in the order in which Kafka would write it to the log
Targets = dict[str, Target]  # by member id
Assigning = Generator[None, None, Targets]

NO_PARTITIONS: Target = {}


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A member, as an assignor sees it."""

    topics: Sequence[TopicId]  # existing topics only, in the order in which Kafka goes through them
    target: Target = field(default_factory=dict)  # before this assignment
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class ServerGroup:
    members: Mapping[str, Subscriber]  # in the order in which Kafka goes through them
    partition_counts: Mapping[TopicId, int]
    has_equal_subscriptions: bool


class Draft:
    """A member's target that is being changed: a HashMap of HashSets, as in Kafka."""

    __slots__ = ("_topics",)

    def __init__(self, before: Target) -> None:
        topics: JavaMap[TopicId, None] = JavaMap(hash_of_uuid)
        for topic in before:
            topics.put(topic, None)
        self._topics: JavaMap[TopicId, JavaNumbers] = JavaMap(hash_of_uuid, capacity_for(len(before)))
        for topic in topics.keys():  # noqa: SIM118 (in Java's order)
            self._topics.put(topic, JavaNumbers(JavaNumbers(before[topic]).ordered()))

    def add(self, topic: TopicId, partition: int, capacity: int) -> None:
        """`capacity`: that of the topic's set, if there is none yet."""
        self._topics.compute_if_absent(topic, lambda: JavaNumbers((), capacity)).add(partition)

    def remove(self, topic: TopicId, partition: int) -> None:
        numbers = self._topics.entries[topic]
        numbers.remove(partition)
        if not numbers:
            self._topics.remove(topic)

    def take(self, topic: TopicId, partition: int) -> None:
        """As `remove`, but the topic stays, even without partitions."""
        self._topics.entries[topic].remove(partition)

    def remove_topic(self, topic: TopicId) -> None:
        self._topics.remove(topic)

    def target(self) -> Target:
        return {topic: tuple(numbers.ordered()) for topic, numbers in self._topics.items()}


def in_java_order(target: Target) -> list[tuple[TopicId, list[int]]]:
    """The topics of a target that was read from the log, and their partitions, as Java goes through them."""
    topics: JavaMap[TopicId, Sequence[int]] = JavaMap(hash_of_uuid)
    for topic, partitions in target.items():
        topics.put(topic, partitions)
    return [(topic, JavaNumbers(partitions).ordered()) for topic, partitions in topics.items()]
