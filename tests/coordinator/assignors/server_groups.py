"""Groups of KIP-848 made up from a seed, and what they are after some time: members come and go, topics grow."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator
from random import Random

from kohort.coordinator.assignors.java_order import JavaMap, hash_of_text
from kohort.coordinator.assignors.server_range import assign_ranges
from kohort.coordinator.assignors.server_side import ServerGroup, Subscriber, Target, Targets, TopicId
from kohort.coordinator.assignors.uniform import assign_uniformly

ASSIGN = {"uniform": assign_uniformly, "range": assign_ranges}


def assigned(name: str, group: ServerGroup) -> Targets:
    """All steps at once. Members that an assignor leaves out get nothing."""
    steps = ASSIGN[name](group)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            targets: Targets = end.value
            return {member_id: targets.get(member_id, {}) for member_id in group.members}


def in_order_of_a_map(members: dict[str, Subscriber]) -> dict[str, Subscriber]:
    """As Kafka goes through members that were put into a HashMap in this order."""
    order: JavaMap[str, None] = JavaMap(hash_of_text)
    for member_id in members:
        order.put(member_id, None)
    return {member_id: members[member_id] for member_id in order.keys()}  # noqa: SIM118


def written(uuid: bytes) -> str:
    return urlsafe_b64encode(uuid).decode().rstrip("=")


class World:
    """One group, and the topics that it may subscribe to."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.assignor = random.choice(("uniform", "uniform", "range"))
        self.is_equal = random.random() < 0.5
        self.counts = {self._topic_id(): self._count() for _ in range(random.choice((1, 1, 2, 3, 5, 8, 20, 40)))}
        self.subscribers: dict[str, Subscriber] = {}
        self._join(random.choice((1, 2, 3, 4, 5, 7, 10, 13, 20, 50, 100)))
        if random.random() < 0.3:
            self._start_from_any_target()

    def _topic_id(self) -> TopicId:
        while (made := self._random.randbytes(16)) and written(made).startswith("-"):
            pass  # Kafka makes no such ids: they would look like an option on a command line
        return made

    def _count(self) -> int:
        return self._random.choice((1, 2, 3, 6, 10, 12, 30, 100, 300))

    def _member_id(self) -> str:
        random = self._random
        return random.choice(
            (written(random.randbytes(16)), f"member-{random.randrange(10**6)}", f"mé{random.random()}")
        )

    def _join(self, count: int) -> None:
        for _ in range(count):
            instance_id = f"i{self._random.random()}" if self._random.random() < 0.3 else None
            self.subscribers[self._member_id()] = Subscriber(self._topics(), {}, instance_id)

    def _topics(self) -> list[TopicId]:
        if self.is_equal and self.subscribers:
            return list(next(iter(self.subscribers.values())).topics)
        return self._random.sample(list(self.counts), self._random.randint(self.is_equal, len(self.counts)))

    def _start_from_any_target(self) -> None:
        """As another assignor may have left it: not balanced, and in any order."""
        owned: dict[str, dict[TopicId, list[int]]] = {member_id: {} for member_id in self.subscribers}
        for topic, count in self.counts.items():
            for partition in self._random.sample(range(count), count):
                if self._random.random() < 0.8:
                    owned[self._random.choice(list(owned))].setdefault(topic, []).append(partition)
        self.keep({member_id: dict(target) for member_id, target in owned.items()})

    def keep(self, targets: dict[str, Target] | Targets) -> None:
        self.subscribers = {
            member_id: Subscriber(member.topics, targets[member_id], member.instance_id)
            for member_id, member in self.subscribers.items()
        }

    def group(self) -> ServerGroup:
        return ServerGroup(in_order_of_a_map(self.subscribers), dict(self.counts), self.is_equal)

    def pass_time(self) -> None:
        random = self._random
        for member_id in random.sample(list(self.subscribers), random.randint(0, len(self.subscribers) // 3)):
            del self.subscribers[member_id]
        self._join(random.randint(0, 5))
        if random.random() < 0.3:
            self.counts[random.choice(list(self.counts))] += random.choice((1, 5))
        if random.random() < 0.4:
            before, self.subscribers = self.subscribers, {}
            for member_id, member in before.items():
                self.subscribers[member_id] = Subscriber(self._topics(), member.target, member.instance_id)


def told(name: str, world: World) -> Iterator[str]:
    """The group, for ServerAssignors.java."""
    for topic, count in world.counts.items():
        yield f"topic {written(topic)} {count}"
    for member_id, member in world.subscribers.items():
        topics = ",".join(map(written, member.topics)) or "-"
        yield f"member {member_id} {member.instance_id or '-'} {topics} {target_text(member.target)}"
    yield f"{name} {'equal' if world.is_equal else 'unequal'}"


def target_text(target: Target) -> str:
    return "/".join(f"{written(topic)}:{','.join(map(str, numbers))}" for topic, numbers in target.items()) or "-"


def pairs(targets: Iterable[Target]) -> list[tuple[TopicId, int]]:
    return sorted((topic, number) for target in targets for topic, numbers in target.items() for number in numbers)
