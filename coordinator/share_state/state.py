"""What one shard of the share coordinator knows: the share partitions in one partition of __share_group_state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kohort.coordinator.share_state.keys import SharePartitionKey
from kohort.coordinator.share_state.share_group_offset import ShareGroupOffset
from kohort.coordinator.state import State

if TYPE_CHECKING:
    from kohort.coordinator.shard_state import Topics


@dataclass(slots=True, frozen=True)
class ShareCoordinatorConfig:
    """In Kafka's units and with Kafka's defaults."""

    updates_per_snapshot: int = 500
    cold_snapshot_interval_ms: int = 300_000
    audit_headers: bool = True


class ShareState(State):
    __slots__ = ("config", "last_tombstone", "offsets", "topics")

    def __init__(self, partition: int, config: ShareCoordinatorConfig, topics: Topics) -> None:
        super().__init__(partition)
        self.config = config
        self.topics = topics
        self.offsets: dict[SharePartitionKey, ShareGroupOffset] = {}
        self.last_tombstone = 0  # where it stands in the log

    def is_known(self, key: SharePartitionKey) -> bool:
        """Whether there is such a partition of a topic."""
        name = self.topics.name_of(key.topic_id)
        return name is not None and key.partition < self.topics.partition_count(name)
