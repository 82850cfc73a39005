"""A consumer whose process speaks the classic protocol or that of KIP-848: which one is decided when it starts.

With the classic protocol it rebalances eagerly (it gives up everything before it joins) or cooperatively (it keeps what
it has, says so in its subscription, and joins again after it has given up something), as its whole group does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kohort.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kohort.protocol.subscription import pack_assignment, pack_subscription, read_assignment, read_subscription
from tests.coordinator.members import leave, send_fetch
from tests.coordinator.support import Call, FakeTopics
from tests.simulation.consumer_client import JOIN, NOTHING, TOPICS, Consumer, Holds
from tests.simulation.world import COME_AGAIN

if TYPE_CHECKING:
    from tests.simulation.migrating_world import MigratingWorld

EAGER, COOPERATIVE = "range", "cooperative-sticky"
OWNED_SINCE_VERSION = 1  # of a subscription: what the member owns
DIES_OF = (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_MAX_SIZE_REACHED, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


class Migrant(Consumer):
    world: MigratingWorld

    def __init__(self, world: MigratingWorld, name: str, group_id: str, instance_id: str | None) -> None:
        self.is_classic = self._was_refused = False
        self.session_timeout_ms = world.random.choice((6_000, 10_000, 30_000))
        self.classic_version = world.random.randint(5, 9)  # of JoinGroup
        self.protocol = world.protocols[group_id]
        super().__init__(world, name, group_id, instance_id)

    def start(self) -> None:
        was_refused, self._was_refused = self._was_refused, False
        self.is_classic = not self.is_classic if was_refused else self.world.random.random() < self.world.tide
        super().start()
        if self.is_classic:
            self.member_id = ""

    def subscribe(self) -> None:
        super().subscribe()
        if self.is_classic:
            self.regex, self.names = "", self.names or tuple(TOPICS[:1])
            self._must_join = True
        if self.instance_id is not None:
            # A classic group does not rebalance if a static member comes back with another subscription (KIP-345).
            self.regex, self.names = "", tuple(TOPICS[: 1 + len(self.name) % 2])

    def drop(self) -> None:
        super().drop()
        self.is_stray = False

    def forget(self) -> None:
        super().forget()
        self._must_join = True
        self._joined: Call | None = None  # the answer to a JoinGroup that SyncGroup is to follow
        self._topics_version = -1  # of the topics when it was assigned

    # --- what it does

    def heartbeat(self) -> None:
        if not self.is_classic:
            super().heartbeat()
        elif self._joined is not None:
            self._sync(self._joined)
        elif self._must_join or self._topics_version != self.world.host.topics.version:
            self._join()
        else:
            request = HeartbeatRequest(self.group_id, self.epoch, self.member_id, self.instance_id)
            self._ask(request, 4, lambda call: self._react(call.error))

    def give_up(self) -> None:
        if self.is_classic and self.holds != self.assignment:
            self._must_join = True
        super().give_up()

    def leave(self) -> None:
        if not self.is_classic:
            super().leave()
        elif self.instance_id is None and self.epoch != JOIN:
            self.world.watch.leaves(self, -1)
            self.world.tell(f"{self.name} leaves")
            call = leave(self.world.host, self.group_id, (self.member_id, None))
            self.forget()
            self._take("heartbeat", call, lambda call: self.start())

    def is_impersonated(self) -> None:
        if not self.is_classic:
            super().is_impersonated()

    def is_echoed(self) -> None:
        if not self.is_classic:
            super().is_echoed()

    def fetch(self) -> None:
        if not self.is_classic:
            super().fetch()
            return
        topics = self.world.host.topics
        places = [(name, n) for name in sorted(topics.names()) for n in range(topics.partition_count(name))]
        floor = self.world.floor_of(self.group_id)
        call = send_fetch(self.world.host, self.group_id, places)
        self._take("commit", call, lambda call: self.world.fetched(self, call, floor))

    def _join(self) -> None:
        if self.protocol == EAGER:
            self.assignment = self.holds = NOTHING
        self.is_stray = self.is_stray or self.world.watch.is_gone(self)
        packed = pack_subscription(
            ConsumerProtocolSubscription(sorted(self.names), None, self._named(self.holds), self.epoch or -1, None),
            0 if self.protocol == EAGER else 3,
        )
        request = JoinGroupRequest(
            self.group_id, self.session_timeout_ms, self.rebalance_timeout_ms, self.member_id, self.instance_id,
            "consumer", [JoinGroupRequestProtocol(self.protocol, packed)],
        )  # fmt: skip
        self._ask(request, self.classic_version, self._has_joined)

    def _named(self, holds: Holds) -> list[TopicPartition]:
        by_name: dict[str, list[int]] = {}
        for topic_id, partition in sorted(holds):
            if (name := self.world.host.topics.name_of(topic_id)) is not None:
                by_name.setdefault(name, []).append(partition)
        return [TopicPartition(name, partitions) for name, partitions in by_name.items()]

    def _sync(self, joined: Call) -> None:
        self._joined = None
        answer = joined.answer
        rows: Sequence[SyncGroupRequestAssignment] = ()
        if answer.leader == answer.member_id and not answer.skip_assignment:
            rows = shared_out(self.world.host.topics, answer.members, is_eager=self.protocol == EAGER)
        request = SyncGroupRequest(
            self.group_id, answer.generation_id, self.member_id, self.instance_id, "consumer", self.protocol, rows
        )
        version = self.world.host.topics.version
        self._ask(request, 5, lambda call: self._has_synced(call, answer.generation_id, version))

    # --- what it hears

    def _ask(self, request: Any, version: int, then: Callable[[Call], None]) -> None:
        at = self.world.host.steady_ms
        call = self.world.host.send(request, version, self.name)
        self._take("heartbeat", call, lambda call: self._hears(call, at, then))

    def _hears(self, call: Call, at: int, then: Callable[[Call], None]) -> None:
        then(call)
        key = self.group_id, self.member_id
        if isinstance(call.request, HeartbeatRequest):
            if call.error in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
                self.world.watch.hears(key, at)
        elif call.error is ErrorCode.NONE:
            self.world.watch.has_progressed(key, at)

    def _has_joined(self, call: Call) -> None:
        answer = call.answer
        self.world.tell(f"{self.name} joined: {call.error.name} {answer.generation_id} {answer.member_id}")
        if call.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
        elif call.error is ErrorCode.NONE:
            self.member_id = answer.member_id
            self._joined, self._must_join = call, False
        else:
            self._react(call.error)

    def _has_synced(self, call: Call, generation: int, topics_version: int) -> None:
        self.world.tell(f"{self.name} synced in {generation}: {call.error.name} {call.answer.assignment.hex()}")
        if call.error is not ErrorCode.NONE:
            self._react(call.error)
            return
        assert generation >= self.told_epoch, (self.name, self.told_epoch, generation)
        self.epoch = generation
        self.told_epoch = 0 if self.world.watch.is_gone(self) else generation  # a group may begin anew meanwhile
        self.world.watch.has_synced((self.group_id, self.member_id), generation)
        self._topics_version = topics_version
        assigned = call.answer.assignment
        topics = self.world.host.topics
        self.assignment = frozenset(
            (topic_id, partition)
            for each in (read_assignment(assigned).assigned_partitions if assigned else ())
            if (topic_id := topics.topic_id(each.topic)) is not None
            for partition in each.partitions
        )
        self.holds = self.assignment if self.is_stray else self.holds | self.assignment
        # The answer may have been on its way for long, while the group went on, or was converted, without the member.
        self.is_stray = generation != self._generation_of_group()
        self.world.assignments += 1

    def _generation_of_group(self) -> int | None:
        """As the coordinator knows it, for this member."""
        group = self.world.host.state_of(self.group_id).groups.get(self.group_id)
        if isinstance(group, ConsumerGroup):
            member = group.members.get(self.member_id)
            return None if member is None else member.epoch
        return group.generation if isinstance(group, ClassicGroup) else None

    def _react(self, error: ErrorCode) -> None:
        """As classic clients do."""
        if error is ErrorCode.REBALANCE_IN_PROGRESS:
            self._must_join = True
        elif error is ErrorCode.ILLEGAL_GENERATION:
            self.epoch, self._must_join = JOIN, True
            self.drop()
        elif error is ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
            self.forget()
        elif error in DIES_OF:
            self._dies_of(error)
        else:
            assert error is ErrorCode.NONE or error in COME_AGAIN, error

    def _refused(self, error: ErrorCode) -> None:
        if error is ErrorCode.GROUP_ID_NOT_FOUND:
            self._dies_of(error)
        else:
            super()._refused(error)

    def _dies_of(self, error: ErrorCode) -> None:
        """Where the policy forbids the one protocol, the operator tries the other."""
        self._was_refused = error in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        self.die()


def shared_out(topics: FakeTopics, members: Any, *, is_eager: bool) -> list[SyncGroupRequestAssignment]:
    """What a leader assigns. Cooperatively: a partition that another member owns is given to nobody for now."""
    read = {each.member_id: read_subscription(each.metadata) for each in members}
    owner = {
        (topic.topic, partition): member_id
        for member_id in sorted(read)
        for topic in ([] if is_eager else read[member_id].owned_partitions)
        for partition in topic.partitions
    }
    rows: dict[str, dict[str, list[int]]] = {member_id: {} for member_id in sorted(read)}
    for name in sorted({name for subscription in read.values() for name in subscription.topics}):
        subscribers = [member_id for member_id in sorted(read) if name in read[member_id].topics]
        for partition in range(topics.partition_count(name)):
            member_id = subscribers[partition % len(subscribers)]
            if owner.get((name, partition), member_id) == member_id:
                rows[member_id].setdefault(name, []).append(partition)
    return [
        SyncGroupRequestAssignment(
            member_id,
            pack_assignment(ConsumerProtocolAssignment([TopicPartition(*row) for row in assigned.items()]), 0),
        )
        for member_id, assigned in rows.items()
    ]
