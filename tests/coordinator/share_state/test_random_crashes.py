"""Random leaders, kill -9 and failing disks: what was answered is there, and nothing that was never asked for."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from kohort.coordinator.delivery.states import StateBatch
from kohort.coordinator.share_state.delete_share_group_state import DELETE
from kohort.coordinator.share_state.initialize_share_group_state import INITIALIZE, InitializeAsked
from kohort.coordinator.share_state.keys import SharePartitionKey
from kohort.coordinator.share_state.partition_api import Asked
from kohort.coordinator.share_state.read_share_group_state import READ, ReadAsked
from kohort.coordinator.share_state.write_share_group_state import WRITE, WriteAsked
from kohort.protocol.error_codes import ErrorCode
from tests.coordinator.share_state.support import Call, ShareHost

STEPS = 400
Facts = tuple[Any, ...] | None


class World:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.host = ShareHost(updates_per_snapshot=self.random.choice([0, 1, 3, 20]))
        self.keys = [self.host.key(partition, group) for group in ("g", "h", "i") for partition in range(3)]
        # What was known of each share partition after each of its changes; the log holds one of those since the answer.
        self.history: dict[SharePartitionKey, list[Facts]] = {key: [None] for key in self.keys}
        self.answered = dict.fromkeys(self.keys, 0)
        self.open: list[tuple[SharePartitionKey, int, Call]] = []

    def facts(self, key: SharePartitionKey) -> Facts:
        known = self.host.shard_of(key).state.offsets.get(key)
        if known is None:
            return None
        return (
            known.snapshot_epoch, known.state_epoch, known.leader_epoch, known.start_offset,
            known.delivery_complete_count, tuple(known.batches),
        )  # fmt: skip

    def step(self) -> None:
        kinds = [self.write, self.write, self.write, self.initialize, self.read, self.delete, self.disk, self.quiet]
        self.random.choice([*kinds, *kinds, *kinds, self.crash, self.fail])()
        self.take_answers()

    def take_answers(self) -> None:
        """An answer without an error promises that its change is durable."""
        for key, place, call in self.open:
            if call.answer is not None and call.answer.error is ErrorCode.NONE:
                self.answered[key] = max(self.answered[key], place)
        self.open = [each for each in self.open if each[2].answer is None]

    def ask(self, api: Any, asked: Asked) -> None:
        call = self.host.ask(api, asked)
        self.history[asked.key].append(self.facts(asked.key))
        self.open.append((asked.key, len(self.history[asked.key]) - 1, call))

    def write(self) -> None:
        key, first = self.random.choice(self.keys), self.random.randint(0, 40)
        known = self.host.shard_of(key).state.offsets.get(key)
        start = -1 if known is None or self.random.random() < 0.5 else max(known.start_offset, first - 5)
        batches = [
            StateBatch(first + 4 * number, first + 4 * number + self.random.randint(0, 6), 2, self.random.randint(1, 3))
            for number in range(self.random.randint(0, 3))
        ]
        self.ask(WRITE, WriteAsked(key, -1, -1, start, self.random.randint(0, 9), batches))

    def initialize(self) -> None:
        self.ask(INITIALIZE, InitializeAsked(self.random.choice(self.keys), 100, self.random.choice([-1, 7])))

    def read(self) -> None:
        self.ask(READ, ReadAsked(self.random.choice(self.keys), self.random.randint(0, 9)))

    def delete(self) -> None:
        if self.random.random() < 0.2:
            self.ask(DELETE, Asked(self.random.choice(self.keys)))

    def quiet(self) -> None:
        self.host.snapshot_cold_partitions()
        for key in self.keys:
            self.history[key].append(self.facts(key))

    def disk(self) -> None:
        self.host.is_slow = not self.host.is_slow
        if not self.host.is_slow:
            self.host.disk_catches_up()

    def crash(self) -> None:
        """Of what was on its way the disk may have the beginning."""
        writes, self.host.on_the_way = self.host.on_the_way, []
        for write in writes[: self.random.randint(0, len(writes))]:
            self.host.batches.setdefault(write.partition, []).extend(write.batches)
        self.open = []
        self.host.is_slow = False
        self.host.crash()
        self.check()

    def fail(self) -> None:
        """Every write that is on its way fails: those who wait are told, and the shards load their logs again."""
        writes, self.host.on_the_way = self.host.on_the_way, []
        for write in writes:
            self.host.runtime.write_failed(write, ErrorCode.NOT_COORDINATOR)
        self.host.is_slow = False
        self.host.settle()
        self.host.load()
        assert all(call.answer is not None for _, _, call in self.open)
        self.check()

    def check(self) -> None:
        for key, history in self.history.items():
            now = self.facts(key)
            assert now in history[self.answered[key] :], (key, now, history[self.answered[key] :])
            self.history[key], self.answered[key] = [now], 0


@pytest.mark.parametrize("seed", range(25))
def test_after_crashes_and_failures_the_states_are_those_that_were_answered(seed: int) -> None:
    world = World(seed)
    for _ in range(STEPS):
        world.step()
    world.disk()
    world.host.disk_catches_up()
    world.take_answers()
    world.crash()
