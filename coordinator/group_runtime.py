"""All shards of the group coordinator: what a runtime does for groups alone."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from kohort.coordinator.config import ConsumerSettings, GroupConfig, ShareSettings
from kohort.coordinator.group import Pulse
from kohort.coordinator.group_shard import GroupShard
from kohort.coordinator.offsets.expiration import expire_offsets
from kohort.coordinator.offsets.plain_fetch import plain_answer
from kohort.coordinator.outcome import InPieces
from kohort.coordinator.pieces import PIECE
from kohort.coordinator.runtime import Runtime
from kohort.coordinator.shard import Shard, Status
from kohort.coordinator.shard_state import ShardState, Topics
from kohort.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from kohort.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kohort.protocol.wire import Encoded

ACTIVE = Status.ACTIVE


class GroupRuntime(Runtime[ShardState]):
    def __init__(self, config: GroupConfig, topics: Topics, random: Random, partition_count: int) -> None:
        self.config = config
        self.consumer = ConsumerSettings(config.consumer)
        self.share = ShareSettings(config.share)
        self._topics = topics
        self._random = random
        super().__init__(self._group_shard, partition_count, config.max_message_bytes)

    def _group_shard(self, partition: int) -> GroupShard:
        state = ShardState(partition, self.config, self.consumer, self.share, self._topics, self._random)
        return GroupShard(state)

    def pulse(
        self, request: HeartbeatRequest | ConsumerGroupHeartbeatRequest | ShareGroupHeartbeatRequest
    ) -> Pulse | None:
        """The fast path of the member whose heartbeat was just answered without an error."""
        shard = self.shard_of(request.group_id)
        group = shard.state.groups.get(request.group_id)
        if group is None or shard.status is not ACTIVE or shard.unwritten or shard.in_flight:
            return None
        if isinstance(request, HeartbeatRequest):
            return group.pulse(shard.state, request.member_id, request.group_instance_id, request.generation_id)
        instance_id = None if isinstance(request, ShareGroupHeartbeatRequest) else request.instance_id
        return group.pulse(shard.state, request.member_id, instance_id, request.member_epoch)

    def plain_fetch(self, group: OffsetFetchRequestGroup, require_stable: bool, version: int) -> Encoded | None:
        """The fast path of an OffsetFetch for one group. None: the normal handler must answer."""
        shard = self.known_shards.get(group.group_id)
        if shard is None or shard.status is not ACTIVE or shard.unwritten or shard.in_flight:
            return None
        return plain_answer(shard.state, group, require_stable, version)

    def limit_batches(self, max_message_bytes: int) -> None:
        super().limit_batches(max_message_bytes)
        self.config = replace(self.config, max_message_bytes=max_message_bytes)
        for shard in self.shards:
            shard.state.config = self.config

    def topics_deleted(self, topics: list[tuple[str, bytes]], *, at_once: bool = True) -> None:
        """Delete the offsets of deleted topics: at once if the groups are few."""
        few = sum(len(shard.state.groups) for shard in self.shards) < PIECE
        super().topics_deleted(topics, at_once=at_once and few)

    def expire_offsets(self, shard: Shard[ShardState]) -> None:
        self.begin_later(shard, InPieces(expire_offsets(shard.state)))
