"""What one shard of the group coordinator knows: its groups, its offsets, and what the host gives it."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, Protocol

from kohort.coordinator.config import (
    ConsumerGroupSettings,
    ConsumerSettings,
    GroupConfig,
    ShareGroupSettings,
    ShareSettings,
)
from kohort.coordinator.group import Group
from kohort.coordinator.offset_store import ByPartition, OffsetStore
from kohort.coordinator.outcome import Outcome
from kohort.coordinator.state import State
from kohort.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kohort.coordinator.consumer.group import ConsumerGroup
    from kohort.coordinator.consumer.member import ConsumerMember


class Topics(Protocol):
    """The topics of this broker, as far as groups need them."""

    version: int  # rises with every change of topics
    created_version: int  # the version when a topic was last created

    def names(self) -> Iterable[str]: ...

    def topic_id(self, name: str) -> bytes | None:
        """None: there is no such topic."""
        ...

    def name_of(self, topic_id: bytes) -> str | None: ...

    def partition_count(self, name: str) -> int:
        """0: there is no such topic."""
        ...


class Downgrade(Protocol):
    """How a consumer group becomes a classic one: see conversion.py, which stands above the kinds of groups."""

    def __call__(
        self,
        shard: ShardState,
        group: ConsumerGroup,
        gone: Sequence[str],
        joining: ConsumerMember | None,
        rebalances: bool,
        out: Outcome,
    ) -> bool: ...


class DowngradeInPieces(Protocol):
    """The same for a group that is too large for one step, and has classic members only."""

    def __call__(self, shard: ShardState, group: ConsumerGroup, trigger: str) -> Iterator[Outcome]: ...


class ShardState(State):
    __slots__ = (
        "config", "consumer", "downgrade", "downgrade_in_pieces", "groups", "offsets", "random", "share", "topics",
    )  # fmt: skip

    def __init__(
        self, partition: int, config: GroupConfig, consumer: ConsumerSettings, share: ShareSettings, topics: Topics,
        random: Random,
    ) -> None:  # fmt: skip
        super().__init__(partition)
        self.config = config
        self.consumer = consumer
        self.share = share
        self.topics = topics
        self.random = random
        self.groups: dict[str, Group] = {}
        self.offsets = OffsetStore()
        self.downgrade: Downgrade  # the shard sets both
        self.downgrade_in_pieces: DowngradeInPieces

    def replace(self, group: Group) -> None:
        """From now on this object is the group of its id."""
        self.end(group.group_id)
        self.groups[group.group_id] = group

    def end(self, group_id: str) -> None:
        """Forget the group. Only a group without members ends, so nobody waits for an answer of it."""
        group = self.groups.pop(group_id, None)
        if group is not None:
            out = Outcome()
            group.abandon(ErrorCode.UNKNOWN_MEMBER_ID, out)
            assert not out.at_once, group_id

    def offsets_of(self, group_id: str) -> dict[str, ByPartition]:
        """The group's offsets by topic. A log can hold offsets of a deleted group; like Kafka, do not show them."""
        return self.offsets.topics(group_id) if group_id in self.groups else {}

    def consumer_settings(self, group_id: str) -> ConsumerGroupSettings:
        """What holds for this consumer group now."""
        consumer = self.consumer
        return consumer.own.get(group_id, consumer.of_broker)

    def share_settings(self, group_id: str) -> ShareGroupSettings:
        """What holds for this share group now."""
        share = self.share
        return share.own.get(group_id, share.of_broker)

    def new_member_id(self, prefix: str) -> str:
        """The client's or the instance's id, a dash, and a random UUID."""
        bits = self.random.getrandbits(128) & ~(0xF << 76) & ~(0x3 << 62) | 0x4 << 76 | 0x2 << 62
        h = f"{bits:032x}"
        return f"{prefix}-{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}"

    def new_uuid(self) -> str:
        """An id as Kafka makes them: 16 random bytes in base64, never with a dash in front."""
        while (made := urlsafe_b64encode(self.random.randbytes(16)).decode().rstrip("=")).startswith("-"):
            pass
        return made
