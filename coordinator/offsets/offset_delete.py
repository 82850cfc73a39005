"""OffsetDelete (47), v0: forget offsets of topics that the group does not consume (KIP-496)."""

from __future__ import annotations

from typing import Any

from kohort.coordinator.classic.group import CONSUMER, ClassicGroup
from kohort.coordinator.classic.state import EMPTY
from kohort.coordinator.foreign import SHARE
from kohort.coordinator.offsets.answers import merged
from kohort.coordinator.offsets.expiration import offset_tombstone
from kohort.coordinator.outcome import Call, Outcome
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def offset_delete(shard: ShardState, request: OffsetDeleteRequest, call: Call) -> Any:
    if refusal := refused(request):
        return refusal
    group, foreign = shard.groups.get(request.group_id), shard.foreign.get(request.group_id)
    if group is None and (foreign is None or foreign.type == SHARE):
        return OffsetDeleteResponse(ErrorCode.GROUP_ID_NOT_FOUND)
    if group is not None and group.state is not EMPTY and group.protocol_type != CONSUMER:
        return OffsetDeleteResponse(ErrorCode.NON_EMPTY_GROUP)
    out = Outcome()
    unknown: dict[str, OffsetDeleteResponseTopic] = {}
    asked: list[tuple[str, OffsetDeleteResponseTopic]] = []
    for topic in request.topics:
        missing, known = _split(shard, topic)
        if missing:
            empty = OffsetDeleteResponseTopic(topic.name, [])
            unknown.setdefault(topic.name, empty).partitions.extend(  # type: ignore[attr-defined]
                OffsetDeleteResponsePartition(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for index in missing
            )
        if known:
            in_use = _is_subscribed(group, topic.name) if group else foreign is not None and foreign.has_members
            answers = _delete(shard, request.group_id, topic.name, known, in_use, out)
            asked.append((topic.name, OffsetDeleteResponseTopic(topic.name, answers)))
    answer = OffsetDeleteResponse(0, 0, merged(unknown, asked))
    if not out.records:
        return answer  # what is gone already may be so by a tombstone that is not durable yet: then it waits
    out.reply(call, answer)
    return out


def refused(request: OffsetDeleteRequest) -> OffsetDeleteResponse | None:
    """What is wrong whatever the group is, and whether or not its shard is loaded."""
    return None if request.group_id else OffsetDeleteResponse(ErrorCode.INVALID_GROUP_ID)


def _split(shard: ShardState, topic: OffsetDeleteRequestTopic) -> tuple[list[int], list[int]]:
    """Partitions that do not exist, and those that do."""
    count = shard.topics.partition_count(topic.name)
    indexes = [partition.partition_index for partition in topic.partitions]
    return [i for i in indexes if not 0 <= i < count], [i for i in indexes if 0 <= i < count]


def _is_subscribed(group: ClassicGroup, topic: str) -> bool:
    return group.state is not EMPTY and group.is_subscribed_to(topic)


def _delete(
    shard: ShardState, group_id: str, topic: str, indexes: list[int], in_use: bool, out: Outcome
) -> list[OffsetDeleteResponsePartition]:
    if in_use:
        return [OffsetDeleteResponsePartition(index, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC) for index in indexes]
    offsets = shard.offsets
    for index in indexes:
        if offsets.get(group_id, topic, index) or offsets.has_pending(group_id, topic, index):
            out.records.append(offset_tombstone(group_id, topic, index))
    return [OffsetDeleteResponsePartition(index, 0) for index in indexes]
