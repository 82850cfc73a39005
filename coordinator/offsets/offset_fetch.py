"""OffsetFetch (9), v1-10: where to go on.

v2 asks for all topics with null, and has a top-level error; v3 adds the throttle time; v5 the leader epoch; v6 is
flexible; v7 can wait for transactions (KIP-447); v8 takes several groups (KIP-709); v9 knows member epochs (KIP-848);
v10 names topics by id.

One group at a time is answered here; the host asks each group's shard and puts the answers together. Unknown groups,
topics and partitions are no errors: their offset is -1.
"""

from __future__ import annotations

from collections.abc import Iterable

from kohort.coordinator.offsets.store import ByPartition, CommittedOffset
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from kohort.protocol.wire import NO_UUID

FIRST_VERSION_WITH_TOPIC_IDS = 10


def offset_fetch(
    shard: ShardState, group: OffsetFetchRequestGroup, require_stable: bool, version: int
) -> OffsetFetchResponseGroup:
    by_id = version >= FIRST_VERSION_WITH_TOPIC_IDS
    require_stable = require_stable and shard.offsets.has_open_transactions  # mostly there are none to wait for
    group_id = group.group_id
    if group.topics is None:
        topics = _all_topics(shard, group_id, require_stable, by_id)
    else:
        asked: Iterable[OffsetFetchRequestTopics] = group.topics
        if by_id:  # Kafka answers ids that it does not know after the others
            asked = sorted(asked, key=lambda topic: shard.topics.name_of(topic.topic_id) is None)
        topics = [_one_topic(shard, group_id, topic, require_stable, by_id) for topic in asked]
    return OffsetFetchResponseGroup(group_id, topics, 0)


def offsets_of(shard: ShardState, group_id: str) -> dict[str, ByPartition]:
    """A log can hold offsets of a group that it says is gone; Kafka does not show them."""
    is_known = group_id in shard.groups or group_id in shard.foreign
    return shard.offsets.topics(group_id) if is_known else {}


def _all_topics(shard: ShardState, group_id: str, require_stable: bool, by_id: bool) -> list[OffsetFetchResponseTopics]:
    topics = []
    for name, partitions in offsets_of(shard, group_id).items():
        topic_id = shard.topics.topic_id(name)
        if by_id and topic_id is None:
            continue  # a topic that is gone has no id to name it by
        answers = [
            _answer(shard, group_id, name, index, committed, require_stable)
            for index, committed in partitions.items()
            if not by_id or committed.topic_id in (NO_UUID, topic_id)
        ]
        if answers:
            topics.append(OffsetFetchResponseTopics(name, topic_id or NO_UUID, answers))
    return topics


def _one_topic(
    shard: ShardState, group_id: str, topic: OffsetFetchRequestTopics, require_stable: bool, by_id: bool
) -> OffsetFetchResponseTopics:
    name: str | None = topic.name
    if by_id:
        name = shard.topics.name_of(topic.topic_id)
        if name is None:
            return OffsetFetchResponseTopics("", topic.topic_id, _unknown_topic(topic.partition_indexes))
    assert name is not None
    partitions = offsets_of(shard, group_id).get(name, {})
    if by_id or (require_stable and shard.offsets.has_open_transactions):
        answers = []
        for index in topic.partition_indexes:
            committed = partitions.get(index)
            if committed is not None and by_id and committed.topic_id not in (NO_UUID, topic.topic_id):
                committed = None  # of an earlier topic of that name
            answers.append(_answer(shard, group_id, name, index, committed, require_stable))
    else:  # as `_answer` would
        answers = [
            OffsetFetchResponsePartitions(index, committed.offset, committed.leader_epoch, committed.metadata, 0)
            if (committed := partitions.get(index)) is not None
            else OffsetFetchResponsePartitions(index, -1, -1, "", 0)
            for index in topic.partition_indexes
        ]
    return OffsetFetchResponseTopics(name, topic.topic_id, answers)


def _unknown_topic(indexes: Iterable[int]) -> list[OffsetFetchResponsePartitions]:
    return [OffsetFetchResponsePartitions(index, -1, -1, "", ErrorCode.UNKNOWN_TOPIC_ID) for index in indexes]


def _answer(
    shard: ShardState, group_id: str, topic: str, index: int, committed: CommittedOffset | None, require_stable: bool
) -> OffsetFetchResponsePartitions:
    if require_stable and shard.offsets.has_pending(group_id, topic, index):
        return OffsetFetchResponsePartitions(index, -1, -1, "", ErrorCode.UNSTABLE_OFFSET_COMMIT)
    if committed is None:
        return OffsetFetchResponsePartitions(index, -1, -1, "", 0)
    return OffsetFetchResponsePartitions(index, committed.offset, committed.leader_epoch, committed.metadata, 0)
