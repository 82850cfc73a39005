"""Fetch (1): reads records.

v4 brought isolation levels (KIP-98); v5 the log's start offset; v7 sessions (KIP-227); v9 leader epochs (KIP-320); v10
zstd; v11 the consumer's rack (KIP-392); v12 is flexible and finds diverging logs (KIP-595); v13 names topics by id
(KIP-516); v14 and v15 are for tiered storage and replicas; v16 can name new leaders (KIP-951); v17 and v18 are for
replicas.

Records leave as they are on disk: an answer carries slices of log files, which the connection sends. The answer comes
at once if it has min.bytes or an error, or if there is no partition to wait for; else the fetch waits
(`delayed_fetch.py`). A fetch of many partitions is done in steps.

With isolation.level=read_committed the records end at the last stable offset, where a batch begins: what is below it is
decided. The answer names the aborted transactions that reach into it, and the client leaves out their records. After a
start, a partition's last stable offset may have to be found first, in steps.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar, cast

from kohort.broker.call import PARKED, Parked
from kohort.broker.topics.answered_topics import AnsweredTopics, Answers
from kohort.broker.topics.catalog import LEADER_EPOCH
from kohort.broker.topics.committed_reading import (
    ISOLATION_LEVELS,
    READ_COMMITTED,
    AbortedLists,
    look,
    must_look,
    unknown_isolation_level,
)
from kohort.broker.topics.delayed_fetch import DelayedFetch, may_wait
from kohort.broker.topics.fetch_sessions import Context, FetchSessions, TopicKey, Wanted
from kohort.broker.topics.stable_offset import is_known, last_stable_offset
from kohort.broker.topics.unknown_partitions import UnknownPartitions, unknown_partition
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.fetch import (
    EpochEndOffset,
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
    from kohort.broker.steps import Steps
    from kohort.broker.topics.catalog import Partition
    from kohort.broker.topics.committed_reading import Failures
    from kohort.storage.open_files import LogSlice
    from kohort.storage.partition_log import PartitionLog

logger = logging.getLogger(__name__)

AT_ONCE = 500  # partitions; more are read in steps
PER_STEP = 50
UNKNOWN_OFFSET = -1
UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
Item = TypeVar("Item")


def fetch(broker: Broker, request: FetchRequest, call: Call) -> FetchResponse | Parked | Steps[FetchResponse | Parked]:
    if call.is_long:
        return _fetch_in_steps(broker, request, call)
    context = sessions_of(broker).begin(request, call.version, call.now)
    if isinstance(context, ErrorCode):
        return FetchResponse(0, context)
    if request.isolation_level not in ISOLATION_LEVELS and context.wanted:
        return unknown_isolation_level(request, call.version)
    fetching = _Fetch(broker, request, call, context)
    if fetching.must_look():
        return fetching.begin_after_looking()
    return fetching.begin() if len(context.wanted) <= AT_ONCE else fetching.begin_in_steps()


def _fetch_in_steps(broker: Broker, request: FetchRequest, call: Call) -> Steps[FetchResponse | Parked]:
    def exists(topic: TopicKey, index: int) -> bool:
        return _partition(broker, topic, index) is not None

    context = yield from sessions_of(broker).begin_in_steps(request, call.version, call.now, exists)
    if isinstance(context, ErrorCode):
        return FetchResponse(0, context)
    if request.isolation_level not in ISOLATION_LEVELS:
        return FetchResponse(0, ErrorCode.UNKNOWN_SERVER_ERROR, request.session_id)
    fetching = _Fetch(broker, request, call, context)
    yield from fetching.look()
    return (yield from fetching.begin_in_steps())


def sessions_of(broker: Broker) -> FetchSessions:
    found: FetchSessions | None = broker.extra.get("fetch_sessions")
    if found is None:
        slots = broker.config.max_incremental_fetch_session_cache_slots
        found = broker.extra["fetch_sessions"] = FetchSessions(slots, lambda: secrets.randbits(31))
    return found


class _Fetch:
    """One Fetch request, from the first read to the answer."""

    __slots__ = (
        "_aborted",
        "_broker",
        "_bytes",
        "_call",
        "_context",
        "_has_unknown",
        "_is_follower",
        "_is_urgent",
        "_max_bytes",
        "_max_wait_ms",
        "_min_bytes",
        "_reads_committed",
        "_unreadable",
    )

    def __init__(self, broker: Broker, request: FetchRequest, call: Call, context: Context) -> None:
        """The request is not kept: it may be long, and the fetch may wait."""
        self._broker = broker
        self._call = call
        self._context = context
        self._max_bytes = max(0, min(request.max_bytes, broker.config.fetch_max_bytes))
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        self._max_wait_ms = request.max_wait_ms
        self._reads_committed = request.isolation_level == READ_COMMITTED
        self._unreadable: Failures = {}
        self._aborted = AbortedLists()
        self._bytes = 0
        self._is_urgent = self._has_unknown = False
        state = request.replica_state
        self._is_follower = request.replica_id >= 0 or (state is not None and state.replica_id >= 0)

    def begin(self) -> FetchResponse | Parked | Steps[FetchResponse]:
        answers = self._read()
        if self._is_urgent or self._bytes >= self._min_bytes or self._max_wait_ms <= 0:
            return self._answer(answers)
        partitions = [found for each in self._context.wanted if (found := self._find(each)) is not None]
        if not partitions:
            return self._answer(answers)
        _release(answers)
        delayed = self._delayed(self._try_answer)
        delayed.start(partitions, self._max_wait_ms)
        return PARKED

    def begin_in_steps(self) -> Steps[FetchResponse | Parked]:
        answers = yield from self._read_in_steps()
        wanted = self._context.wanted
        has_time = self._max_wait_ms > 0 and not self._context.unknown
        if has_time and not self._is_enough and may_wait(self._broker, len(wanted)):
            delayed = self._delayed(self._answer_in_steps)
            try:
                for some in _parts(wanted):
                    delayed.watch([found for each in some if (found := self._find(each)) is not None])
                    yield
            except BaseException:  # GeneratorExit, for instance: the client hung up
                delayed.drop()
                _release(answers)
                raise
            if delayed.is_watching:
                _release(answers)
                delayed.wait(self._max_wait_ms, len(wanted))
                return PARKED
        return (yield from self._response_in_steps(answers))

    def _delayed(self, try_answer: Callable[[bool], int]) -> DelayedFetch:
        missing_bytes = self._min_bytes - self._bytes
        return DelayedFetch(self._broker, self._call, missing_bytes, try_answer, reads_committed=self._reads_committed)

    @property
    def _is_enough(self) -> bool:
        return self._is_urgent or self._bytes >= self._min_bytes

    def _try_answer(self, final: bool) -> int:
        """Read again. Answer if that is enough or the time is up; else return how many bytes are missing."""
        answers = self._read()
        if final or self._is_enough:
            answer = self._answer(answers)
            if isinstance(answer, FetchResponse):
                self._call.reply(answer)
            else:
                self._call.reply_in_steps(answer)
            return 0
        _release(answers)
        return self._min_bytes - self._bytes

    def _answer_in_steps(self, final: bool) -> int:  # noqa: ARG002
        """Read again and answer, even if it is less than min.bytes: a fetch of many partitions waits only once."""
        self._call.reply_in_steps(self._read_and_answer())
        return 0

    def _read_and_answer(self) -> Steps[FetchResponse]:
        answers = yield from self._read_in_steps()
        return (yield from self._response_in_steps(answers))

    def must_look(self) -> bool:
        """Whether last stable offsets have to be found before the first read."""
        return self._reads_committed and must_look(self._broker, map(self._find, self._context.wanted))

    def look(self) -> Steps[None]:
        if self._reads_committed:
            wanted = self._context.wanted
            self._unreadable = yield from look(self._broker, map(self._find, wanted), self._call.now)

    def begin_after_looking(self) -> Steps[FetchResponse | Parked]:
        yield from self.look()
        if len(self._context.wanted) > AT_ONCE:
            return (yield from self.begin_in_steps())
        answer = self.begin()
        return answer if isinstance(answer, FetchResponse | Parked) else (yield from answer)

    # --- reading

    def _read(self) -> Answers:
        self._bytes, self._is_urgent, self._aborted = 0, False, AbortedLists()
        return [(each, self._read_one(each)) for each in self._context.wanted]

    def _read_in_steps(self) -> Steps[Answers]:
        self._bytes, self._is_urgent, self._aborted = 0, False, AbortedLists()
        answers: Answers = []
        try:
            for some in _parts(self._context.wanted):
                answers += [(each, self._read_one(each)) for each in some]
                yield
        except BaseException:  # GeneratorExit, for instance: the client hung up
            _release(answers)
            raise
        return answers

    def _find(self, wanted: Wanted) -> Partition | None:
        return _partition(self._broker, wanted.topic, wanted.fetch.partition)

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
        partition = _partition(self._broker, wanted.topic, fetch.partition)
        if partition is None:  # the request goes on waiting for its other partitions, as in Kafka
            self._has_unknown = True
            is_new = type(wanted.topic) is bytes and self._broker.catalog.by_id(wanted.topic) is None
            # A session remembers the name that belongs to an id. If the topic was found before and is deleted
            # now, Kafka looks for that name and misses the partition, not the id.
            unknown_id = is_new and not wanted.was_known
            error = ErrorCode.UNKNOWN_TOPIC_ID if unknown_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return unknown_partition(fetch.partition, error)
        wanted.was_known = True
        log = partition.log
        if self._is_follower:
            return self._refused(fetch, ErrorCode.NOT_LEADER_OR_FOLLOWER)  # one broker has no followers
        if fetch.current_leader_epoch >= 0 and fetch.current_leader_epoch != LEADER_EPOCH:
            return self._refused(fetch, epoch_error(fetch.current_leader_epoch))
        offset, end = fetch.fetch_offset, log.log_end_offset
        if not log.log_start_offset <= offset <= end:
            return self._refused(fetch, ErrorCode.OFFSET_OUT_OF_RANGE)
        has_transactions = partition.extra or self._broker.had_transactions
        stable = self._stable_offset(partition) if has_transactions else end
        aborted = () if self._reads_committed else None
        answer = PartitionData(fetch.partition, 0, end, stable, log.log_start_offset, None, None, None, aborted)
        if fetch.last_fetched_epoch >= 0 and (diverging := _diverging_epoch(log, fetch)) is not None:
            if diverging.epoch < 0:
                return self._refused(fetch, ErrorCode.OFFSET_OUT_OF_RANGE)
            self._is_urgent = True
            answer.diverging_epoch, answer.aborted_transactions = diverging, None
        elif self._reads_committed:
            if partition in self._unreadable:
                return self._refused(fetch, self._unreadable[partition])
            if offset < stable and (found := self._slice(log, fetch, stable)) is not None:
                self._bytes += found.length
                answer.records = cast(Any, found)
                self._aborted.add(answer, log, offset, found, stable)
        elif offset < end and (found := self._slice(log, fetch, end)) is not None:
            self._bytes += found.length
            answer.records = cast(Any, found)
        return answer

    def _stable_offset(self, partition: Partition) -> int:
        if self._reads_committed or is_known(self._broker, partition):
            return last_stable_offset(self._broker, partition)
        return UNKNOWN_OFFSET  # to find it could take long, and this reader has no use for it

    def _slice(self, log: PartitionLog, fetch: FetchPartition, up_to: int) -> LogSlice | None:
        limit = min(max(fetch.partition_max_bytes, 0), self._max_bytes - self._bytes)
        is_first = self._bytes == 0
        if (limit <= 0 or self._aborted.is_full) and not is_first:
            return None
        found = log.read(fetch.fetch_offset, limit, min_one_batch=is_first, up_to=up_to)
        if found is not None and not is_first and found.length == limit and _starts_with_half_a_batch(found):
            found.close()
            return None
        return found

    def _refused(self, fetch: FetchPartition, error: ErrorCode) -> PartitionData:
        """An error of this partition. The request is answered at once, without waiting for other partitions."""
        self._is_urgent = True
        return PartitionData(fetch.partition, error, -1, aborted_transactions=None)

    # --- answering

    def _answer(self, answers: Answers) -> FetchResponse | Steps[FetchResponse]:
        if self._aborted.is_long:
            return self._response_in_steps(answers)
        self._aborted.fill_now()
        return self._response(answers)

    def _response(self, answers: Answers) -> FetchResponse:
        error, session_id = sessions_of(self._broker).finish(self._context, self._call)
        if error:
            _release(answers)
            return FetchResponse(0, error, session_id)
        told = self._context.told(answers)
        if self._has_unknown:
            told.sort(key=_is_unknown)
        answer = AnsweredTopics()
        answer.add(told)
        return FetchResponse(0, error, session_id, answer.topics)

    def _response_in_steps(self, answers: Answers) -> Steps[FetchResponse]:
        error, session_id = sessions_of(self._broker).finish(self._context, self._call)
        if error:
            _release(answers)
            return FetchResponse(0, error, session_id)
        told: Answers = []
        answer = AnsweredTopics()
        try:
            yield from self._aborted.fill()
            for some in _parts(answers):
                told += self._context.told(some)
                yield
            if self._has_unknown:
                told.sort(key=_is_unknown)
            for some in _parts(told):
                answer.add(some)
                yield
            for topic, indexes in self._context.unknown.items():
                is_id = isinstance(topic, bytes) and self._broker.catalog.by_id(topic) is None
                answer.add_unknown(topic, UnknownPartitions(UNKNOWN[is_id], indexes))
                yield
        except BaseException:  # GeneratorExit, for instance: the client hung up
            _release(answers)
            raise
        return FetchResponse(0, error, session_id, answer.topics)


def _is_unknown(pair: tuple[Wanted, PartitionData]) -> bool:
    """Unknown topics come last in an answer, as in Kafka."""
    return pair[1].error_code in UNKNOWN


def _partition(broker: Broker, key: TopicKey, index: int) -> Partition | None:
    catalog = broker.catalog
    topic = catalog.get(key) if isinstance(key, str) else catalog.by_id(key)
    return topic.partitions[index] if topic is not None and 0 <= index < len(topic.partitions) else None


def _parts(everything: list[Item]) -> Iterator[list[Item]]:
    for start in range(0, len(everything), PER_STEP):
        yield everything[start : start + PER_STEP]


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
