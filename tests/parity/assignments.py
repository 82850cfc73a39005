"""Random groups of KIP-848 on Kafka and on Kohort: both must assign the same partitions.

    python -m tests.parity.assignments --groups 300 --seed 1

A group lives through a few random steps: members join with a rack, an instance id, an assignor and a subscription by
names or by a regular expression, change their subscription, leave, come back, reconcile or lag behind; topics grow. So
there are targets of all kinds to start from. After each step, what the member was answered and what both brokers
describe is compared: epochs, states, current and target assignments.

Kafka's assignors go through hash tables of topic ids, so the topics must have the same ids on both brokers. Kafka makes
them at random; Kohort is started on a catalog that has them.
"""

from __future__ import annotations

import argparse
import base64
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from kohort.broker.topics.catalog_file import CatalogFile, Saved
from kohort.client.client import Client
from kohort.coordinator.partitioner import partition_of
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kohort.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kohort.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.storage.disk import RealDisk
from tests.clients.kohort import KohortProcess
from tests.kafka.server import KafkaServer
from tests.parity.pairs import CONSUMERS, PAIRS
from tests.parity.peer import Peer
from tests.parity.scenarios.coordinators import warm_up

TOPIC_COUNT = 24
MAX_PARTITIONS = 60
OFFSETS_PARTITIONS = 50
REBALANCE_MS = 60_000
WAIT_S = 30
POLL_S = 0.02
JOIN, LEAVE, LEAVE_FOR_NOW = 0, -1, -2

Answer = tuple[Any, ...]


def main(arguments: Sequence[str] | None = None) -> int:
    options = options_of(arguments, __doc__)
    started = time.monotonic()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kohort-assignments-")))
        kafka = stack.enter_context(KafkaServer(folder / "kafka", PAIRS[CONSUMERS]))
        warm_up(Peer("Kafka", kafka.address))
        world = World(Random(options.seed), kafka.address)
        other = kafka.address if options.twice else start_kohort(stack, folder / "kohort", world)
        sides = (Side(kafka.address, "random"), Side(other, "again" if options.twice else "random"))
        for side in sides:
            stack.callback(side.client.close)
        differences, steps = [], 0
        for number in range(options.groups):
            group = RandomGroup(Random(f"{options.seed}/{number}"), number, world, sides)
            steps += group.play()
            differences += group.differences
            for line in group.differences:
                print(line, flush=True)
    print(
        f"{options.groups} groups (seed {options.seed}), {steps} steps compared, {len(differences)} groups differ, "
        f"{time.monotonic() - started:.0f} s"
    )
    return 1 if differences else 0


def options_of(arguments: Sequence[str] | None, description: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.parity.(share_)assignments", description=description)
    parser.add_argument("--groups", type=int, default=300, metavar="COUNT")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--twice", action="store_true", help="Kafka in Kohort's place, too: do the groups repeat?")
    return parser.parse_args(arguments)


def start_kohort(stack: ExitStack, folder: Path, world: World, pair: str = CONSUMERS) -> str:
    """Kohort with the topics of the world, under their ids."""
    data = folder / "data"
    data.mkdir(parents=True)
    catalog = CatalogFile(RealDisk(), str(data))
    catalog.begin([Saved(name, world.ids[name], count, {}) for name, count in world.partitions.items()])
    catalog.close()
    overrides = {name.replace(".", "_"): value for name, value in PAIRS[pair].items()}
    return stack.enter_context(KohortProcess(folder, node_id="1", **overrides)).address


class World:
    """The topics: made on Kafka, which chooses their ids."""

    def __init__(self, chance: Random, kafka: str) -> None:
        counts = [chance.choice((1, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24)) for _ in range(TOPIC_COUNT)]
        self.partitions = {f"topic-{number:02}": count for number, count in enumerate(counts)}
        request = CreateTopicsRequest([CreatableTopic(n, c, 1) for n, c in self.partitions.items()], 10_000)
        with Client(kafka) as client:
            answer = client.send(ApiKey.CREATE_TOPICS, request, 7)
        self.ids = {each.name: bytes(each.topic_id) for each in answer.topics}
        assert all(each.error_code == 0 for each in answer.topics), answer
        self.changed_last = next(reversed(self.partitions))
        self.names = {topic_id: name for name, topic_id in self.ids.items()}


class Side:
    """One of the two brokers."""

    def __init__(self, address: str, prefix: str) -> None:
        self.client = Client(address, client_id="parity")
        self.prefix = prefix
        self._probes = 0

    def group_id(self, number: int) -> str:
        return f"{self.prefix}-{number}"

    def heartbeat(self, request: ConsumerGroupHeartbeatRequest) -> Any:
        return self.client.send(ApiKey.CONSUMER_GROUP_HEARTBEAT, request, 1)

    def describe(self, number: int) -> Any:
        request = ConsumerGroupDescribeRequest([self.group_id(number)])
        return self.client.send(ApiKey.CONSUMER_GROUP_DESCRIBE, request, 1).groups[0]

    def until_epoch(self, number: int, epoch: int) -> None:
        wait_until(lambda: self.describe(number).group_epoch >= epoch, f"group epoch {epoch}")

    def grow(self, topic: str, partitions: int) -> None:
        """In `--twice` the topic has grown already when the second side asks; that answer does not matter."""
        request = CreatePartitionsRequest([CreatePartitionsTopic(topic, partitions, None)], 10_000)
        self.client.send(ApiKey.CREATE_PARTITIONS, request, 3)

    def until_known(self, number: int, topic: str, partitions: int) -> None:
        """Waits until the part of the coordinator that has the group knows how many partitions the topic has."""
        wanted = partition_of(self.group_id(number), OFFSETS_PARTITIONS)

        def known() -> bool:
            self._probes += 1
            name = f"probe-{self._probes}"
            if partition_of(name, OFFSETS_PARTITIONS) != wanted:
                return False
            request = ConsumerGroupHeartbeatRequest(name, "probe", JOIN, None, None, REBALANCE_MS, [topic])
            request.topic_partitions = []
            answer = self.heartbeat(request)
            assert answer.error_code in (0, 14, 15, 16), answer
            return not answer.error_code and _count(answer.assignment.topic_partitions) == partitions

        wait_until(known, f"{partitions} partitions of {topic}", pause_s=0)


@dataclass
class Member:
    id: str
    instance: str | None
    rack: str | None
    epoch: int = JOIN
    has_regex: bool = False
    assigned: list[TopicPartitions] = field(default_factory=list)


class RandomGroup:
    """One group, which does the same on both brokers."""

    def __init__(self, chance: Random, number: int, world: World, sides: Sequence[Side]) -> None:
        self.chance, self.number, self.world, self.sides = chance, number, world, sides
        self.members: list[Member] = []
        self.away: list[Member] = []  # instances that have left for now
        self.differences: list[str] = []
        self._born = 0
        self._topics = chance.sample(sorted(world.partitions), chance.choice((1, 2, 3, 5, 8)))
        self._unequal = chance.random() < 0.4  # else all members subscribe to the same topics
        self._regex = chance.random() < 0.15  # while the group has a member with it, it need not be resolved again
        self._assignors = chance.choice(((None,), (None,), (None, "uniform"), ("range",), ("range", "uniform", None)))
        self._largest = chance.choice((2, 3, 5, 8, 12, 30))

    def play(self) -> int:
        """Random steps, until one differs. Returns how many were compared."""
        self._wait_for_topics()
        told: list[str] = []
        for step in range(1, self.chance.choice((6, 10, 16, 24)) + 1):
            told.append(self._step(step))
            if self.differences:
                steps = "; ".join(told)
                self.differences = [f"group {self.number}: {steps}: {' | '.join(self.differences)}"]
                break
        return len(told)

    def _step(self, step: int) -> str:
        if self._regex and step == 1:
            return self._join_by_regex()
        if not self.members or (len(self.members) < self._largest and self.chance.random() < 0.4):
            return self._join()
        return self.chance.choice(
            (self._reconcile, self._reconcile, self._reconcile_all, self._leave, self._change, self._leave_for_now)
            + ((self._grow,) if self.chance.random() < 0.3 else (self._beat,))
        )()

    # --- steps; each says in words what it did

    def _join(self) -> str:
        """Nobody joins without a topic: that bumps no epoch. If another change is due then, Kafka takes the group's
        subscriptions for those before the member came: it may get what it does not want, and nobody else gets it.
        """
        if self.away and self.chance.random() < 0.7:
            member = self.away.pop(self.chance.randrange(len(self.away)))
            member.id, member.assigned = self._new_id(), []
        else:
            self._born += 1
            instance = f"instance-{self._born}" if self.chance.random() < 0.3 else None
            member = Member(self._new_id(), instance, self.chance.choice((None, None, "north", "south")))
        may_match = any(each.has_regex for each in self.members + self.away)
        regex = self._pattern() if may_match and self.chance.random() < 0.5 else None
        member.has_regex |= regex is not None
        self.members.append(member)
        names = self._subscription() if regex is None else None
        assignor = self.chance.choice(self._assignors)
        self._ask(member, epoch=JOIN, names=names, regex=regex, assignor=assignor, rebalance_ms=REBALANCE_MS, owned=[])
        return f"{member.id} ({member.instance}) joins for {names or regex} with {assignor}"

    def _join_by_regex(self) -> str:
        """Resolved in the background, so both brokers get the time that they need."""
        member = Member(self._new_id(), None, None, has_regex=True)
        self.members.append(member)
        self._ask(member, epoch=JOIN, regex=self._pattern(), rebalance_ms=REBALANCE_MS, owned=[], is_settled=False)
        for side in self.sides:
            side.until_epoch(self.number, 2)
        self._ask(member, owned=member.assigned)
        return f"{member.id} joins by regular expression"

    def _leave(self) -> str:
        member = self.members.pop(self.chance.randrange(len(self.members)))
        self._ask(member, epoch=LEAVE)
        return f"{member.id} leaves"

    def _leave_for_now(self) -> str:
        instances = [member for member in self.members if member.instance is not None]
        if not instances:
            return self._beat()
        member = self.chance.choice(instances)
        self.members.remove(member)
        self.away.append(member)
        self._ask(member, epoch=LEAVE_FOR_NOW)
        return f"{member.id} leaves for now"

    def _change(self) -> str:
        member = self.chance.choice(self.members)
        self._topics = self.chance.sample(sorted(self.world.partitions), self.chance.choice((1, 2, 4, 6)))
        names = self._subscription(at_least=0)
        self._ask(member, names=names, owned=member.assigned)
        return f"{member.id} subscribes to {names}"

    def _grow(self) -> str:
        topic = self.chance.choice(self._topics)
        partitions = self.world.partitions[topic] + self.chance.choice((1, 2, 5))
        if partitions > MAX_PARTITIONS:
            return self._beat()
        self.world.partitions[topic] = partitions
        self.world.changed_last = topic
        for side in self.sides:
            side.grow(topic, partitions)
        for side in self.sides:
            side.until_known(self.number, topic, partitions)
        return f"{topic} grows, and {self._beat()}"

    def _beat(self) -> str:
        member = self.chance.choice(self.members)
        self._ask(member)
        return f"{member.id} heartbeats"

    def _reconcile(self) -> str:
        member = self.chance.choice(self.members)
        self._ask(member, owned=member.assigned)
        return f"{member.id} owns what it was assigned"

    def _reconcile_all(self) -> str:
        for _ in range(3):
            for member in self.members:
                self._ask(member, owned=member.assigned)
        return "all own what they were assigned"

    # --- what steps are made of

    def _new_id(self) -> str:
        """Ids as clients make them, short ones, and now and then one whose hash in Java another one has, too."""
        kind = self.chance.random()
        if kind < 0.6:
            return base64.urlsafe_b64encode(self.chance.randbytes(16)).decode().rstrip("=")
        self._born += 1
        if kind < 0.95:
            return f"member-{self._born}"
        return "".join(self.chance.choice(("Aa", "BB")) for _ in range(3)) + f"-{self._born // 4}"

    def _subscription(self, at_least: int = 1) -> list[str]:
        if not self._unequal:
            return self._topics
        return self.chance.sample(self._topics, self.chance.randint(at_least, len(self._topics)))

    def _pattern(self) -> str:
        return f"topic-{self.number % 2}[0-{self.number % 7 + 1}]"

    def _wait_for_topics(self) -> None:
        """What other groups have changed is known to this group's part of the coordinator, too: it learns in order."""
        topic = self.world.changed_last
        for side in self.sides:
            side.until_known(self.number, topic, self.world.partitions[topic])

    def _ask(
        self,
        member: Member,
        *,
        epoch: int | None = None,
        names: list[str] | None = None,
        regex: str | None = None,
        assignor: str | None = None,
        rebalance_ms: int = -1,
        owned: list[TopicPartitions] | None = None,
        is_settled: bool = True,
    ) -> None:
        """The same heartbeat to both brokers; notes down what differs in the answers and in the descriptions.

        `is_settled`: nothing happens in the background after the answer, so both brokers describe the same.
        """
        if self.differences:
            return
        answers = []
        for side in self.sides:
            request = ConsumerGroupHeartbeatRequest(
                side.group_id(self.number),
                member.id,
                member.epoch if epoch is None else epoch,
                member.instance,
                member.rack,
                rebalance_ms,
                names,
                regex,
                assignor,
                owned,
            )
            answers.append(side.heartbeat(request))
        answer = answers[0]
        if not answer.error_code:
            member.epoch = answer.member_epoch
            if answer.assignment is not None:
                member.assigned = answer.assignment.topic_partitions
        self._compare(*(list(self._answered(each)) for each in answers))
        if is_settled:
            self._compare(*(list(self._described(side.describe(self.number))) for side in self.sides))

    def _compare(self, kafka: list[Answer], ours: list[Answer]) -> None:
        differing = [(one, other) for one, other in zip(kafka, ours, strict=False) if one != other]
        if differing or len(kafka) != len(ours):
            one, other = differing[0] if differing else (kafka, ours)
            self.differences.append(f"Kafka: {one}, ours: {other} ({len(differing)} differ)")

    def _answered(self, answer: Any) -> Iterator[Answer]:
        yield "answer", answer.error_code, answer.member_id, answer.member_epoch
        yield "assignment", None if answer.assignment is None else self._named(answer.assignment.topic_partitions)

    def _described(self, group: Any) -> Iterator[Answer]:
        yield "group", group.error_code, group.group_state, group.group_epoch, group.assignment_epoch
        yield "assignor", group.assignor_name
        for member in sorted(group.members, key=lambda each: str(each.member_id)):
            yield member.member_id, member.instance_id, member.rack_id, member.member_epoch, member.member_type
            yield member.member_id, sorted(member.subscribed_topic_names), member.subscribed_topic_regex
            yield member.member_id, "target", self._named(member.target_assignment.topic_partitions)
            yield member.member_id, "assignment", self._named(member.assignment.topic_partitions)

    def _named(self, rows: Sequence[Any]) -> dict[str, list[int]]:
        return {self.world.names[row.topic_id]: sorted(row.partitions) for row in rows}


def wait_until(condition: Callable[[], bool], what: str, pause_s: float = POLL_S) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(pause_s)


def _count(rows: Sequence[Any]) -> int:
    return sum(len(row.partitions) for row in rows)


if __name__ == "__main__":
    raise SystemExit(main())
