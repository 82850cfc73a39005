"""What a server-side assignor is given, and gives (KIP-848). The ways to assign are in the files beside this one.

An assignor is a generator: it yields now and then, so that a group of ten thousand members does not keep the others
waiting, and returns the new target of each member.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat

from kohort.coordinator.api import Steps, all_steps, in_slices
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


TOPICS_IN_STEP = 20  # of one member: they take as long as a usual step of an assignor
ELEMENTS_IN_STEP = 500  # of what C code goes through


def as_many_steps(element_count: int) -> Iterable[None]:
    """C code has just handled this many elements in one step. Take as many steps as they count for: a piece of work
    consists of a fixed number of steps, and would take too long otherwise.
    """
    return repeat(None, element_count // ELEMENTS_IN_STEP)


class Draft:
    """A member's target that is being changed: a HashMap of HashSets, as in Kafka."""

    __slots__ = ("_topics",)

    def __init__(self, before: Target) -> None:
        all_steps(self._copy(before))

    @classmethod
    def in_steps(cls, before: Target) -> Steps[Draft]:
        draft = cls.__new__(cls)
        yield from draft._copy(before)
        return draft

    def _copy(self, before: Target) -> Steps[None]:
        topics: JavaMap[TopicId, None] = JavaMap(hash_of_uuid)
        for some in in_slices(before, TOPICS_IN_STEP):
            for topic in some:
                topics.put(topic, None)
            if len(some) == TOPICS_IN_STEP:
                yield
        in_order = yield from topics.keys_in_steps()
        self._topics: JavaMap[TopicId, JavaNumbers] = JavaMap(hash_of_uuid, capacity_for(len(before)))
        for some in in_slices(in_order, TOPICS_IN_STEP):
            for topic in some:
                self._topics.put(topic, JavaNumbers(JavaNumbers(before[topic]).ordered()))
            if len(some) == TOPICS_IN_STEP:
                yield

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
        return all_steps(self.target_in_steps())

    def target_in_steps(self) -> Steps[Target]:
        topics = yield from self._topics.keys_in_steps()
        target: dict[TopicId, tuple[int, ...]] = {}
        for some in in_slices(topics, TOPICS_IN_STEP):
            target.update((topic, tuple(self._topics.entries[topic].ordered())) for topic in some)
            if len(some) == TOPICS_IN_STEP:
                yield
        return target


def in_java_order(target: Target) -> list[tuple[TopicId, list[int]]]:
    """The topics of a target that was read from the log, and their partitions, as Java goes through them."""
    return all_steps(in_java_order_in_steps(target))


def in_java_order_in_steps(target: Target) -> Steps[list[tuple[TopicId, list[int]]]]:
    topics: JavaMap[TopicId, None] = JavaMap(hash_of_uuid)
    for some in in_slices(target, TOPICS_IN_STEP):
        for topic in some:
            topics.put(topic, None)
        if len(some) == TOPICS_IN_STEP:
            yield
    in_order = yield from topics.keys_in_steps()
    found: list[tuple[TopicId, list[int]]] = []
    for some in in_slices(in_order, TOPICS_IN_STEP):
        found += [(topic, JavaNumbers(target[topic]).ordered()) for topic in some]
        if len(some) == TOPICS_IN_STEP:
            yield
    return found
