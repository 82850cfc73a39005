"""Consumer groups of KIP-848: members that join, hang, die and come back, and topics that come, go and grow.

Checked after each event:

    group epochs and assignment epochs only rise, also over crashes; so do the epochs that a member is told
    no partition is held by two members. A member holds a partition from the answer that assigns it until it has given
        it up, or was removed: because it left, was silent for a whole session, or took too long to give up partitions
    the coordinator knows of each partition that a member holds
    a member that was removed changes nothing: its heartbeats and commits are refused, and a refusal changes no group
    the targets of an epoch share out all partitions, each once
    the log alone obeys the same rules, and those by which Kafka loads it
    replaying the log gives what is in memory; so does a log that is replayed twice, or compacted
    an acknowledged offset is never lost

At the end nothing goes wrong any more: every group is Stable within CALM_MS, and each partition of a subscribed topic
has one owner, who subscribes to it. A crash after that changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from random import Random
from typing import Any, NamedTuple

from kohort.coordinator import api, conversion, planning
from kohort.coordinator.assignors import java_order, server_range, server_side, uniform, uniform_unequal
from kohort.coordinator.classic import delayed_join
from kohort.coordinator.config import ConsumerGroupSettings
from kohort.coordinator.consumer import classic_join, member_update, removal, resolve, target
from kohort.coordinator.consumer.group import find_consumer
from kohort.coordinator.group import Group
from kohort.coordinator.group_runtime import GroupRuntime
from kohort.coordinator.shard import Shard, Status
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kohort.protocol.messages.delete_groups import DeleteGroupsRequest
from tests.coordinator.members import fetched
from tests.coordinator.support import Call, FakeTopics, Host
from tests.simulation.consumer_checks import Watch, held
from tests.simulation.consumer_client import JOIN, TOPICS, Consumer, Holds, Place
from tests.simulation.log_checks import LogWatch
from tests.simulation.replacing import replaced
from tests.simulation.world import COME_AGAIN, Chances, World, compacted, consumer_groups, hard_state

GROUPS = ("alpha", "beta", "gamma")
CLIENTS = 9
CALM_MS = 180_000  # two sessions, a rebalance timeout and a few refreshes of regular expressions
AFTERWARDS_MS = 5_000
MAX_PARTITIONS = 9
FETCH_ERRORS = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND)


class Expected(NamedTuple):
    """A commit on its way."""

    place: Place
    offset: int
    number: int  # counts all commits
    was_gone: bool  # the coordinator had removed the member before
    rivals: list[str]  # members that held the partition, too


class ConsumerWorld(World):
    groups = GROUPS
    calm_ms = CALM_MS
    processes_take_over = False  # a process with the other protocol takes over from a static member at once

    def __init__(self, seed: int) -> None:
        random = Random(seed)
        settings = ConsumerGroupSettings(
            session_timeout_ms=random.choice((6_000, 10_000, 45_000)),
            assignment_interval_ms=random.choice((0, 1_000, 1_000)),
        )
        super().__init__(seed, random, self._new_host(seed, random, settings))
        self.host.does_pieces_at_once = False
        self.restlessness = random.choice((0.02, 0.06, 0.12))  # how often a client does more than it must
        self._pace_ms = random.choice((200, 800, 2_000))
        self.goes_in_small_steps = random.random() < 0.3
        self.watch = Watch(self)
        self.assignments = 0
        self._logs = [LogWatch() for _ in range(self.host.partition_count)]
        self._shadows = self._new_shadows()
        self._commits = 0
        self._offsets: dict[tuple[str, Place], int] = {}  # the last that was sent
        self._acknowledged: dict[tuple[str, Place], int] = {}
        self._deletions: dict[str, list[Call]] = {}  # of groups, on their way
        self._deleted_at: dict[str, int] = {}  # number of the last commit before
        self.clients: list[Consumer] = [self._client(n) for n in range(CLIENTS)]

    def _new_host(self, seed: int, random: Random, settings: ConsumerGroupSettings) -> Host:
        return Host(
            seed=seed, partition_count=2, topics=FakeTopics(orders=6, payments=3), consumer=settings,
            consumer_max_size=random.choice((2, 100, 100)),
            consumer_assignors=random.choice((("uniform", "range"), ("range", "uniform"))),
        )  # fmt: skip

    def _client(self, n: int) -> Consumer:
        return Consumer(self, f"c{n}", GROUPS[n % len(GROUPS)], f"desk{n}" if self.random.random() < 0.4 else None)

    def _new_shadows(self) -> list[Shard[ShardState]]:
        return GroupRuntime(self.host.config, self.host.topics, Random(0), self.host.partition_count).shards

    def chances(self) -> Chances:
        return [
            (0.56, self.someone_acts),
            (0.12, self.time_passes),
            (0.20, self.disk_writes),
            (0.08, self.shards_load),
            (0.015, self.disk_fails),
            (0.005, self.broker_crashes),
            (0.005, self.retention_is_checked),
            (0.05, self.work_goes_on),
            (0.02, self.topics_change),
            (0.003, self.clock_is_set),
            (0.004, self.group_is_deleted),
            (0.01, self.somebody_looks),
        ]

    def time_passes(self) -> None:
        self.host.advance(int(self.random.expovariate(1 / self._pace_ms)))

    def run(self, steps: int) -> None:
        with in_small_steps(self.goes_in_small_steps):
            super().run(steps)

    # --- what happens

    def work_goes_on(self) -> None:
        """A piece of what is done in pieces: targets of large groups, regular expressions, tombstones."""
        self.host.runtime.go_on(self.host.steady_ms, self.host.now)
        self.host.settle()

    def topics_change(self) -> None:
        topics, name = self.host.topics, self.random.choice(TOPICS)
        if topics.topic_id(name) is None:
            count = self.random.randint(1, 4)
            topics.create(name, count)
            self.tell(f"{name} is created with {count}")
        elif self.random.random() < 0.4:
            self.host.delete_topic(name)
            self.tell(f"{name} is deleted")
        elif (count := topics.partition_count(name)) < MAX_PARTITIONS:
            topics.grow(name, count + 1)
            self.tell(f"{name} grows to {count + 1}")

    def clock_is_set(self) -> None:
        by_ms = self.random.choice((-3_600_000, -5_000, 5_000, 3_600_000))
        self.host.set_clock(by_ms)
        self.tell(f"the clock is set by {by_ms}")

    def group_is_deleted(self) -> None:
        group_id = self.random.choice(GROUPS)
        call = self.host.send(DeleteGroupsRequest([group_id]))
        self.hang_up(call)
        self._deletions.setdefault(group_id, []).append(call)
        self.tell(f"somebody deletes {group_id}")

    def somebody_looks(self) -> None:
        self.hang_up(self.host.send(ConsumerGroupDescribeRequest(list(GROUPS))))

    def broker_crashes(self) -> None:
        super().broker_crashes()
        for group_id in list(self._deletions):
            self._may_be_deleted(group_id)

    # --- what clients say, and ask

    def commits(self, client: Consumer, place: Place) -> Expected:
        key = client.group_id, place
        self._commits += 1
        self._offsets[key] = self._offsets.get(key, 0) + 1
        rivals = [] if client.is_stray else self.watch.others_holding(client, place)
        return Expected(place, self._offsets[key], self._commits, self.watch.is_gone(client), rivals)

    def acknowledged(self, client: Consumer, commit: Expected) -> None:
        assert not commit.was_gone, f"a commit of {client.member_id}, which is removed, is taken"
        assert not commit.rivals, f"{client.member_id} commits what {commit.rivals} hold"
        group_id = client.group_id
        if group_id not in self._deletions and commit.number > self._deleted_at.get(group_id, 0):
            key = group_id, commit.place
            self._acknowledged[key] = max(commit.offset, self._acknowledged.get(key, 0))

    def floor_of(self, group_id: str) -> dict[tuple[str, int], int]:
        """What a fetch that is sent now must at least find."""
        if group_id in self._deletions:
            return {}
        return {
            (name, partition): offset
            for (group, (topic_id, partition)), offset in self._acknowledged.items()
            if group == group_id and (name := self.host.topics.name_of(topic_id)) is not None
        }

    def fetched(self, client: Consumer, call: Call, floor: dict[tuple[str, int], int]) -> None:
        error = ErrorCode(call.answer.groups[0].error_code)
        if error is not ErrorCode.NONE:
            assert error in COME_AGAIN or error in FETCH_ERRORS, error
            return
        found = {place: row.committed_offset for place, row in fetched(call).items()}
        for place, offset in floor.items():
            if place in found:
                assert found[place] >= offset, (client.group_id, place, found[place], offset)

    def _may_be_deleted(self, group_id: str) -> None:
        """Whatever was committed before may be gone."""
        del self._deletions[group_id]
        self._deleted_at[group_id] = self._commits
        self._acknowledged = {key: offset for key, offset in self._acknowledged.items() if key[0] != group_id}

    # --- what must hold

    def check(self) -> None:
        for group_id, calls in list(self._deletions.items()):
            if all(call.is_answered for call in calls):
                self._may_be_deleted(group_id)
        for shard in self.host.runtime.shards:
            log = self.log(shard.partition)
            for batch in self._logs[shard.partition].read(log):
                list(self._shadows[shard.partition].load_chunk(batch, len(batch)))
            if shard.status is Status.ACTIVE and not shard.has_pending_writes:
                self._compare(shard)
        self.watch.check()

    def is_unfinished(self, group: Group) -> bool:
        """Whether the group may have partitions without an owner until something begins a rebalance."""
        return False

    def _compare(self, shard: Shard[ShardState]) -> None:
        """All of the log is in memory, and nothing else."""
        replayed = self._shadows[shard.partition]
        assert self.durable(replayed.state) == self.durable(shard.state), "the log does not say what is in memory"

    def durable(self, state: ShardState) -> Any:
        """What the log says at any time."""
        return hard_state(state)

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
        self._check_offsets()
        self._check_restart()

    def _come_to_rest(self) -> None:
        until = self.host.steady_ms + self.calm_ms
        while self.host.steady_ms < until and self._unrest():
            self._everyone_goes_on()
        assert not (problem := self._unrest()), f"{problem}, after {self.calm_ms} ms without a fault"

    def _everyone_goes_on(self) -> None:
        for client in self.clients:
            if not client.is_alive:
                client.start()
            client.is_alive, client.is_hanging = True, False
            client.go_on()
        self.host.advance(1_000)
        self.check()

    def _unrest(self) -> str | None:
        """What is not as it will be."""
        for group_id in GROUPS:
            if problem := self._unrest_of(group_id):
                return f"{group_id}: {problem}"
        return None

    def _unrest_of(self, group_id: str) -> str | None:
        group = find_consumer(self.host.state_of(group_id), group_id)
        if group is None or group.state_name != "Stable":
            return "no group" if group is None else group.state_name
        return self._unrest_of_clients(group_id, {each: held(member) for each, member in group.members.items()})

    def _unrest_of_clients(self, group_id: str, members: Mapping[str, Holds | None]) -> str | None:
        """`members`: what the coordinator believes that they hold; None: it does not know."""
        clients = [client for client in self.clients if client.group_id == group_id]
        consuming = {client.member_id: client for client in clients if client.epoch != JOIN}
        if len(consuming) < min(len(clients), self.host.config.consumer_max_size):
            return f"only {sorted(consuming)} consume"
        if set(consuming) != set(members):
            return f"{sorted(members)} are members, {sorted(consuming)} consume"
        owned = sorted(place for client in consuming.values() for place in client.holds)
        wanted = {member_id: self._wanted(client) for member_id, client in consuming.items()}
        if owned != sorted(set().union(*wanted.values())):
            return f"{owned} are owned, not all that are wanted"
        for member_id, client in consuming.items():
            if client.holds != client.assignment or members[member_id] not in (None, client.holds):
                return f"{member_id} has not yet what it shall have"
            if not client.holds <= wanted[member_id]:
                return f"{member_id} has what it does not want"
        return None

    def _wanted(self, client: Consumer) -> set[Place]:
        topics = self.host.topics
        return {
            (topic_id, partition)
            for name in topics.names()
            if name in client.names or (client.regex and re.fullmatch(client.regex, name))
            if (topic_id := topics.topic_id(name)) is not None
            for partition in range(topics.partition_count(name))
        }

    def _check_offsets(self) -> None:
        for (group_id, (topic_id, partition)), offset in self._acknowledged.items():
            name = self.host.topics.name_of(topic_id)
            if name is not None:
                stored = self.host.state_of(group_id).offsets.get(group_id, name, partition)
                assert stored is not None, (group_id, name, partition, offset)
                assert offset <= stored.offset <= self._offsets[group_id, (topic_id, partition)]

    def _check_restart(self) -> None:
        """A broker that starts again disturbs nobody. It only looks through the topics for regular expressions anew."""
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

    def _epochs(self) -> dict[str, int]:
        """Of groups without regular expressions."""
        groups = [group for shard in self.host.runtime.shards for group in consumer_groups(shard.state)]
        return {group.group_id: group.epoch for group in groups if not group.subscriptions.regexes}


def in_small_steps(wanted: bool) -> AbstractContextManager[None]:
    """Every group counts as a large one, which is converted, and whose target is computed and written, in pieces."""
    if not wanted:
        return nullcontext()
    return replaced(
        (member_update, "SMALL_GROUP", 0), (target, "STEPS_IN_PIECE", 1), (api, "ELEMENTS_IN_STEP", 1),
        (conversion, "FEW_MEMBERS", 0), (removal, "FEW_MEMBERS", 0), (classic_join, "FEW_MEMBERS", 0),
        (conversion, "MEMBERS_IN_STEP", 1), (target, "MEMBERS_IN_STEP", 1),
        (planning, "MEMBERS_IN_STEP", 1), (delayed_join, "FEW_MEMBERS", 0),
        (planning, "RECORDS_IN_PIECE", 1), (resolve, "FEW_TOPICS", 0), (java_order, "KEYS_IN_STEP", 1),
        *((module, "TOPICS_IN_STEP", 1) for module in (server_side, server_range, uniform, uniform_unequal, target)),
    )  # fmt: skip
