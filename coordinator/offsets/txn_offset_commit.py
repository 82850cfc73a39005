"""TxnOffsetCommit (28), v0-5: how far a group has come, once the producer's transaction is committed.

v2 adds the leader epoch; v3 is flexible and says which member commits (KIP-447); v4 knows TRANSACTION_ABORTABLE
(KIP-890); v5 makes the group's partition of the log a part of the transaction.

Whoever hands the commit in has asked the transaction coordinator before (broker/transactions/txn_offset_commit.py). The
group gives its verdict as for OffsetCommit, but for two things: a sender that does not say who it is may commit, and a
rebalance is no obstacle. What is committed stays pending until the marker comes that ends the transaction.

The records are one batch of the log. A commit that does not fit into one is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from kohort.coordinator.api import GroupApi, Steps, all_steps, in_slices
from kohort.coordinator.group import CLASSIC, Committer
from kohort.coordinator.offsets.answers import add, merged
from kohort.coordinator.offsets.offset_commit import headers_of, metadata_length
from kohort.coordinator.outcome import Call, CommitRecords, Outcome, TransactionalCommit
from kohort.coordinator.record_codec import NO_HEADERS, PackedCommit
from kohort.coordinator.shard_state import ShardState, Topics
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kohort.protocol.record_batch import BATCH_HEADER_BYTES
from kohort.protocol.wire import NO_UUID, Message

FIRST_VERSION_WITH_LOADING = 2


@dataclass(slots=True)
class Asked:
    """The existing partitions of one topic of the request."""

    topic: str
    rows: list[TxnOffsetCommitRequestPartition]


@dataclass(slots=True)
class LookedUp:
    topics_version: int  # what exists was looked up in this version of the topics
    refused: dict[str, TxnOffsetCommitResponseTopic]  # what does not exist, by topic
    asked: list[Asked]


class VerifiedCommit(Message):
    """A commit for which the transaction coordinator has said that its partition of the log is in the transaction."""

    __slots__ = ("found", "last_marker", "request")

    def __init__(self, request: TxnOffsetCommitRequest, found: LookedUp, last_marker: int) -> None:
        """`last_marker`: of the producer, before the transaction coordinator was asked (PendingOffsets.last_marker)."""
        self.request = request
        self.found = found
        self.last_marker = last_marker


def txn_offset_commit(shard: ShardState, request: VerifiedCommit, call: Call) -> TxnOffsetCommitResponse | Outcome:
    return all_steps(in_steps(shard, request, call, None))


def in_steps(
    shard: ShardState, request: VerifiedCommit, call: Call, error: ErrorCode | None
) -> Steps[TxnOffsetCommitResponse | Outcome]:
    asked = request.request
    while True:
        found = request.found
        commit = None
        if error is None:
            commit = yield from _pack(shard, asked, found, call.now)
        accepted = yield from respond(found, 0, shard.config.offset_metadata_max_bytes)
        if found.topics_version == shard.topics.version:
            break
        request.found = yield from look_up(shard.topics, asked)
    if error is None:
        error = _refusal(shard, request)
    if error is None and commit is None:
        error = ErrorCode.UNKNOWN_SERVER_ERROR
    if error is not None:
        return (yield from respond(found, for_version(error, call.version)))
    if commit is None or not commit.count:
        return accepted
    return Outcome([commit], [(call, accepted)])


def look_up(topics: Topics, request: TxnOffsetCommitRequest) -> Steps[LookedUp]:
    """Each partition by itself: one that does not exist is refused, and nobody is asked about it."""
    while True:
        found = LookedUp(topics.version, {}, [])
        for topic in request.topics:
            count = topics.partition_count(topic.name)
            unknown: list[TxnOffsetCommitResponsePartition] = []
            rows: list[TxnOffsetCommitRequestPartition] = []
            for some in in_slices(topic.partitions):
                for row in some:
                    if 0 <= row.partition_index < count:
                        rows.append(row)
                    else:
                        unknown.append(_answer(row, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
                yield
            if unknown or not count:
                add(found.refused, topic.name, TxnOffsetCommitResponseTopic(topic.name, unknown))
            if rows:
                found.asked.append(Asked(topic.name, rows))
            yield
        if found.topics_version == topics.version:
            return found


def respond(found: LookedUp, error: int, max_metadata: int | None = None) -> Steps[TxnOffsetCommitResponse]:
    """One verdict for all partitions that exist; but those whose metadata is longer than `max_metadata` are refused."""
    answers: list[tuple[str, TxnOffsetCommitResponseTopic]] = []
    for asked in found.asked:
        partitions: list[TxnOffsetCommitResponsePartition] = []
        for some in in_slices(asked.rows):
            partitions += [
                _answer(row, error)
                if max_metadata is None or metadata_length(row.committed_metadata) <= max_metadata
                else _answer(row, ErrorCode.OFFSET_METADATA_TOO_LARGE)
                for row in some
            ]
            yield
        answers.append((asked.topic, TxnOffsetCommitResponseTopic(asked.topic, partitions)))
    refused = {
        name: TxnOffsetCommitResponseTopic(name, list(topic.partitions)) for name, topic in found.refused.items()
    }
    return TxnOffsetCommitResponse(0, merged(refused, answers))


def _answer(row: TxnOffsetCommitRequestPartition, error: int) -> TxnOffsetCommitResponsePartition:
    return TxnOffsetCommitResponsePartition(row.partition_index, error)


def _pack(
    shard: ShardState, request: TxnOffsetCommitRequest, found: LookedUp, now: int
) -> Steps[TransactionalCommit | None]:
    """The records, with our headers if there is room for them. None: even the records do not fit into one batch."""
    headers = headers_of(shard, request.member_id, request.generation_id)
    commit = yield from _pack_with(headers, shard, request, found, now)
    if commit is None and headers != NO_HEADERS:
        commit = yield from _pack_with(NO_HEADERS, shard, request, found, now)
    return commit


def _pack_with(
    headers: bytes, shard: ShardState, request: TxnOffsetCommitRequest, found: LookedUp, now: int
) -> Steps[TransactionalCommit | None]:
    room = shard.config.max_message_bytes - BATCH_HEADER_BYTES
    too_long = shard.config.offset_metadata_max_bytes
    packed = PackedCommit()
    parts: list[CommitRecords] = []
    for asked in found.asked:
        for some in in_slices(asked.rows):
            rows = [row for row in some if metadata_length(row.committed_metadata) <= too_long]
            # As in Kafka, these records have no topic id.
            part = CommitRecords(request.group_id, asked.topic, NO_UUID, rows, False, now, headers)
            packed.add(part)
            if packed.size_bytes > room:
                return None
            parts.append(part)
            yield
    return TransactionalCommit(request.producer_id, request.producer_epoch, parts, packed.joined(), packed.count)


def _refusal(shard: ShardState, request: VerifiedCommit) -> ErrorCode | None:
    """Why the commit is not taken."""
    asked = request.request
    sender = Committer(asked.member_id, asked.generation_id, asked.group_instance_id)
    error = _verdict_of_group(shard, asked.group_id, sender, request.found)
    if error is not None:
        return ErrorCode.ILLEGAL_GENERATION if error is ErrorCode.STALE_MEMBER_EPOCH else error
    pending = shard.offsets.pending
    if error := pending.check_epoch(asked.producer_id, asked.producer_epoch):
        return error
    # The marker of the transaction has come since its coordinator was asked. These records would never get another one.
    has_ended = pending.last_marker(asked.producer_id) != request.last_marker
    return ErrorCode.INVALID_TXN_STATE if has_ended else None


def _verdict_of_group(shard: ShardState, group_id: str, sender: Committer, found: LookedUp) -> ErrorCode | None:
    group = shard.groups.get(group_id)
    if group is None:
        return None if sender.generation_or_epoch < 0 else ErrorCode.ILLEGAL_GENERATION
    if error := group.check_txn_commit(sender):
        return error
    if group.type == CLASSIC:
        return None
    for asked in found.asked:
        topic_id = shard.topics.topic_id(asked.topic) or NO_UUID
        for row in asked.rows:
            if error := group.check_commit_to(sender, topic_id, row.partition_index):
                return error
    return None


def for_version(error: ErrorCode, version: int) -> ErrorCode:
    is_unknown = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < FIRST_VERSION_WITH_LOADING
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if is_unknown else error


def unavailable(shard: ShardState, request: VerifiedCommit, call: Call, error: ErrorCode) -> TxnOffsetCommitResponse:
    return all_steps(respond(request.found, for_version(error, call.version)))


def failed(response: TxnOffsetCommitResponse, version: int, error: ErrorCode) -> TxnOffsetCommitResponse:
    """Partitions that were refused keep their own error."""
    error = for_version(error, version)
    topics = [
        TxnOffsetCommitResponseTopic(
            topic.name,
            [
                TxnOffsetCommitResponsePartition(row.partition_index, row.error_code or error)
                for row in topic.partitions
            ],
        )
        for topic in response.topics
    ]
    return TxnOffsetCommitResponse(0, topics)


TXN_OFFSET_COMMIT = GroupApi(txn_offset_commit, unavailable, failed, steps=in_steps)
