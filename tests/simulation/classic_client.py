"""A classic consumer for the simulation: one connection, one call at a time, and a real client's answer to every error.

It joins, assigns if it leads, commits, fetches, heartbeats, changes its mind, leaves, is restarted or dies. What it
learns it tells its world, which checks that it can be true.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, TopicPartition
from kohort.protocol.subscription import pack_assignment, read_assignment
from tests.coordinator.members import Member, errors_of, leave, send_fetch
from tests.coordinator.support import Call
from tests.group_requests import subscription
from tests.simulation.world import COME_AGAIN

if TYPE_CHECKING:
    from tests.simulation.classic_world import ClassicWorld

TOPIC = "orders"
PARTITIONS = 12
REJOIN = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION)
START_OVER = (
    ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_MAX_SIZE_REACHED,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
)  # fmt: skip


class ClassicClient:
    def __init__(self, world: ClassicWorld, name: str, group_id: str, instance_id: str | None) -> None:
        random = world.random
        self.world = world
        self.name = name
        self.member = Member(
            world.host, group_id, name, instance_id=instance_id,
            session_timeout_ms=random.choice((6_000, 10_000, 30_000)),
            rebalance_timeout_ms=random.choice((8_000, 20_000, 60_000)),
            version=random.randint(5, 9) if instance_id else random.randint(0, 9),
            protocols=self._protocols(),
        )  # fmt: skip
        self.call: Call | None = None
        self._then: Callable[[Call], None] | None = None
        self.is_alive = True
        self.is_stable = False  # has an assignment
        self.joined: Call | None = None  # the answer of JoinGroup that SyncGroup is to follow
        self.owned: list[int] = []

    def _protocols(self) -> list[tuple[str, bytes]]:
        names = self.world.random.choice((["range"], ["range", "sticky"], ["sticky", "range"]))
        topics = self.world.random.choice(((TOPIC,), (TOPIC, "payments")))
        return [(name, subscription(*topics)) for name in names]

    # --- what it does

    def act(self) -> None:
        """One thing that a client might do now."""
        random = self.world.random
        if not self.is_alive:
            if random.random() < 0.1:
                self.is_alive = True
                self.restart()
        elif self.call is not None:
            self._look()
            if self.call is not None and random.random() < 0.02:
                self.disconnect()
        elif self.is_stable and random.random() < 0.15:
            random.choice((self.leave, self.die, self.restart, self.change, self.rejoin))()
        else:
            self.go_on()

    def go_on(self) -> None:
        """What a client does that wants to consume, and nothing else."""
        if self.call is not None:
            self._look()
        elif self.joined is not None:
            self.sync()
        elif not self.is_stable:
            self.join()
        else:
            self.world.random.choice((self.heartbeat, self.heartbeat, self.commit, self.fetch))()

    def join(self) -> None:
        self.world.tell(f"{self.name} joins as {self.member.member_id or 'new'}")
        self._send(self.member.ask_to_join(), self._joined)

    def sync(self) -> None:
        assert self.joined is not None
        assignments = {}
        answer = self.joined.answer
        if answer.leader == answer.member_id and not answer.skip_assignment:
            names = sorted(each.member_id for each in answer.members)
            rows: dict[str, list[int]] = {name: [] for name in names}
            for partition in range(PARTITIONS):
                rows[names[partition % len(names)]].append(partition)
            for name, partitions in rows.items():
                assignment = ConsumerProtocolAssignment([TopicPartition(TOPIC, partitions)])
                assignments[name] = pack_assignment(assignment, 0)
        self.joined = None
        version = self.world.random.randint(3 if self.member.instance_id else 0, 5)
        self._send(self.member.sync(assignments, version=version), self._synced)

    def heartbeat(self) -> None:
        self._send(self.member.send_heartbeat(), lambda call: self._react(call.error))

    def commit(self) -> None:
        if self.owned:
            partition = self.world.random.choice(self.owned)
            offset = self.world.next_offset(self.member.group_id, partition)
            version = self.world.random.randint(7 if self.member.instance_id else 2, 10)
            call = self.member.send_commit({(TOPIC, partition): offset}, version=version)
            self._send(call, lambda call: self._committed(call, partition, offset))

    def fetch(self) -> None:
        places = [(TOPIC, partition) for partition in range(PARTITIONS)]
        floor = self.world.acknowledged_of(self.member.group_id)
        call = send_fetch(
            self.world.host, self.member.group_id, places, version=self.world.random.randint(1, 10),
            require_stable=self.world.random.random() < 0.5,
        )  # fmt: skip
        self._send(call, lambda call: self.world.fetched(self, call, floor))

    def rejoin(self) -> None:
        self.is_stable = False
        self.owned = []

    def change(self) -> None:
        """Its subscription or its assignors."""
        self.member.protocols = self._protocols()
        self.rejoin()

    def leave(self) -> None:
        call = leave(self.world.host, self.member.group_id, (self.member.member_id, None))
        self._send(call, lambda _: self.restart())

    def restart(self) -> None:
        """The process: what it knew is gone."""
        self.world.tell(f"{self.name} starts")
        self.disconnect()
        self.member.member_id = ""
        self.joined = None
        self.rejoin()

    def die(self) -> None:
        self.world.tell(f"{self.name} dies")
        self.restart()
        self.is_alive = False

    def disconnect(self) -> None:
        if self.call is not None:
            self.world.hang_up(self.call)
        self.call = self._then = None

    # --- what it hears

    def _send(self, call: Call, then: Callable[[Call], None]) -> None:
        self.call, self._then = call, then
        self._look()

    def _look(self) -> None:
        if self.call is not None and self.call.is_answered:
            call, then = self.call, self._then
            self.call = self._then = None
            assert then is not None
            then(call)

    def _joined(self, call: Call) -> None:
        answer = call.answer
        self.world.tell(f"{self.name} joined: {call.error.name} {answer.generation_id} {answer.member_id}")
        if call.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member.member_id = answer.member_id
        elif call.error is ErrorCode.NONE:
            self.member.learn()
            self.joined = call
        else:
            self._react(call.error)

    def _synced(self, call: Call) -> None:
        self.world.tell(f"{self.name} synced: {call.error.name} {call.answer.assignment.hex()}")
        if call.error is not ErrorCode.NONE:
            self._react(call.error)
            return
        assigned = call.answer.assignment
        topics = read_assignment(assigned).assigned_partitions if assigned else ()
        self.owned = [partition for topic in topics for partition in topic.partitions]
        self.is_stable = True

    def _committed(self, call: Call, partition: int, offset: int) -> None:
        (error,) = errors_of(call).values()
        self.world.tell(f"{self.name} committed {partition} at {offset}: {error.name}")
        if error is ErrorCode.NONE:
            self.world.acknowledged(self.member.group_id, partition, offset)
        self._react(error)

    def _react(self, error: ErrorCode) -> None:
        if error in REJOIN:
            self.rejoin()
        elif error in START_OVER:
            self.member.member_id = ""
            self.rejoin()
        elif error is ErrorCode.FENCED_INSTANCE_ID:
            self.die()
        else:
            assert error is ErrorCode.NONE or error in COME_AGAIN, error
