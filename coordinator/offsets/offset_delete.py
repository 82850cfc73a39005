"""OffsetDelete (47), v0: forget offsets of topics that the group does not consume (KIP-496)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kohort.coordinator.api import GroupApi, Steps, all_steps, in_slices
from kohort.coordinator.offsets.answers import add, merged
from kohort.coordinator.outcome import Call, OffsetTombstones, Outcome
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.commit_record import MIN_KEY_BYTES
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kohort.protocol.record_batch import MIN_RECORD_BYTES


def offset_delete(shard: ShardState, request: OffsetDeleteRequest, call: Call) -> OffsetDeleteResponse | Outcome:
    return all_steps(in_steps(shard, request, call, None))


def in_steps(
    shard: ShardState, request: OffsetDeleteRequest, call: Call, error: ErrorCode | None
) -> Steps[OffsetDeleteResponse | Outcome]:
    if error is not None:
        return unavailable(shard, request, call, error)
    if refusal := refused(request):
        return refusal
    names: dict[str, None] = {}
    for topics in in_slices(request.topics):
        names.update(dict.fromkeys(topic.name for topic in topics))
        yield
    while True:
        before = _in_use(shard, request.group_id, names)
        if isinstance(before, ErrorCode):
            return OffsetDeleteResponse(before)
        decided = yield from _decide(shard, request, before)
        if (
            _in_use(shard, request.group_id, names) == before
        ):  # what the group consumes has not changed since the first step
            break
    if _tombstone_bytes(decided.out) > shard.config.max_message_bytes:
        return OffsetDeleteResponse(ErrorCode.UNKNOWN_SERVER_ERROR)  # as in Kafka: they must fit into one batch
    answer = OffsetDeleteResponse(0, 0, merged(decided.unknown, decided.asked))
    if not decided.out.records:
        return answer
    decided.out.reply(call, answer)
    return decided.out


@dataclass(slots=True)
class Decided:
    out: Outcome
    unknown: dict[str, OffsetDeleteResponseTopic]
    asked: list[tuple[str, OffsetDeleteResponseTopic]]
    gone: set[tuple[str, int]]  # topics and partitions that have a tombstone: a request may name them again


def _in_use(shard: ShardState, group_id: str, names: Iterable[str]) -> set[str] | ErrorCode:
    """Those of the topics that the group consumes; or why nothing can be deleted."""
    group = shard.groups.get(group_id)
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return group.check_offset_delete() or {name for name in names if group.is_subscribed_to(name)}


def _decide(shard: ShardState, request: OffsetDeleteRequest, in_use: set[str]) -> Steps[Decided]:
    decided = Decided(Outcome(), {}, [], set())
    for topic in request.topics:
        answers: list[OffsetDeleteResponsePartition] = []
        for partitions in in_slices(topic.partitions):
            missing, known = _split(shard, topic.name, partitions)
            if missing:
                unknown = [
                    OffsetDeleteResponsePartition(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for index in missing
                ]
                add(decided.unknown, topic.name, OffsetDeleteResponseTopic(topic.name, unknown))
            answers += _delete(shard, request.group_id, topic.name, known, topic.name in in_use, decided)
            yield
        if answers:
            decided.asked.append((topic.name, OffsetDeleteResponseTopic(topic.name, answers)))
        yield
    return decided


def refused(request: OffsetDeleteRequest) -> OffsetDeleteResponse | None:
    """Errors of the request itself: they do not depend on the group, nor on whether its shard is loaded."""
    return None if request.group_id else OffsetDeleteResponse(ErrorCode.INVALID_GROUP_ID)


def unavailable(shard: ShardState, request: OffsetDeleteRequest, call: Call, error: ErrorCode) -> OffsetDeleteResponse:
    return refused(request) or OffsetDeleteResponse(error)


def failed(response: OffsetDeleteResponse, version: int, error: ErrorCode) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error)


def _split(
    shard: ShardState, name: str, partitions: Sequence[OffsetDeleteRequestPartition]
) -> tuple[list[int], list[int]]:
    """Partitions that do not exist, and those that do."""
    count = shard.topics.partition_count(name)
    indexes = [partition.partition_index for partition in partitions]
    return [i for i in indexes if not 0 <= i < count], [i for i in indexes if 0 <= i < count]


def _tombstone_bytes(out: Outcome) -> int:
    """How many bytes of the log the tombstones need at least."""
    return sum(
        len(each.indexes) * (MIN_RECORD_BYTES + MIN_KEY_BYTES + len(each.group) + len(each.topic))
        for each in out.records
        if isinstance(each, OffsetTombstones)
    )


def _delete(
    shard: ShardState, group_id: str, topic: str, indexes: list[int], in_use: bool, decided: Decided
) -> list[OffsetDeleteResponsePartition]:
    if in_use:
        return [OffsetDeleteResponsePartition(index, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC) for index in indexes]
    offsets = shard.offsets
    gone = [
        index
        for index in dict.fromkeys(indexes)
        if (topic, index) not in decided.gone
        and (offsets.get(group_id, topic, index) or offsets.pending.has(group_id, topic, index))
    ]
    if gone:
        decided.gone.update((topic, index) for index in gone)
        decided.out.records.append(OffsetTombstones(group_id, topic, gone))
    return [OffsetDeleteResponsePartition(index, 0) for index in indexes]


OFFSET_DELETE = GroupApi(offset_delete, unavailable, failed, steps=in_steps)
