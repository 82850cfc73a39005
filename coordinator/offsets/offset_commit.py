"""OffsetCommit (8), v2-10: how far a group has come.

v2-4 may say how long to keep it; v3 adds the throttle time; v6 the leader epoch; v7 static members; v8 is flexible; v9
knows member epochs (KIP-848); v10 names topics by id (KIP-516).

First each partition is looked at by itself: what does not exist fails alone and reaches no group. Then the group gives
one verdict for all the rest.
"""

from __future__ import annotations

from typing import Any

from coordinator.classic import session
from coordinator.classic.state import COMPLETING_REBALANCE, EMPTY
from coordinator.offsets.answers import merged
from coordinator.offsets.store import NO_EXPIRY, CommittedOffset
from coordinator.outcome import Call, CommitRecord, Outcome, Record
from coordinator.shard_state import ShardState
from protocol.error_codes import ErrorCode
from protocol.messages.log_offset_commit import OffsetCommitKey, OffsetCommitValue
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

OFFSET_COMMIT = 1
WITH_EXPIRY_VERSION = 1  # of the record's value
NO_RETENTION = -1
FIRST_VERSION_WITH_TOPIC_IDS = 10
FIRST_VERSION_WITH_GROUP_ID_NOT_FOUND = 9

Accepted = tuple[str, bytes, OffsetCommitRequestPartition, OffsetCommitResponsePartition]


def offset_commit(shard: ShardState, request: OffsetCommitRequest, call: Call) -> Any:
    response, accepted = look_up(shard, request, call.version)
    if not accepted:
        return response
    if error := _verdict(shard, request, call):
        return refuse(response, accepted, error)
    out = Outcome()
    headers = _audit_headers(request) if shard.config.audit_headers else ()
    for name, topic_id, partition, answer in accepted:
        if _metadata_length(partition.committed_metadata) > shard.config.offset_metadata_max_bytes:
            answer.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
        else:
            out.records.append(_record(request, name, topic_id, partition, headers, call.now))
    out.reply(call, response)
    return out


def look_up(
    shard: ShardState, request: OffsetCommitRequest, version: int
) -> tuple[OffsetCommitResponse, list[Accepted]]:
    """The answer so far, and the partitions that exist: what the group thinks of them is still to be said."""
    refused: dict[str | bytes, OffsetCommitResponseTopic] = {}
    asked: list[tuple[str | bytes, OffsetCommitResponseTopic]] = []
    accepted: list[Accepted] = []
    for topic in request.topics:
        _look_up_topic(shard, topic, version, refused, asked, accepted)
    return OffsetCommitResponse(0, merged(refused, asked)), accepted


def refuse(response: OffsetCommitResponse, accepted: list[Accepted], error: ErrorCode) -> OffsetCommitResponse:
    """One verdict for all partitions that exist."""
    for *_, answer in accepted:
        answer.error_code = error
    return response


def _look_up_topic(
    shard: ShardState,
    topic: OffsetCommitRequestTopic,
    version: int,
    refused: dict[str | bytes, OffsetCommitResponseTopic],
    asked: list[tuple[str | bytes, OffsetCommitResponseTopic]],
    accepted: list[Accepted],
) -> None:
    name: str | None = topic.name
    topic_id: bytes | None = topic.topic_id
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if version >= FIRST_VERSION_WITH_TOPIC_IDS:
        name = shard.topics.name_of(topic.topic_id)
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if name is None else unknown
    else:
        topic_id = shard.topics.topic_id(topic.name)
    count = 0 if name is None or topic_id is None else shard.topics.partition_count(name)
    answers, errors = [], []
    for partition in topic.partitions:
        if 0 <= partition.partition_index < count:
            assert name is not None
            assert topic_id is not None
            answer = OffsetCommitResponsePartition(partition.partition_index, 0)
            accepted.append((name, topic_id, partition, answer))
            answers.append(answer)
        else:
            errors.append(OffsetCommitResponsePartition(partition.partition_index, unknown))
    key = topic.topic_id if version >= FIRST_VERSION_WITH_TOPIC_IDS else topic.name
    if errors or not (count or topic.partitions):  # of an unknown topic even nothing is refused, as by Kafka
        empty = OffsetCommitResponseTopic(topic.name, topic.topic_id, [])
        refused.setdefault(key, empty).partitions.extend(errors)  # type: ignore[attr-defined]
    if answers:
        asked.append((key, OffsetCommitResponseTopic(topic.name, topic.topic_id, answers)))


def _verdict(shard: ShardState, request: OffsetCommitRequest, call: Call) -> ErrorCode | None:
    generation = request.generation_id_or_member_epoch
    group = shard.groups.get(request.group_id)
    if group is None:
        if foreign := shard.foreign.get(request.group_id):
            return foreign.commit_problem(generation)
        if generation < 0:
            return None  # its first offset makes a simple group
        if call.version >= FIRST_VERSION_WITH_GROUP_ID_NOT_FOUND:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return ErrorCode.ILLEGAL_GENERATION
    if generation < 0 and group.state is EMPTY:
        return None
    if generation < 0 and not request.member_id and request.group_instance_id is None:
        return ErrorCode.UNKNOWN_MEMBER_ID  # nobody in particular, while the group has members
    if error := group.check_member(request.member_id, request.group_instance_id):
        return error
    if generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if group.state is COMPLETING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    session.heard_from(shard, group, group.members[request.member_id], call.now)
    return None


def _metadata_length(metadata: str | None) -> int:
    """In UTF-16 code units, as Java counts."""
    if not metadata:
        return 0
    return len(metadata) if metadata.isascii() else len(metadata.encode("utf-16-le", "surrogatepass")) // 2


def _audit_headers(request: OffsetCommitRequest) -> tuple[tuple[bytes, bytes | None], ...]:
    """Who committed. Kafka's log does not say, and its tools and loader skip over record headers."""
    return (
        (b"kohort.member", request.member_id.encode()),
        (b"kohort.generation", b"%d" % request.generation_id_or_member_epoch),
    )


def _record(
    request: OffsetCommitRequest, name: str, topic_id: bytes, partition: OffsetCommitRequestPartition,
    headers: tuple[tuple[bytes, bytes | None], ...], now: int,
) -> Record | CommitRecord:  # fmt: skip
    metadata = partition.committed_metadata or ""
    if request.retention_time_ms != NO_RETENTION:  # only v2-4 can say so
        key = OffsetCommitKey(request.group_id, name, partition.partition_index)
        value = OffsetCommitValue(partition.committed_offset, -1, metadata, now, now + request.retention_time_ms)
        return Record(OFFSET_COMMIT, key, value, headers, WITH_EXPIRY_VERSION)
    committed = CommittedOffset(
        partition.committed_offset, partition.committed_leader_epoch, metadata, now, NO_EXPIRY, topic_id, -1
    )
    return CommitRecord(request.group_id, name, partition.partition_index, committed, headers)
