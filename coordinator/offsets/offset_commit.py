"""OffsetCommit (8), v2-10: how far a group has come.

v2-4 may say how long to keep it; v3 adds the throttle time; v6 the leader epoch; v7 static members; v8 is flexible; v9
knows member epochs (KIP-848); v10 names topics by id (KIP-516).

First each partition is looked at by itself: one that does not exist is refused, and the group is not asked about it.
Then the group gives one verdict for all other partitions.

As in Kafka, the records of a commit must fit into one batch. Otherwise a small request that names a partition thousands
of times, in a group with a long id, would fill the log.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from kohort.coordinator.api import GroupApi, Steps, in_slices
from kohort.coordinator.config import MAX_REMEMBERED_ID
from kohort.coordinator.group import CLASSIC, Committer
from kohort.coordinator.offsets.answers import add, merged
from kohort.coordinator.outcome import Call, CommitRecords, Outcome
from kohort.coordinator.record_codec import NO_HEADERS
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.commit_record import MIN_KEY_BYTES, PLAIN_VALUE_BYTES
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kohort.protocol.record_batch import BATCH_HEADER_BYTES, MIN_RECORD_BYTES, encode_headers
from kohort.protocol.wire import NO_UUID

NO_RETENTION = -1
FOREVER = 2**63 - 1
FIRST_VERSION_WITH_TOPIC_IDS = 10
FIRST_VERSION_WITH_GROUP_ID_NOT_FOUND = 9

FEW_ROWS = 20  # so many rows fit into a usual batch, unless the ids are long
USUAL_BATCH_BYTES = 524_288
MIN_COMMIT_BYTES = MIN_RECORD_BYTES + MIN_KEY_BYTES + PLAIN_VALUE_BYTES

# The usual answers for a partition, made once; they are never changed.
ACCEPTED = tuple(OffsetCommitResponsePartition(index, 0) for index in range(256))


@dataclass(slots=True)
class Asked:
    """The existing partitions of one topic of the request. Whether the group takes them is decided later."""

    key: str | bytes  # how the request calls the topic
    topic: OffsetCommitRequestTopic
    name: str
    topic_id: bytes
    rows: list[OffsetCommitRequestPartition]


@dataclass(slots=True)
class LookedUp:
    refused: dict[str | bytes, OffsetCommitResponseTopic]  # what does not exist, by the topic's key
    asked: list[Asked]
    row_count: int = 0  # of all that is asked


def offset_commit(shard: ShardState, request: OffsetCommitRequest, call: Call) -> OffsetCommitResponse | Outcome:
    found = look_up(shard, request, call.version)
    if not found.asked:
        return respond(found, 0)
    if error := check_commit(shard, request, call.version) or check_rows(shard, request, found):
        return respond(found, error)
    headers: bytes | None = headers_of(shard, request.member_id, request.generation_id_or_member_epoch)
    if (
        found.row_count > FEW_ROWS
        or len(request.group_id) + len(request.member_id) > MAX_REMEMBERED_ID
        or shard.config.max_message_bytes < USUAL_BATCH_BYTES
    ):
        headers = _headers_that_fit(shard, request, found)
    if headers is None:
        return respond(found, ErrorCode.UNKNOWN_SERVER_ERROR)
    return _commit(shard, request, call, found, headers)


def in_steps(
    shard: ShardState, request: OffsetCommitRequest, call: Call, error: ErrorCode | None
) -> Steps[OffsetCommitResponse | Outcome]:
    """A commit that names very many partitions. What is too much for the log is refused, the rest is taken at once."""
    while True:
        topics_version = shard.topics.version
        found = yield from _look_up_in_steps(shard, request, call.version)
        if shard.topics.version == topics_version:
            break
    if error is None and found.asked:
        error = check_commit(shard, request, call.version) or check_rows(shard, request, found)
    if error is not None or not found.asked:
        return (yield from _respond_in_steps(found, error or 0))
    headers = _headers_that_fit(shard, request, found)
    if headers is None:
        return (yield from _respond_in_steps(found, ErrorCode.UNKNOWN_SERVER_ERROR))
    return _commit(shard, request, call, found, headers)


def _headers_that_fit(shard: ShardState, request: OffsetCommitRequest, found: LookedUp) -> bytes | None:
    """The headers for the records of the commit, if there is room for any. None: even the records do not fit."""
    room = shard.config.max_message_bytes - BATCH_HEADER_BYTES - _records_bytes(request, found)
    if room < 0:
        return None
    headers = headers_of(shard, request.member_id, request.generation_id_or_member_epoch)
    return headers if room >= found.row_count * len(headers) else NO_HEADERS


def _commit(shard: ShardState, request: OffsetCommitRequest, call: Call, found: LookedUp, headers: bytes) -> Outcome:
    out = Outcome()
    answers = []
    group_id = request.group_id
    for asked in found.asked:
        rows = asked.rows
        is_plain = not any([row.committed_metadata for row in rows])  # noqa: C419 - a generator takes twice as long
        if is_plain:
            answers.append(_answer(asked, 0))
        else:
            rows, answer = _with_metadata(asked, shard.config.offset_metadata_max_bytes)
            answers.append(answer)
        if not rows:
            continue
        if request.retention_time_ms != NO_RETENTION:  # only v2-4 have this field
            # Kafka's sum overflows, and such an offset expires at once. Its record has no place for a topic id.
            expires = min(call.now + request.retention_time_ms, FOREVER)
            out.records.append(CommitRecords(group_id, asked.name, NO_UUID, rows, False, call.now, headers, expires))
        else:
            out.records.append(CommitRecords(group_id, asked.name, asked.topic_id, rows, is_plain, call.now, headers))
    out.reply(call, OffsetCommitResponse(0, merged(found.refused, answers)))
    return out


def unavailable(shard: ShardState, request: OffsetCommitRequest, call: Call, error: ErrorCode) -> OffsetCommitResponse:
    return respond(look_up(shard, request, call.version), error)


def failed(response: OffsetCommitResponse, version: int, error: ErrorCode) -> OffsetCommitResponse:
    """Partitions that were refused keep their own error."""
    topics = [
        OffsetCommitResponseTopic(
            topic.name,
            topic.topic_id,
            [OffsetCommitResponsePartition(row.partition_index, row.error_code or error) for row in topic.partitions],
        )
        for topic in response.topics
    ]
    return OffsetCommitResponse(0, topics)


OFFSET_COMMIT_API = GroupApi(offset_commit, unavailable, failed, steps=in_steps)


def look_up(shard: ShardState, request: OffsetCommitRequest, version: int) -> LookedUp:
    found = LookedUp({}, [])
    for topic in request.topics:
        _look_up_topic(shard, topic, version, found)
    return found


def _look_up_in_steps(shard: ShardState, request: OffsetCommitRequest, version: int) -> Steps[LookedUp]:
    found = LookedUp({}, [])
    for topic in request.topics:
        whole: Asked | None = None
        for some in in_slices(topic.partitions) if len(topic.partitions) else ([],):
            part = LookedUp(found.refused, [])
            _look_up_topic(shard, OffsetCommitRequestTopic(topic.name, topic.topic_id, some), version, part)
            found.row_count += part.row_count
            for asked in part.asked:
                if whole is None:
                    whole = asked
                    found.asked.append(asked)
                else:
                    whole.rows += asked.rows
            yield
    return found


def _respond_in_steps(found: LookedUp, error: int) -> Steps[OffsetCommitResponse]:
    answers: list[tuple[str | bytes, OffsetCommitResponseTopic]] = []
    for asked in found.asked:
        partitions: list[OffsetCommitResponsePartition] = []
        for some in in_slices(asked.rows):
            partitions += [OffsetCommitResponsePartition(row.partition_index, error) for row in some]
            yield
        answers.append((asked.key, OffsetCommitResponseTopic(asked.topic.name, asked.topic.topic_id, partitions)))
    return OffsetCommitResponse(0, merged(found.refused, answers))


def respond(found: LookedUp, error: int) -> OffsetCommitResponse:
    """One verdict for all partitions that exist."""
    return OffsetCommitResponse(0, merged(found.refused, [_answer(asked, error) for asked in found.asked]))


def _look_up_topic(shard: ShardState, topic: OffsetCommitRequestTopic, version: int, found: LookedUp) -> None:
    by_id = version >= FIRST_VERSION_WITH_TOPIC_IDS
    name: str | None
    topic_id: bytes | None
    if by_id:
        name, topic_id = shard.topics.name_of(topic.topic_id), topic.topic_id
    else:
        name, topic_id = topic.name, shard.topics.topic_id(topic.name)
    is_known = name is not None and topic_id is not None
    count = shard.topics.partition_count(name) if name is not None and is_known else 0
    key = topic.topic_id if by_id else topic.name
    rows = [row for row in topic.partitions if 0 <= row.partition_index < count]
    # As in Kafka, an unknown topic is in the answer even without partitions.
    if len(rows) < len(topic.partitions) or not count:
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id and name is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        partitions = [
            OffsetCommitResponsePartition(row.partition_index, unknown)
            for row in topic.partitions
            if not 0 <= row.partition_index < count
        ]
        add(found.refused, key, OffsetCommitResponseTopic(topic.name, topic.topic_id, partitions))
    if rows:
        assert name is not None
        assert topic_id is not None
        found.asked.append(Asked(key, topic, name, topic_id, rows))
        found.row_count += len(rows)


def _answer(asked: Asked, error: int) -> tuple[str | bytes, OffsetCommitResponseTopic]:
    if error:
        partitions = [OffsetCommitResponsePartition(row.partition_index, error) for row in asked.rows]
    else:
        partitions = [_accepted(row.partition_index) for row in asked.rows]
    return asked.key, OffsetCommitResponseTopic(asked.topic.name, asked.topic.topic_id, partitions)


def _accepted(index: int) -> OffsetCommitResponsePartition:
    return ACCEPTED[index] if index < len(ACCEPTED) else OffsetCommitResponsePartition(index, 0)


def _with_metadata(
    asked: Asked, max_length: int
) -> tuple[list[OffsetCommitRequestPartition], tuple[str | bytes, OffsetCommitResponseTopic]]:
    """Refuse the rows whose metadata is too long, and keep the others."""
    kept, partitions = [], []
    for row in asked.rows:
        if metadata_length(row.committed_metadata) > max_length:
            error = ErrorCode.OFFSET_METADATA_TOO_LARGE
            partitions.append(OffsetCommitResponsePartition(row.partition_index, error))
        else:
            kept.append(row)
            partitions.append(_accepted(row.partition_index))
    return kept, (asked.key, OffsetCommitResponseTopic(asked.topic.name, asked.topic.topic_id, partitions))


def check_commit(shard: ShardState, request: OffsetCommitRequest, version: int) -> ErrorCode | None:
    """Whether the group takes the commit: one verdict for all partitions."""
    group = shard.groups.get(request.group_id)
    if group is not None:
        return group.check_commit(shard, request, version)
    if request.generation_id_or_member_epoch < 0:
        return None  # its first offset makes a simple group
    if version >= FIRST_VERSION_WITH_GROUP_ID_NOT_FOUND:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return ErrorCode.ILLEGAL_GENERATION


def check_rows(shard: ShardState, request: OffsetCommitRequest, found: LookedUp) -> ErrorCode | None:
    """Whether the sender may commit each of these partitions. If it may not commit one of them, it commits none."""
    group = shard.groups.get(request.group_id)
    if group is None or group.type == CLASSIC:
        return None
    sender = Committer(request.member_id, request.generation_id_or_member_epoch, request.group_instance_id)
    for asked in found.asked:
        for row in asked.rows:
            if error := group.check_commit_to(sender, asked.topic_id, row.partition_index):
                return error
    return None


def metadata_length(metadata: str | None) -> int:
    """In UTF-16 code units, as Java counts."""
    if not metadata:
        return 0
    return len(metadata) if metadata.isascii() else len(metadata.encode("utf-16-le", "surrogatepass")) // 2


def _records_bytes(request: OffsetCommitRequest, found: LookedUp) -> int:
    """How many bytes of the log the commit needs at least, without our headers. Kafka takes what fits into a batch."""
    group_bytes = len(request.group_id.encode())
    total = 0
    for asked in found.asked:
        metadata_bytes = sum([len(row.committed_metadata) for row in asked.rows if row.committed_metadata])
        total += len(asked.rows) * (MIN_COMMIT_BYTES + group_bytes + len(asked.name)) + metadata_bytes
    return total


def headers_of(shard: ShardState, member_id: str, generation: int) -> bytes:
    if not shard.config.audit_headers:
        return NO_HEADERS
    find = _known_audit_headers if len(member_id) <= MAX_REMEMBERED_ID else _audit_headers
    return find(member_id, generation)


def _audit_headers(member_id: str, generation: int) -> bytes:
    """Who committed, packed. Kafka's log does not say, and its tools and loader skip over record headers."""
    headers = (b"kohort.member", member_id.encode()), (b"kohort.generation", b"%d" % generation)
    return encode_headers(headers)


_known_audit_headers = lru_cache(maxsize=10_000)(_audit_headers)
