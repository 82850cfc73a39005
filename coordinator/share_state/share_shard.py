"""One partition of __share_group_state: how its records become states of share partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kohort.coordinator.outcome import Outcome
from kohort.coordinator.shard import Shard
from kohort.coordinator.share_state.keys import SharePartitionKey
from kohort.coordinator.share_state.share_group_offset import ShareGroupOffset
from kohort.coordinator.share_state.state import ShareState
from kohort.coordinator.share_state.upkeep import forget_topics
from kohort.protocol.messages.log_share_snapshot import ShareSnapshotKey, ShareSnapshotValue
from kohort.protocol.messages.log_share_update import ShareUpdateKey, ShareUpdateValue
from kohort.protocol.share_state_records import SHARE_GROUP_STATE
from kohort.protocol.wire import Message


class ShareShard(Shard[ShareState]):
    types = SHARE_GROUP_STATE

    def replay(self, record_type: int, key: Message, value: Message | None, log_offset: int) -> None:
        assert isinstance(key, (ShareSnapshotKey, ShareUpdateKey)), key
        state = self.state
        share_partition = SharePartitionKey(key.group_id, key.topic_id, key.partition)
        if value is None:
            state.offsets.pop(share_partition, None)
            state.last_tombstone = log_offset
            return
        found = state.offsets.get(share_partition)
        if found is None:
            found = state.offsets[share_partition] = ShareGroupOffset()
        if isinstance(value, ShareUpdateValue):
            found.replay_update(value)
        else:
            assert isinstance(value, ShareSnapshotValue), value
            found.replay_snapshot(value, log_offset, state.config.updates_per_snapshot)

    def forget_topics(self, topics: Sequence[tuple[str, bytes]]) -> Iterator[Outcome]:
        return forget_topics(self.state, {topic_id for _, topic_id in topics})
