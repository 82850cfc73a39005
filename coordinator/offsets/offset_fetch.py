"""OffsetFetch (9), v1-10: where to go on.

v2 asks for all topics with null, and has a top-level error; v3 adds the throttle time; v5 the leader epoch; v6 is
flexible; v7 can wait for transactions (KIP-447); v8 takes several groups (KIP-709); v9 knows member epochs (KIP-848);
v10 names topics by id.

The runtime asks each group's shard and puts the answers together. Unknown groups, topics and partitions are no errors:
their offset is -1.
"""

from __future__ import annotations

from collections.abc import Iterable

from kohort.coordinator.api import ELEMENTS_IN_STEP, GroupApi, SeveralGroups, Steps, all_steps, in_slices
from kohort.coordinator.offset_store import CommittedOffset
from kohort.coordinator.offsets.plain_fetch import FIRST_VERSION_WITH_TOPIC_IDS, refusal
from kohort.coordinator.outcome import Call
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from kohort.protocol.wire import NO_UUID

FIRST_VERSION_WITH_ERROR = 2
FIRST_VERSION_WITH_SEVERAL_GROUPS = 8
PARTITION_BYTES = 100  # of memory for a partition, without its metadata
TOPIC_BYTES = 200


def offset_fetch(shard: ShardState, request: OffsetFetchRequest, call: Call) -> OffsetFetchResponse:
    if call.version >= FIRST_VERSION_WITH_SEVERAL_GROUPS:
        stable, version = request.require_stable, call.version
        return OffsetFetchResponse(groups=[_fetch_at_once(shard, group, stable, version) for group in request.groups])
    return all_steps(_fetch_without_groups(shard, request, call.version))


def in_steps(
    shard: ShardState, request: OffsetFetchRequest, call: Call, error: ErrorCode | None
) -> Steps[OffsetFetchResponse]:
    if error is not None:
        return unavailable(shard, request, call, error)
    if call.version < FIRST_VERSION_WITH_SEVERAL_GROUPS:
        return (yield from _fetch_without_groups(shard, request, call.version))
    groups = []
    for group in request.groups:
        fetched = yield from fetch_group(shard, group, request.require_stable, call.version)
        groups.append(fetched)
    return OffsetFetchResponse(groups=groups)


def row(
    shard: ShardState, request: OffsetFetchRequest, group: OffsetFetchRequestGroup, call: Call, error: ErrorCode | None
) -> Steps[OffsetFetchResponseGroup]:
    if error is not None:
        return OffsetFetchResponseGroup(group.group_id, (), error)
    return (yield from fetch_group(shard, group, request.require_stable, call.version))


def row_bytes(group: OffsetFetchResponseGroup) -> int:
    partitions = sum(
        PARTITION_BYTES * len(topic.partitions) + sum([len(each.metadata or "") for each in topic.partitions])
        for topic in group.topics
    )
    return len(group.group_id) + TOPIC_BYTES * len(group.topics) + partitions


def _fetch_without_groups(shard: ShardState, request: OffsetFetchRequest, version: int) -> Steps[OffsetFetchResponse]:
    """v1-7: one group, without a group around its topics."""
    topics = None
    if request.topics is not None:
        topics = []
        for some_topics in in_slices(request.topics):
            topics += [OffsetFetchRequestTopics(t.name, partition_indexes=t.partition_indexes) for t in some_topics]
            yield
    asked = OffsetFetchRequestGroup(request.group_id, None, -1, topics)
    answer = yield from fetch_group(shard, asked, request.require_stable, version)
    without: list[OffsetFetchResponseTopic] = []
    for topic in answer.topics:
        partitions: list[OffsetFetchResponsePartition] = []
        for some in in_slices(topic.partitions):
            partitions += [
                OffsetFetchResponsePartition(
                    p.partition_index, p.committed_offset, p.committed_leader_epoch, p.metadata, p.error_code
                )
                for p in some
            ]
            yield
        without.append(OffsetFetchResponseTopic(topic.name, partitions))
    return OffsetFetchResponse(0, without, answer.error_code)


def unavailable(shard: ShardState, request: OffsetFetchRequest, call: Call, error: ErrorCode) -> OffsetFetchResponse:
    if call.version >= FIRST_VERSION_WITH_SEVERAL_GROUPS:
        return OffsetFetchResponse(
            groups=[OffsetFetchResponseGroup(each.group_id, (), error) for each in request.groups]
        )
    if call.version >= FIRST_VERSION_WITH_ERROR:
        return OffsetFetchResponse(0, (), error)
    asked = [(topic.name, topic.partition_indexes) for topic in request.topics or ()]
    return OffsetFetchResponse(0, _refused_partitions(asked, error), error)


def failed(response: OffsetFetchResponse, version: int, error: ErrorCode) -> OffsetFetchResponse:
    if version >= FIRST_VERSION_WITH_SEVERAL_GROUPS:
        groups = [OffsetFetchResponseGroup(each.group_id, (), error) for each in response.groups]
        return OffsetFetchResponse(groups=groups)
    if version >= FIRST_VERSION_WITH_ERROR:
        return OffsetFetchResponse(0, (), error)
    asked = [(topic.name, [p.partition_index for p in topic.partitions]) for topic in response.topics]
    return OffsetFetchResponse(0, _refused_partitions(asked, error), error)


def _refused_partitions(asked: Iterable[tuple[str, Iterable[int]]], error: ErrorCode) -> list[OffsetFetchResponseTopic]:
    """v1 has no place for an error but the partitions."""
    return [
        OffsetFetchResponseTopic(name, [OffsetFetchResponsePartition(index, -1, -1, "", error) for index in indexes])
        for name, indexes in asked
    ]


def _fetch_at_once(
    shard: ShardState, group: OffsetFetchRequestGroup, require_stable: bool, version: int
) -> OffsetFetchResponseGroup:
    """The same as all steps of `fetch_group`, and quicker for the usual request."""
    if group.topics is None or version >= FIRST_VERSION_WITH_TOPIC_IDS or refusal(shard, group):
        return all_steps(fetch_group(shard, group, require_stable, version))
    topics = [_one_topic(shard, group.group_id, topic, require_stable, False) for topic in group.topics]
    return OffsetFetchResponseGroup(group.group_id, topics, 0)


def fetch_group(
    shard: ShardState, group: OffsetFetchRequestGroup, require_stable: bool, version: int
) -> Steps[OffsetFetchResponseGroup]:
    by_id = version >= FIRST_VERSION_WITH_TOPIC_IDS
    group_id = group.group_id
    if error := refusal(shard, group):
        return OffsetFetchResponseGroup(group_id, (), error)
    if group.topics is None:
        topics = yield from _all_topics(shard, group_id, require_stable, by_id)
    else:
        topics, unknown, in_step = [], [], 0
        for topic in group.topics:
            if by_id and shard.topics.name_of(topic.topic_id) is None:
                unknown.append(topic)
            elif len(topic.partition_indexes) > ELEMENTS_IN_STEP:
                topics.append((yield from _long_topic(shard, group_id, topic, require_stable, by_id)))
            else:
                topics.append(_one_topic(shard, group_id, topic, require_stable, by_id))
            in_step += 1 + len(topic.partition_indexes)
            if in_step > ELEMENTS_IN_STEP:
                in_step = 0
                yield
        for topic in unknown:  # Kafka answers ids that it does not know after the others
            topics.append((yield from _long_topic(shard, group_id, topic, require_stable, by_id)))
    return OffsetFetchResponseGroup(group_id, topics, 0)


def _all_topics(
    shard: ShardState, group_id: str, require_stable: bool, by_id: bool
) -> Steps[list[OffsetFetchResponseTopics]]:
    topics = []
    for name, partitions in list(shard.offsets_of(group_id).items()):
        topic_id = shard.topics.topic_id(name)
        if by_id and topic_id is None:
            continue  # a topic that was deleted has no id to answer with
        answers: list[OffsetFetchResponsePartitions] = []
        for some in in_slices(list(partitions.items())):
            answers += [
                _answer(shard, group_id, name, index, committed, require_stable)
                for index, committed in some
                if not by_id or committed.topic_id in (NO_UUID, topic_id)
            ]
            yield
        if answers:
            topics.append(OffsetFetchResponseTopics(name, topic_id or NO_UUID, answers))
    return topics


def _one_topic(
    shard: ShardState, group_id: str, topic: OffsetFetchRequestTopics, require_stable: bool, by_id: bool
) -> OffsetFetchResponseTopics:
    name = shard.topics.name_of(topic.topic_id) if by_id else topic.name
    if name is None:
        return OffsetFetchResponseTopics("", topic.topic_id, _unknown_topic(topic.partition_indexes))
    topic_id = topic.topic_id if by_id else None
    answers = _answers(shard, group_id, name, topic_id, topic.partition_indexes, require_stable)
    return OffsetFetchResponseTopics(name, topic.topic_id, answers)


def _long_topic(
    shard: ShardState, group_id: str, topic: OffsetFetchRequestTopics, require_stable: bool, by_id: bool
) -> Steps[OffsetFetchResponseTopics]:
    """As `_one_topic`, for very many partitions."""
    whole = OffsetFetchResponseTopics(topic.name, topic.topic_id, [])
    answers: list[OffsetFetchResponsePartitions] = []
    for indexes in in_slices(topic.partition_indexes):
        part = OffsetFetchRequestTopics(topic.name, topic.topic_id, indexes)
        whole = _one_topic(shard, group_id, part, require_stable, by_id)
        answers += whole.partitions
        yield
    whole.partitions = answers
    return whole


def _answers(
    shard: ShardState, group_id: str, name: str, topic_id: bytes | None, indexes: Iterable[int], require_stable: bool
) -> list[OffsetFetchResponsePartitions]:
    """`topic_id`: the topic was named by its id."""
    partitions = shard.offsets_of(group_id).get(name, {})
    if topic_id is None and not (require_stable and shard.offsets.pending.has_any(group_id)):
        return [  # the same as `_answer`, without a call per partition
            OffsetFetchResponsePartitions(index, committed.offset, committed.leader_epoch, committed.metadata, 0)
            if (committed := partitions.get(index)) is not None
            else OffsetFetchResponsePartitions(index, -1, -1, "", 0)
            for index in indexes
        ]
    answers = []
    for index in indexes:
        committed = partitions.get(index)
        if committed is not None and topic_id is not None and committed.topic_id not in (NO_UUID, topic_id):
            committed = None  # the offset is of a deleted topic with the same name
        answers.append(_answer(shard, group_id, name, index, committed, require_stable))
    return answers


def _unknown_topic(indexes: Iterable[int]) -> list[OffsetFetchResponsePartitions]:
    return [OffsetFetchResponsePartitions(index, -1, -1, "", ErrorCode.UNKNOWN_TOPIC_ID) for index in indexes]


def _answer(
    shard: ShardState, group_id: str, topic: str, index: int, committed: CommittedOffset | None, require_stable: bool
) -> OffsetFetchResponsePartitions:
    if require_stable and shard.offsets.pending.has(group_id, topic, index):
        return OffsetFetchResponsePartitions(index, -1, -1, "", ErrorCode.UNSTABLE_OFFSET_COMMIT)
    if committed is None:
        return OffsetFetchResponsePartitions(index, -1, -1, "", 0)
    return OffsetFetchResponsePartitions(index, committed.offset, committed.leader_epoch, committed.metadata, 0)


OFFSET_FETCH = SeveralGroups(
    api=GroupApi(offset_fetch, unavailable, failed, steps=in_steps),
    entries=lambda request: request.groups,
    key=lambda group: group.group_id,
    part=lambda request, groups: OffsetFetchRequest(groups=groups, require_stable=request.require_stable),
    rows=lambda response: response.groups,
    whole=lambda groups: OffsetFetchResponse(groups=groups),
    row=row,
    row_bytes=row_bytes,
)
