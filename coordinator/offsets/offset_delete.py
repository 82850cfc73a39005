"""OffsetDelete (47), v0: forget offsets of topics that the group does not consume (KIP-496)."""

from __future__ import annotations

from typing import Any

from coordinator.classic.group import CONSUMER
from coordinator.classic.state import EMPTY
from coordinator.offsets.expiration import offset_tombstone
from coordinator.outcome import Call, Outcome
from coordinator.shard_state import ShardState
from protocol.error_codes import ErrorCode
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def offset_delete(shard: ShardState, request: OffsetDeleteRequest, call: Call) -> Any:
    if not request.group_id:
        return OffsetDeleteResponse(ErrorCode.INVALID_GROUP_ID)
    group = shard.groups.get(request.group_id)
    if group is None:
        return OffsetDeleteResponse(ErrorCode.GROUP_ID_NOT_FOUND)
    if group.state is not EMPTY and group.protocol_type != CONSUMER:
        return OffsetDeleteResponse(ErrorCode.NON_EMPTY_GROUP)
    out = Outcome()
    topics = []
    for topic in request.topics:
        subscribed = group.state is not EMPTY and group.is_subscribed_to(topic.name)
        topics.append(_delete(shard, request.group_id, topic, subscribed, out))
    out.reply(call, OffsetDeleteResponse(0, 0, topics))
    return out


def _delete(
    shard: ShardState, group_id: str, topic: OffsetDeleteRequestTopic, subscribed: bool, out: Outcome
) -> OffsetDeleteResponseTopic:
    count = shard.topics.partition_count(topic.name)
    answers = []
    for partition in topic.partitions:
        index = partition.partition_index
        error = 0
        if not 0 <= index < count:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif subscribed:
            error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        elif shard.offsets.get(group_id, topic.name, index) or shard.offsets.has_pending(group_id, topic.name, index):
            out.records.append(offset_tombstone(group_id, topic.name, index))
        answers.append(OffsetDeleteResponsePartition(index, error))
    return OffsetDeleteResponseTopic(topic.name, answers)
