"""Random share groups on Kafka and on Kohort: both must give the same partitions to the same members.

    python -m tests.parity.share_assignments --groups 100 --seed 1

As in `assignments.py`, the topics have the same ids on both brokers. Each group begins with AlterShareGroupOffsets for
its topics: then all partitions are initialized, and what a heartbeat assigns does not depend on how long that takes.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

from kohort.client.client import Client
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest
from kohort.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from kohort.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.kafka.server import KafkaServer
from tests.parity.assignments import WAIT_S, Answer, World, options_of, start_kohort, wait_until
from tests.parity.pairs import PAIRS, SHARES
from tests.parity.peer import Peer
from tests.parity.scenarios.coordinators import warm_up
from tests.share_requests import alter_offsets_request

JOIN, LEAVE = 0, -1
NOT_READY = (14, 15, 16)  # the coordinator is loading, or not known yet
MAX_GROUP_PARTITIONS = 40  # a group's topics have fewer partitions together: initializing them takes time


def main(arguments: Sequence[str] | None = None) -> int:
    options = options_of(arguments, __doc__)
    started = time.monotonic()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kohort-share-assignments-")))
        kafka = stack.enter_context(KafkaServer(folder / "kafka", PAIRS[SHARES]))
        warm_up(Peer("Kafka", kafka.address))
        world = World(Random(options.seed), kafka.address)
        other = kafka.address if options.twice else start_kohort(stack, folder / "kohort", world, SHARES)
        sides = (Side(kafka.address, "random"), Side(other, "again" if options.twice else "random"))
        for side in sides:
            stack.callback(side.client.close)
        differing, steps = 0, 0
        for number in range(options.groups):
            group = RandomShareGroup(Random(f"{options.seed}/{number}"), number, world, sides)
            steps += group.play()
            differing += group.difference is not None
            if group.difference is not None:
                print(group.difference, flush=True)
    print(
        f"{options.groups} share groups (seed {options.seed}), {steps} steps compared, {differing} groups differ, "
        f"{time.monotonic() - started:.0f} s"
    )
    return 1 if differing else 0


class Side:
    """One of the two brokers."""

    def __init__(self, address: str, prefix: str) -> None:
        self.client = Client(address, client_id="parity", timeout_s=WAIT_S)
        self.prefix = prefix
        wait_until(self._has_share_coordinator, "a share coordinator")

    def _has_share_coordinator(self) -> bool:
        request = FindCoordinatorRequest("", 2, ["g:AAAAAAAAAAAAAAAAAAAAAQ:0"])
        return bool(self.client.send(ApiKey.FIND_COORDINATOR, request, 6).coordinators[0].error_code == 0)

    def group_id(self, number: int) -> str:
        return f"{self.prefix}-{number}"

    def begin(self, number: int, partitions: Sequence[tuple[str, int]]) -> None:
        """The coordinator's part that has the group may not know the topics yet."""
        request = alter_offsets_request(self.group_id(number), dict.fromkeys(partitions, 0))

        def begun() -> bool:
            answer = self.client.send(ApiKey.ALTER_SHARE_GROUP_OFFSETS, request, 0)
            assert answer.error_code in (0, *NOT_READY), answer
            rows = [each.error_code for topic in answer.responses for each in topic.partitions]
            return len(rows) == len(partitions) and not any(rows)

        wait_until(begun, f"group {number} to begin")

    def heartbeat(self, number: int, member_id: str, epoch: int, topics: Sequence[str] | None) -> Any:
        request = ShareGroupHeartbeatRequest(self.group_id(number), member_id, epoch, None, topics)
        return self.client.send(ApiKey.SHARE_GROUP_HEARTBEAT, request, 1)

    def describe(self, number: int) -> Any:
        request = ShareGroupDescribeRequest([self.group_id(number)])
        return self.client.send(ApiKey.SHARE_GROUP_DESCRIBE, request, 1).groups[0]


class RandomShareGroup:
    """One group, which does the same on both brokers."""

    def __init__(self, chance: Random, number: int, world: World, sides: Sequence[Side]) -> None:
        self.chance, self.number, self.world, self.sides = chance, number, world, sides
        self.members: dict[str, int] = {}  # id: epoch
        self.difference: str | None = None
        self._born = 0
        self._unequal = chance.random() < 0.5  # else all members subscribe to the same topics
        self._largest = chance.choice((2, 3, 5, 8, 12, 30))
        self._topics = self._some_topics(chance.choice((1, 2, 3, 5)))

    def _some_topics(self, count: int) -> list[str]:
        chosen: list[str] = []
        for topic in self.chance.sample(sorted(self.world.partitions), count):
            if not chosen or self._count([*chosen, topic]) <= MAX_GROUP_PARTITIONS:
                chosen.append(topic)
        return chosen

    def _count(self, topics: Sequence[str]) -> int:
        return sum(self.world.partitions[topic] for topic in topics)

    def play(self) -> int:
        """Random steps, until one differs. Returns how many were compared."""
        places = [(topic, index) for topic in self._topics for index in range(self.world.partitions[topic])]
        for side in self.sides:
            side.begin(self.number, places)
        told: list[str] = []
        for _ in range(self.chance.choice((6, 10, 16, 24))):
            told.append(self._step())
            if self.difference is not None:
                self.difference = f"group {self.number}: {'; '.join(told)}: {self.difference}"
                break
        return len(told)

    def _step(self) -> str:
        if not self.members or (len(self.members) < self._largest and self.chance.random() < 0.4):
            self._born += 1
            member, names = f"member-{self._born}", self._subscription()
            self._ask(member, JOIN, names)
            return f"{member} joins for {names}"
        member = self.chance.choice(sorted(self.members))
        what = self.chance.choice(("leave", "change", "beat", "beat", "beat all"))
        if what == "leave":
            self._ask(member, LEAVE, None)
        elif what == "change":
            self._ask(member, self.members[member], self._subscription())
        for each in sorted(self.members) if what == "beat all" else [member] if what == "beat" else []:
            self._ask(each, self.members[each], None)
        return f"{member}: {what}"

    def _subscription(self) -> list[str]:
        if not self._unequal:
            return self._topics
        return self.chance.sample(self._topics, self.chance.randint(1, len(self._topics)))

    def _ask(self, member: str, epoch: int, topics: Sequence[str] | None) -> None:
        """The same heartbeat to both brokers; notes down what differs in the answers and in the descriptions."""
        if self.difference is not None:
            return
        answers = [side.heartbeat(self.number, member, epoch, topics) for side in self.sides]
        if epoch == LEAVE:
            del self.members[member]
        elif not answers[0].error_code:
            self.members[member] = answers[0].member_epoch
        self._compare(*(list(self._answered(each)) for each in answers))
        self._compare(*(list(self._described(side.describe(self.number))) for side in self.sides))

    def _compare(self, kafka: list[Answer], ours: list[Answer]) -> None:
        if kafka != ours and self.difference is None:
            pairs = zip(kafka, ours, strict=False)
            one, other = next(((one, other) for one, other in pairs if one != other), (kafka, ours))
            self.difference = f"Kafka: {one}, ours: {other}"

    def _answered(self, answer: Any) -> Iterator[Answer]:
        yield "answer", answer.error_code, answer.member_id, answer.member_epoch
        yield "assignment", None if answer.assignment is None else self._named(answer.assignment.topic_partitions)

    def _described(self, group: Any) -> Iterator[Answer]:
        yield "group", group.error_code, group.group_state, group.group_epoch, group.assignment_epoch
        for member in sorted(group.members, key=lambda each: str(each.member_id)):
            yield member.member_id, member.member_epoch, sorted(member.subscribed_topic_names)
            yield member.member_id, "assignment", self._named(member.assignment.topic_partitions)

    def _named(self, rows: Sequence[Any]) -> dict[str, list[int]]:
        return {self.world.names[row.topic_id]: sorted(row.partitions) for row in rows}


if __name__ == "__main__":
    raise SystemExit(main())
