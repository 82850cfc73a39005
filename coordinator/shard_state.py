"""What one shard knows: its groups, its offsets, who waits, and the few things that the host lends it."""

from __future__ import annotations

from random import Random
from typing import Protocol

from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.config import GroupConfig
from kohort.coordinator.foreign import ForeignGroup
from kohort.coordinator.offsets.store import OffsetStore
from kohort.coordinator.purgatory import Purgatory


class Topics(Protocol):
    """The topics of this broker, as far as offsets need them."""

    version: int  # another one after each change of what the methods say

    def topic_id(self, name: str) -> bytes | None:
        """None: there is no such topic."""
        ...

    def name_of(self, topic_id: bytes) -> str | None: ...

    def partition_count(self, name: str) -> int:
        """0: there is no such topic."""
        ...


class ShardState:
    __slots__ = ("config", "foreign", "groups", "is_abandoned", "offsets", "partition", "purgatory", "random", "topics")

    def __init__(self, partition: int, config: GroupConfig, topics: Topics, random: Random) -> None:
        self.partition = partition
        self.config = config
        self.topics = topics
        self.random = random
        self.groups: dict[str, ClassicGroup] = {}
        self.foreign: dict[str, ForeignGroup] = {}  # none of these is in `groups`
        self.offsets = OffsetStore()
        self.purgatory = Purgatory()
        self.is_abandoned = False  # it was ahead of its log, or that is gone: another has taken its place

    def new_member_id(self, prefix: str) -> str:
        """The client's or the instance's id, a dash, and a random UUID."""
        bits = self.random.getrandbits(128) & ~(0xF << 76) & ~(0x3 << 62) | 0x4 << 76 | 0x2 << 62
        h = f"{bits:032x}"
        return f"{prefix}-{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}"
