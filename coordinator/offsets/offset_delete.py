"""OffsetDelete (47), v0: forget offsets of topics that the group does not consume (KIP-496)."""

from __future__ import annotations

from kohort.coordinator.api import GroupApi
from kohort.coordinator.offsets.answers import merged
from kohort.coordinator.outcome import Call, OffsetTombstones, Outcome
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.commit_record import MIN_KEY_BYTES
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kohort.protocol.record_batch import MIN_RECORD_BYTES


def offset_delete(shard: ShardState, request: OffsetDeleteRequest, call: Call) -> OffsetDeleteResponse | Outcome:
    if refusal := refused(request):
        return refusal
    group = shard.groups.get(request.group_id)
    if group is None:
        return OffsetDeleteResponse(ErrorCode.GROUP_ID_NOT_FOUND)
    if problem := group.check_offset_delete():
        return OffsetDeleteResponse(problem)
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
            answers = _delete(shard, request.group_id, topic.name, known, group.is_subscribed_to(topic.name), out)
            asked.append((topic.name, OffsetDeleteResponseTopic(topic.name, answers)))
    if _tombstone_bytes(out) > shard.config.max_message_bytes:
        return OffsetDeleteResponse(ErrorCode.UNKNOWN_SERVER_ERROR)  # as in Kafka: they must fit into one batch
    answer = OffsetDeleteResponse(0, 0, merged(unknown, asked))
    if not out.records:
        return answer
    out.reply(call, answer)
    return out


def refused(request: OffsetDeleteRequest) -> OffsetDeleteResponse | None:
    """Errors of the request itself: they do not depend on the group, nor on whether its shard is loaded."""
    return None if request.group_id else OffsetDeleteResponse(ErrorCode.INVALID_GROUP_ID)


def unavailable(shard: ShardState, request: OffsetDeleteRequest, call: Call, error: ErrorCode) -> OffsetDeleteResponse:
    return refused(request) or OffsetDeleteResponse(error)


def failed(response: OffsetDeleteResponse, version: int, error: ErrorCode) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error)


def _split(shard: ShardState, topic: OffsetDeleteRequestTopic) -> tuple[list[int], list[int]]:
    """Partitions that do not exist, and those that do."""
    count = shard.topics.partition_count(topic.name)
    indexes = [partition.partition_index for partition in topic.partitions]
    return [i for i in indexes if not 0 <= i < count], [i for i in indexes if 0 <= i < count]


def _tombstone_bytes(out: Outcome) -> int:
    """How many bytes of the log the tombstones need at least."""
    return sum(
        len(each.indexes) * (MIN_RECORD_BYTES + MIN_KEY_BYTES + len(each.group) + len(each.topic))
        for each in out.records
        if isinstance(each, OffsetTombstones)
    )


def _delete(
    shard: ShardState, group_id: str, topic: str, indexes: list[int], in_use: bool, out: Outcome
) -> list[OffsetDeleteResponsePartition]:
    if in_use:
        return [OffsetDeleteResponsePartition(index, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC) for index in indexes]
    offsets = shard.offsets
    gone = [
        index
        for index in dict.fromkeys(indexes)
        if offsets.get(group_id, topic, index) or offsets.has_pending(group_id, topic, index)
    ]
    if gone:
        out.records.append(OffsetTombstones(group_id, topic, gone))
    return [OffsetDeleteResponsePartition(index, 0) for index in indexes]


OFFSET_DELETE = GroupApi(offset_delete, unavailable, failed)
