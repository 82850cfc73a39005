"""Fetch (1): reads records.

v4 brought isolation levels (KIP-98); v5 the log's start offset; v7 sessions (KIP-227); v9 leader epochs (KIP-320); v10
zstd; v11 the consumer's rack (KIP-392); v12 is flexible and finds diverging logs (KIP-595); v13 names topics by id
(KIP-516); v14 and v15 are for tiered storage and replicas; v16 can name new leaders (KIP-951); v17 and v18 are for
replicas.

Records leave as they are on disk: an answer carries slices of log files, which the connection sends. The answer comes
at once if it has min.bytes or an error, or if there is no partition to wait for; else the fetch waits
(`delayed_fetch.py`).
"""

from __future__ import annotations

import logging
import secrets
from typing import TYPE_CHECKING, Any, cast

from kohort.broker.call import PARKED, Parked
from kohort.broker.topics.catalog import LEADER_EPOCH
from kohort.broker.topics.delayed_fetch import DelayedFetch
from kohort.broker.topics.fetch_sessions import Context, FetchSessions, Wanted
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from kohort.protocol.record_batch import LOG_OVERHEAD_BYTES, CorruptBatch
from kohort.storage.errors import StorageError

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call
    from kohort.broker.topics.catalog import Partition
    from kohort.storage.open_files import LogSlice
    from kohort.storage.partition_log import PartitionLog

logger = logging.getLogger(__name__)

READ_COMMITTED = 1
UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
Answers = list[tuple[Wanted, PartitionData]]


def fetch(broker: Broker, request: FetchRequest, call: Call) -> FetchResponse | Parked:
    context = sessions_of(broker).begin(request, call.version, call.now)
    if isinstance(context, ErrorCode):
        return FetchResponse(0, context)
    return _Fetch(broker, request, call, context).begin()


def sessions_of(broker: Broker) -> FetchSessions:
    found: FetchSessions | None = broker.extra.get("fetch_sessions")
    if found is None:
        slots = broker.config.max_incremental_fetch_session_cache_slots
        found = broker.extra["fetch_sessions"] = FetchSessions(slots, lambda: secrets.randbits(31))
    return found


class _Fetch:
    """One Fetch request, from the first read to the answer."""

    __slots__ = (
        "_broker",
        "_bytes",
        "_call",
        "_context",
        "_has_unknown",
        "_is_follower",
        "_is_urgent",
        "_max_bytes",
        "_min_bytes",
        "_request",
    )

    def __init__(self, broker: Broker, request: FetchRequest, call: Call, context: Context) -> None:
        self._broker = broker
        self._request = request
        self._call = call
        self._context = context
        self._max_bytes = max(0, min(request.max_bytes, broker.config.fetch_max_bytes))
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        self._bytes = 0
        self._is_urgent = self._has_unknown = False
        state = request.replica_state
        self._is_follower = request.replica_id >= 0 or (state is not None and state.replica_id >= 0)

    def begin(self) -> FetchResponse | Parked:
        answers = self._read()
        if self._is_urgent or self._bytes >= self._min_bytes or self._request.max_wait_ms <= 0:
            return self._response(answers)
        partitions = [found for each in self._context.wanted if (found := self._find(each)) is not None]
        if not partitions:
            return self._response(answers)
        _release(answers)
        delayed = DelayedFetch(self._call, partitions, self._min_bytes - self._bytes, self._try_answer)
        delayed.start(self._broker, self._request.max_wait_ms)
        return PARKED

    def _try_answer(self, final: bool) -> int:
        """Read again. Answer if that is enough or the time is up; else return how many bytes are missing."""
        answers = self._read()
        if final or self._is_urgent or self._bytes >= self._min_bytes:
            self._call.reply(self._response(answers))
            return 0
        _release(answers)
        return self._min_bytes - self._bytes

    # --- reading

    def _read(self) -> Answers:
        self._bytes, self._is_urgent = 0, False
        return [(each, self._read_one(each)) for each in self._context.wanted]

    def _find(self, wanted: Wanted) -> Partition | None:
        catalog = self._broker.catalog
        key = wanted.topic
        topic = catalog.get(key) if type(key) is str else catalog.by_id(cast(bytes, key))
        index = wanted.fetch.partition
        return topic.partitions[index] if topic is not None and 0 <= index < len(topic.partitions) else None

    def _read_one(self, wanted: Wanted) -> PartitionData:
        try:
            return self._look_into(wanted)
        except (StorageError, OSError) as problem:
            logger.error("a fetch could not read: %s", problem)
            return self._refused(wanted.fetch, ErrorCode.KAFKA_STORAGE_ERROR)
        except CorruptBatch as problem:
            logger.error("a fetch met damaged data: %s", problem)
            return self._refused(wanted.fetch, ErrorCode.CORRUPT_MESSAGE)

    def _look_into(self, wanted: Wanted) -> PartitionData:
        fetch = wanted.fetch
        partition = self._find(wanted)
        if partition is None:  # the request goes on waiting for its other partitions, as in Kafka
            self._has_unknown = True
            is_new = type(wanted.topic) is bytes and self._broker.catalog.by_id(wanted.topic) is None
            # A session remembers the name that belongs to an id. If the topic was found before and is deleted
            # now, Kafka looks for that name and misses the partition, not the id.
            unknown_id = is_new and not wanted.was_known
            error = ErrorCode.UNKNOWN_TOPIC_ID if unknown_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return PartitionData(fetch.partition, error, -1)
        wanted.was_known = True
        log = partition.log
        if self._is_follower:
            return self._refused(fetch, ErrorCode.NOT_LEADER_OR_FOLLOWER)  # one broker has no followers
        if fetch.current_leader_epoch >= 0 and fetch.current_leader_epoch != LEADER_EPOCH:
            return self._refused(fetch, epoch_error(fetch.current_leader_epoch))
        offset, end = fetch.fetch_offset, log.log_end_offset
        if not log.log_start_offset <= offset <= end:
            return self._refused(fetch, ErrorCode.OFFSET_OUT_OF_RANGE)
        aborted = () if self._request.isolation_level == READ_COMMITTED else None
        answer = PartitionData(fetch.partition, 0, end, end, log.log_start_offset, None, None, None, aborted)
        if fetch.last_fetched_epoch >= 0 and (diverging := _diverging_epoch(log, fetch)) is not None:
            if diverging.epoch < 0:
                return self._refused(fetch, ErrorCode.OFFSET_OUT_OF_RANGE)
            self._is_urgent = True
            answer.diverging_epoch = diverging
        elif offset < end and (found := self._slice(log, fetch)) is not None:
            self._bytes += found.length
            answer.records = cast(Any, found)
        return answer

    def _slice(self, log: PartitionLog, fetch: FetchPartition) -> LogSlice | None:
        limit = min(max(fetch.partition_max_bytes, 0), self._max_bytes - self._bytes)
        is_first = self._bytes == 0
        if limit <= 0 and not is_first:
            return None
        found = log.read(fetch.fetch_offset, limit, min_one_batch=is_first)
        if found is not None and not is_first and found.length == limit and _starts_with_half_a_batch(found):
            found.close()
            return None
        return found

    def _refused(self, fetch: FetchPartition, error: ErrorCode) -> PartitionData:
        """An error of this partition. The request is answered at once, without waiting for other partitions."""
        self._is_urgent = True
        return PartitionData(fetch.partition, error, -1, aborted_transactions=None)

    # --- answering

    def _response(self, answers: Answers) -> FetchResponse:
        sessions = sessions_of(self._broker)
        error, session_id, told = sessions.finish(self._context, answers, self._call.now)
        if error:
            _release(answers)
        if self._has_unknown:  # unknown topics come last, as in Kafka
            told.sort(key=lambda pair: pair[1].error_code in UNKNOWN)
        topics: list[FetchableTopicResponse] = []
        last: object = None
        for wanted, answer in told:
            if wanted.topic != last:
                last = wanted.topic
                name, topic_id = (wanted.topic, b"") if isinstance(wanted.topic, str) else ("", wanted.topic)
                partitions: list[PartitionData] = []
                topics.append(FetchableTopicResponse(name, topic_id, partitions))
            partitions.append(answer)
        return FetchResponse(0, error, session_id, topics)


def epoch_error(claimed: int) -> ErrorCode:
    """The error for a client that claims another leader epoch than the present one."""
    return ErrorCode.FENCED_LEADER_EPOCH if claimed < LEADER_EPOCH else ErrorCode.UNKNOWN_LEADER_EPOCH


def _diverging_epoch(log: PartitionLog, fetch: FetchPartition) -> EpochEndOffset | None:
    epoch, end = log.leader_epochs.end_offset_for(fetch.last_fetched_epoch, log.log_end_offset)
    if epoch < fetch.last_fetched_epoch or end < fetch.fetch_offset:
        return EpochEndOffset(epoch, end)
    return None


def _starts_with_half_a_batch(found: LogSlice) -> bool:
    head = found.file.pread(LOG_OVERHEAD_BYTES, found.position)
    return LOG_OVERHEAD_BYTES + int.from_bytes(head[8:12], "big") > found.length


def _release(answers: Answers) -> None:
    for _, answer in answers:
        if answer.records:
            cast(Any, answer.records).close()
