"""Share groups (KIP-932): members that join, hang, die and come back, topics that come, go and grow, and a share
coordinator that is slow, refuses, and whose answers are lost.

Checked after each event:

    group epochs and assignment epochs only rise; so do the epochs that a member is told
    a partition is assigned only if it is initialized, and it is initialized only if the share coordinator has its state
    what a member was told in its epoch is what the coordinator believes that it has, and part of its target
    nobody is removed who was heard within a session; a member that was removed changes nothing, and no refusal does
    the log alone obeys the rules by which Kafka loads it
    replaying the log gives what is in memory; so does a log that is replayed twice, or compacted

At the end nothing goes wrong any more: within CALM_MS all members have reached the newest epoch, and each partition of
a subscribed topic is read by somebody who subscribes to it. A crash after that changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from random import Random
from typing import Any

from kohort.coordinator import api, planning
from kohort.coordinator.assignors import java_order, server_side, simple
from kohort.coordinator.config import ShareGroupSettings
from kohort.coordinator.events import InitializeStates
from kohort.coordinator.group_runtime import GroupRuntime
from kohort.coordinator.outcome import PARKED
from kohort.coordinator.shard import Shard, Status
from kohort.coordinator.shard_state import ShardState
from kohort.coordinator.share import share_group_heartbeat, target
from kohort.coordinator.share.group import find_share
from kohort.coordinator.share.initialization import STATES_INITIALIZED, StatesInitialized
from kohort.coordinator.share.offsets import BEGIN_GROUP_DELETION, AboutGroup, PartOfGroup
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.delete_groups import DeleteGroupsRequest
from kohort.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from tests.coordinator.share.words import NobodysCall
from tests.coordinator.support import FakeTopics, Host
from tests.simulation.replacing import replaced
from tests.simulation.share_checks import ShareLogWatch, ShareWatch
from tests.simulation.share_client import JOIN, TOPICS, Place, Sharer
from tests.simulation.world import Chances, World, compacted, hard_state

GROUPS = ("alpha", "beta", "gamma")
CLIENTS = 9
CALM_MS = 180_000  # two sessions, and a few initializations that are begun again
AFTERWARDS_MS = 5_000
MAX_PARTITIONS = 9


class ShareWorld(World):
    groups = GROUPS

    def __init__(self, seed: int) -> None:
        random = Random(seed)
        settings = ShareGroupSettings(
            session_timeout_ms=random.choice((6_000, 10_000, 45_000)),
            assignment_interval_ms=random.choice((0, 1_000, 1_000)),
        )
        host = Host(
            seed=seed, partition_count=2, topics=FakeTopics(orders=6, payments=3), share=settings,
            share_max_size=random.choice((2, 200, 200)),
        )  # fmt: skip
        super().__init__(seed, random, host)
        self.host.does_pieces_at_once = False
        self.restlessness = random.choice((0.02, 0.06, 0.12))  # how often a client does more than it must
        self._pace_ms = random.choice((200, 800, 2_000))
        self.goes_in_small_steps = random.random() < 0.3
        self.watch = ShareWatch(self)
        self.assignments = 0
        self.states: set[tuple[str, Place]] = set()  # that the share coordinator has
        self._deleting: list[tuple[str, PartOfGroup | NobodysCall]] = []  # groups whose states shall be deleted
        self._logs = [ShareLogWatch() for _ in range(self.host.partition_count)]
        self._shadows = GroupRuntime(self.host.config, self.host.topics, Random(0), self.host.partition_count).shards
        self.clients: list[Sharer] = [Sharer(self, f"s{n}", GROUPS[n % len(GROUPS)]) for n in range(CLIENTS)]

    def chances(self) -> Chances:
        return [
            (0.56, self.someone_acts),
            (0.12, self.time_passes),
            (0.20, self.disk_writes),
            (0.08, self.shards_load),
            (0.015, self.disk_fails),
            (0.005, self.broker_crashes),
            (0.05, self.work_goes_on),
            (0.05, self.share_coordinator_answers),
            (0.02, self.topics_change),
            (0.003, self.clock_is_set),
            (0.004, self.group_is_deleted),
            (0.01, self.deletion_goes_on),
            (0.01, self.somebody_looks),
        ]

    def time_passes(self) -> None:
        self.host.advance(int(self.random.expovariate(1 / self._pace_ms)))

    def run(self, steps: int) -> None:
        with in_small_steps(self.goes_in_small_steps):
            super().run(steps)

    # --- what happens

    def work_goes_on(self) -> None:
        self.host.runtime.go_on(self.host.steady_ms, self.host.now)
        self.host.settle()

    def share_coordinator_answers(self) -> None:
        """One of the questions that it was asked; or the answer is lost."""
        asked = [event for event in self.host.events if isinstance(event, InitializeStates)]
        self.host.events = list(asked)
        if not asked:
            return
        event = self.random.choice(asked)
        self.host.events.remove(event)
        fate = 0.0 if self.is_calm else self.random.random()
        error = self.random.choice((ErrorCode.NOT_COORDINATOR, ErrorCode.UNKNOWN_SERVER_ERROR))
        partitions: dict[bytes, list[int]] = {}
        for topic_id, partition, _ in event.partitions:
            partitions.setdefault(topic_id, []).append(partition)
            if fate < 0.85 and self.host.topics.name_of(topic_id) is not None:
                self.states.add((event.group, (topic_id, partition)))
        in_order = {topic_id: tuple(sorted(some)) for topic_id, some in partitions.items()}
        self.tell(f"states of {event.group} in epoch {event.state_epoch}: {fate:.2f}")
        if fate < 0.75:
            self._ask(event.group, STATES_INITIALIZED, StatesInitialized(event.group, in_order, ErrorCode.NONE))
        elif fate > 0.85:
            self._ask(event.group, STATES_INITIALIZED, StatesInitialized(event.group, in_order, error))

    def _ask(self, group_id: str, gadget: Any, request: Any) -> NobodysCall:
        call = NobodysCall(self.host)
        answer = self.host.runtime.submit(group_id, gadget, request, call)
        if answer is not PARKED:
            call.reply(answer)
        self.host.settle()
        return call

    def topics_change(self) -> None:
        topics, name = self.host.topics, self.random.choice(TOPICS)
        if (topic_id := topics.topic_id(name)) is None:
            count = self.random.randint(1, 4)
            topics.create(name, count)
            self.tell(f"{name} is created with {count}")
        elif self.random.random() < 0.4:
            self.host.delete_topic(name)
            self.states = {state for state in self.states if state[1][0] != topic_id}
            self.tell(f"{name} is deleted")
        elif (count := topics.partition_count(name)) < MAX_PARTITIONS:
            topics.grow(name, count + 1)
            self.tell(f"{name} grows to {count + 1}")

    def clock_is_set(self) -> None:
        by_ms = self.random.choice((-3_600_000, -5_000, 5_000, 3_600_000))
        self.host.set_clock(by_ms)
        self.tell(f"the clock is set by {by_ms}")

    def group_is_deleted(self) -> None:
        """The group says which states it has; they are deleted; then the group is."""
        group_id = self.random.choice(GROUPS)
        self._deleting.append((group_id, self._ask(group_id, BEGIN_GROUP_DELETION, AboutGroup(group_id))))
        self.tell(f"somebody deletes {group_id}")

    def deletion_goes_on(self) -> None:
        if not self._deleting:
            return
        group_id, call = self._deleting.pop(0)
        part = call.answer if isinstance(call, NobodysCall) else call
        if not isinstance(part, PartOfGroup) or part.error:
            return
        shard = self.host.shard_of(group_id)
        for state in (shard.state, self._shadows[shard.partition].state):  # in memory, and in the log
            group = find_share(state, group_id)
            if group is not None and any(topic_id in group.states.initialized for topic_id, _ in part.places):
                return  # somebody has joined meanwhile, and the partitions have new states
        self.states -= {(group_id, place) for place in part.places}
        self.hang_up(self.host.send(DeleteGroupsRequest([group_id])))

    def somebody_looks(self) -> None:
        self.hang_up(self.host.send(ShareGroupDescribeRequest(list(GROUPS))))

    def broker_crashes(self) -> None:
        self.host.events = []
        self._deleting = []
        super().broker_crashes()

    # --- what must hold

    def is_there(self, place: Place) -> bool:
        return self.host.topics.name_of(place[0]) is not None

    def initialized_without_state(self, group_id: str, partitions: Iterable[Place]) -> list[Place]:
        return [place for place in partitions if self.is_there(place) and (group_id, place) not in self.states]

    def check(self) -> None:
        for shard in self.host.runtime.shards:
            log = self.log(shard.partition)
            for batch in self._logs[shard.partition].read(log):
                list(self._shadows[shard.partition].load_chunk(batch, len(batch)))
            if shard.status is Status.ACTIVE and not shard.has_pending_writes:
                replayed = hard_state(self._shadows[shard.partition].state)
                assert replayed == hard_state(shard.state), "the log does not say what is in memory"
        self.watch.check()

    def load(self, shard: Shard[ShardState]) -> None:
        log = self.log(shard.partition)
        cleaned = compacted(log, self.random.randint(0, len(log)), self.random.random() < 0.5)
        assert hard_state(self.replayed(cleaned)) == hard_state(self.replayed(log)), "a compacted log"
        super().load(shard)

    # --- the end

    def calm_down(self) -> None:
        self.host.does_pieces_at_once = True
        self.host.disk_catches_up()
        self.check()
        self.shards_load()
        self.check()
        self._come_to_rest()
        self.check_everyone_is_answered()
        self.check_replay()
        self._check_restart()

    def _come_to_rest(self) -> None:
        until = self.host.steady_ms + CALM_MS
        while self.host.steady_ms < until and self._unrest():
            self._everyone_goes_on()
        assert not (problem := self._unrest()), f"{problem}, after {CALM_MS} ms without a fault"

    def _everyone_goes_on(self) -> None:
        for client in self.clients:
            if not client.is_alive:
                client.start()
            client.is_alive, client.is_hanging = True, False
            client.go_on()
        while any(isinstance(event, InitializeStates) for event in self.host.events):
            self.share_coordinator_answers()
        self.host.advance(1_000)
        self.check()

    def _unrest(self) -> str | None:
        """What is not as it will be."""
        for group_id in GROUPS:
            if problem := self._unrest_of(group_id):
                return f"{group_id}: {problem}"
        return None

    def _unrest_of(self, group_id: str) -> str | None:
        group = find_share(self.host.state_of(group_id), group_id)
        if group is None:
            return "no group"
        clients = [client for client in self.clients if client.group_id == group_id]
        reading = {client.member_id: client for client in clients if client.epoch != JOIN}
        if len(reading) < min(len(clients), self.host.config.share_max_size):
            return f"only {sorted(reading)} read"
        if set(reading) != set(group.members):
            return f"{sorted(group.members)} are members, {sorted(reading)} read"
        if {group.epoch} != {group.assignment_epoch, *(client.epoch for client in reading.values())}:
            return f"epoch {group.epoch} is not reached by all"
        wanted = {member_id: self._wanted(client) for member_id, client in reading.items()}
        if set().union(*(client.holds for client in reading.values())) != set().union(*wanted.values()):
            return "not all wanted partitions are read"
        if any(not client.holds <= wanted[member_id] for member_id, client in reading.items()):
            return "somebody has what it does not want"
        return None

    def _wanted(self, client: Sharer) -> set[Place]:
        topics = self.host.topics
        return {
            (topic_id, partition)
            for name in client.names
            if (topic_id := topics.topic_id(name)) is not None
            for partition in range(topics.partition_count(name))
        }

    def _check_restart(self) -> None:
        """A broker that starts again disturbs nobody."""
        epochs = self._epochs()
        for client in self.clients:
            client.disconnect()
        self.host.crash()
        until = self.host.steady_ms + AFTERWARDS_MS
        while self.host.steady_ms < until:
            self._everyone_goes_on()
        assert self._epochs() == epochs, "a restart has begun a rebalance"
        self._come_to_rest()
        self.tell(f"end: {[hard_state(shard.state) for shard in self.host.runtime.shards]}")

    def _epochs(self) -> list[int]:
        groups = [find_share(self.host.state_of(group_id), group_id) for group_id in GROUPS]
        return [group.epoch for group in groups if group is not None]


def in_small_steps(wanted: bool) -> AbstractContextManager[None]:
    """Every group counts as a large one, whose target is computed and written in pieces."""
    if not wanted:
        return nullcontext()
    return replaced(
        (share_group_heartbeat, "SMALL_GROUP", 0), (target, "STEPS_IN_PIECE", 1), (api, "ELEMENTS_IN_STEP", 1),
        (target, "MEMBERS_IN_STEP", 1), (planning, "MEMBERS_IN_STEP", 1), (planning, "RECORDS_IN_PIECE", 1),
        (java_order, "KEYS_IN_STEP", 1), (simple, "PLACES_IN_STEP", 1),
        *((module, "TOPICS_IN_STEP", 1) for module in (server_side, simple, target)),
    )  # fmt: skip
