"""What every coordinator's shard knows: which partition it is, what time it is there, and what waits for a deadline."""

from __future__ import annotations

from kohort.coordinator.purgatory import Purgatory
from kohort.coordinator.shard_clock import ShardClock


class State:
    __slots__ = ("clock", "partition", "purgatory")

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.clock = ShardClock()
        self.purgatory = Purgatory()
