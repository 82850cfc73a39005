"""Produce (0): records come in.

v3 brought record batches of magic 2 (KIP-98); v5 answers with the log's start offset; v7 allows zstd (KIP-110); v8
tells which records of a batch are wrong and why (KIP-467); v9 is flexible; v10 can name a new leader (KIP-951); v11
knows TRANSACTION_ABORTABLE; v12 adds partitions to transactions by writing to them (KIP-890); v13 names topics by id
(KIP-516). What is about transactions is in `transactional_produce.py`.

acks=1 and acks=-1 mean the same on one broker: the answer leaves when the batch is in the page cache, or on disk if
flush.messages says so. acks=0 is never answered; if something is wrong then, the connection is closed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from kohort.broker.call import NO_ANSWER, PARKED, NoAnswer, Parked
from kohort.broker.topics.append_checks import Refusal, check_batch, check_frame
from kohort.broker.topics.catalog import LEADER_EPOCH
from kohort.broker.topics.delayed_fetch import WATCHERS, appended
from kohort.broker.topics.producer_snapshots import recover_producers, save_snapshot
from kohort.broker.topics.producer_state import PRODUCERS
from kohort.broker.topics.transactional_produce import TRANSACTIONAL_ID_MISSING, Transaction, is_transactional
from kohort.broker.topics.while_there import TopicDeleted, while_there
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kohort.protocol.record_batch import CorruptBatch
from kohort.storage.errors import LogFailed, StorageError

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call
    from kohort.broker.steps import WaitingSteps
    from kohort.broker.topics.append_checks import Check, Checked
    from kohort.broker.topics.catalog import Partition, Topic
    from kohort.broker.topics.producer_state import Verification
    from kohort.broker.topics.transactional_produce import Entry
    from kohort.protocol.messages.produce import PartitionProduceData, TopicProduceData
    from kohort.protocol.record_batch import BatchHeader
    from kohort.storage.partition_log import PartitionLog

FIRST_VERSION_WITH_TOPIC_IDS = 13
ADMIN_CLIENT_ID = "__admin_client"  # in Kafka, whoever calls itself so may write into internal topics

INVALID_REQUIRED_ACKS = Refusal(ErrorCode.INVALID_REQUIRED_ACKS)
INTERNAL_TOPIC = Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION)
UNKNOWN_TOPIC_OR_PARTITION = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
UNKNOWN_TOPIC_ID = Refusal(ErrorCode.UNKNOWN_TOPIC_ID)


def produce(
    broker: Broker, request: ProduceRequest, call: Call
) -> ProduceResponse | Parked | NoAnswer | WaitingSteps[ProduceResponse | Parked | NoAnswer]:
    topics = request.topic_data
    if len(topics) != 1 or len(topics[0].partition_data) != 1:
        return _produce_several(broker, request, call)
    # The usual request: one batch, which can be checked at once.
    (wanted,), (data,) = topics, topics[0].partition_data
    if data.records is None:
        return _without_records(call)
    if is_transactional(data.records):
        return _produce_several(broker, request, call)
    progress = Progress(broker, request, call)
    answer = progress.produce(_find_topic(broker, wanted.name, wanted.topic_id, call.version), data)
    if not isinstance(answer, PartitionProduceResponse):
        return _produce_one_in_steps(progress, wanted, answer)
    return progress.answer([TopicProduceResponse(wanted.name, wanted.topic_id, [answer])])


def _produce_one_in_steps(
    progress: Progress, wanted: TopicProduceData, steps: WaitingSteps[PartitionProduceResponse]
) -> WaitingSteps[ProduceResponse | Parked | NoAnswer]:
    answer = yield from steps
    return progress.answer([TopicProduceResponse(wanted.name, wanted.topic_id, [answer])])


def _produce_several(
    broker: Broker, request: ProduceRequest, call: Call
) -> WaitingSteps[ProduceResponse | Parked | NoAnswer]:
    """Produce to several partitions, one after the other. As in Kafka, one that is named twice has the last answer."""
    named: dict[tuple[str, bytes], dict[int, PartitionProduceData]] = {}
    transactional = False
    for wanted in request.topic_data:
        yield None
        if wanted.partition_data:
            partitions = named.setdefault((wanted.name, wanted.topic_id), {})
            for data in wanted.partition_data:
                yield None
                if data.records is None:
                    return _without_records(call)
                partitions[data.index] = data
                transactional = transactional or is_transactional(data.records)
    progress = Progress(broker, request, call)
    if transactional:
        return (yield from _produce_in_transaction(progress, request, named))
    topics = []
    for name, topic_id in list(named):
        partitions = named.pop((name, topic_id))  # frees the memory of requests that are done, for the answers
        answers = []
        for data in partitions.values():
            yield None
            answer = progress.produce(_find_topic(broker, name, topic_id, call.version), data)
            answers.append(answer if isinstance(answer, PartitionProduceResponse) else (yield from answer))
        topics.append(TopicProduceResponse(name, topic_id, answers))
    return progress.answer(topics)


def _produce_in_transaction(
    progress: Progress, request: ProduceRequest, named: dict[tuple[str, bytes], dict[int, PartitionProduceData]]
) -> WaitingSteps[ProduceResponse | Parked | NoAnswer]:
    """Produce batches of which one or more are transactional."""
    broker, call = progress.broker, progress.call
    if request.transactional_id is None:
        return (yield from _refuse_all(progress, named, TRANSACTIONAL_ID_MISSING))
    transaction = Transaction(broker, request.transactional_id, call.version, call.now)
    try:
        for (name, topic_id), partitions in named.items():
            topic = _find_topic(broker, name, topic_id, call.version)
            for data in partitions.values():
                yield None
                if type(topic) is Refusal or not 0 <= data.index < len(topic.partitions):
                    continue
                batch = data.records or b""
                if is_transactional(batch) and check_frame(batch, call.version) is None:
                    transaction.add(topic.partitions[data.index], batch)
        if refusal := (yield from transaction.prepare()):
            return (yield from _refuse_all(progress, named, refusal))
        topics = []
        for name, topic_id in list(named):
            partitions = named.pop((name, topic_id))
            answers = []
            for data in partitions.values():
                yield None
                topic = _find_topic(broker, name, topic_id, call.version)
                answer = progress.produce(topic, data, transaction.entries)
                answers.append(answer if isinstance(answer, PartitionProduceResponse) else (yield from answer))
            topics.append(TopicProduceResponse(name, topic_id, answers))
        return progress.answer(topics)
    finally:
        transaction.end()


def _refuse_all(
    progress: Progress, named: dict[tuple[str, bytes], dict[int, PartitionProduceData]], refusal: Refusal
) -> WaitingSteps[ProduceResponse | Parked | NoAnswer]:
    """Nothing of the request can be served, whatever its topics."""
    topics = []
    for (name, topic_id), partitions in named.items():
        answers = []
        for index in partitions:
            yield None
            answers.append(progress.refuse(index, refusal))
        topics.append(TopicProduceResponse(name, topic_id, answers))
    return progress.answer(topics)


def _without_records(call: Call) -> NoAnswer:
    call.hang_up("Produce without records")
    return NO_ANSWER


def _find_topic(broker: Broker, name: str, topic_id: bytes, version: int) -> Topic | Refusal:
    if version >= FIRST_VERSION_WITH_TOPIC_IDS:
        return broker.catalog.by_id(topic_id) or UNKNOWN_TOPIC_ID
    return broker.catalog.get(name) or UNKNOWN_TOPIC_OR_PARTITION


class Progress:
    """One request: the batches that were appended so far, and which logs must be synced before the answer."""

    __slots__ = ("_acks", "_failed", "_flushes", "_refusal", "broker", "call")

    def __init__(self, broker: Broker, request: ProduceRequest, call: Call) -> None:
        self.broker = broker
        self.call = call
        self._acks = request.acks
        self._refusal = None if -1 <= request.acks <= 1 else INVALID_REQUIRED_ACKS  # of all batches
        self._flushes: list[tuple[PartitionLog, PartitionProduceResponse]] = []
        self._failed = False

    def produce(
        self, topic: Topic | Refusal, data: PartitionProduceData, entries: Mapping[Partition, Entry] | None = None
    ) -> PartitionProduceResponse | WaitingSteps[PartitionProduceResponse]:
        """Append a batch, in steps if it is a long one. `entries`: what the coordinator says of its transaction."""
        index, call, refusal = data.index, self.call, self._refusal
        if type(topic) is Refusal:
            return self.refuse(index, topic)
        if not 0 <= index < len(topic.partitions):
            return self.refuse(index, UNKNOWN_TOPIC_OR_PARTITION)
        partition, batch = topic.partitions[index], data.records or b""
        verification: Verification | None = None
        if entries and (entry := entries.get(partition)) is not None:
            if type(entry) is Refusal:
                refusal = entry
            else:
                verification = entry
        if topic.is_internal and not (
            call.client_id == ADMIN_CLIENT_ID and self.broker.config.kohort_internal_topics_writable
        ):
            refusal = refusal or INTERNAL_TOPIC
        if refusal is not None:
            return self.refuse(index, check_frame(batch, call.version) or refusal)
        check = check_batch(batch, call.version, partition, call.now)
        if type(check) is Refusal or (isinstance(check, tuple) and not _must_recover(partition, check)):
            return self._append(partition, check, verification)
        return self._append_in_steps(partition, check, verification)

    def _append_in_steps(
        self, partition: Partition, check: Check, verification: Verification | None
    ) -> WaitingSteps[PartitionProduceResponse]:
        checked = check if isinstance(check, tuple) else (yield from self.broker.inflating.take(check))
        if not isinstance(checked, Refusal) and _must_recover(partition, checked):
            try:
                yield from while_there(self.broker, partition, recover_producers(self.broker, partition, self.call.now))
            except TopicDeleted:
                return self.refuse(partition.index, UNKNOWN_TOPIC_OR_PARTITION)
            except (StorageError, OSError, CorruptBatch) as problem:
                return self.refuse(partition.index, Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(problem)))
        if self.broker.catalog.by_id(partition.topic.id) is None:  # the topic was deleted between two steps
            return self.refuse(partition.index, UNKNOWN_TOPIC_OR_PARTITION)
        return self._append(partition, checked, verification)

    def _append(
        self, partition: Partition, checked: Checked, verification: Verification | None
    ) -> PartitionProduceResponse:
        """Append the batch, or say why not. The answer may have to wait for a sync of the log."""
        index, now = partition.index, self.call.now
        try:
            log = partition.log
            if type(checked) is Refusal:
                return self.refuse(index, checked, log)
            known = None if checked[1][9] < 0 else partition.extra[PRODUCERS].check(checked[1], verification)
            if known is None:
                batch, header = checked
                first_offset, _, timestamp = log.append_checked(batch, header, now=now, leader_epoch=LEADER_EPOCH)
                if partition.extra:
                    _tell_others(self.broker, partition, log, checked, first_offset, timestamp)
            elif isinstance(known, Refusal):
                return self.refuse(index, known, log)
            else:  # a repetition; it may wait for the same sync as the first one
                first_offset, timestamp = known.first_offset, known.timestamp
        except (StorageError, OSError) as problem:  # OSError: no descriptor was free to open a new log, for instance
            return self.refuse(index, Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(problem)))
        answer = PartitionProduceResponse(index, 0, first_offset, timestamp, log.log_start_offset)
        if log.wants_flush(now):
            if log.log_end_offset - log.recovery_point >= log.config.flush_messages:
                self._flushes.append((log, answer))
            else:  # the log rolled, or flush.ms has passed
                self.broker.flusher.sync(log)
        return answer

    def refuse(self, index: int, refusal: Refusal, log: PartitionLog | None = None) -> PartitionProduceResponse:
        self._failed = True
        return _refused(index, refusal, log)

    def answer(self, topics: list[TopicProduceResponse]) -> ProduceResponse | Parked | NoAnswer:
        if self._acks == 0:
            for log, _ in self._flushes:
                self.broker.flusher.sync(log)
            if self._failed:
                self.call.hang_up(f"Produce with acks=0 failed: {_first_error(topics)}")
            return NO_ANSWER
        response = ProduceResponse(topics)
        if self._flushes:
            _reply_when_synced(self.broker, self.call, response, self._flushes)
            return PARKED
        return response


def _must_recover(partition: Partition, checked: tuple[bytes, BatchHeader]) -> bool:
    """Whether the batch is the first one of an idempotent producer since the broker was started."""
    return checked[1][9] >= 0 and PRODUCERS not in partition.extra


def _tell_others(
    broker: Broker,
    partition: Partition,
    log: PartitionLog,
    checked: tuple[bytes, BatchHeader],
    first_offset: int,
    timestamp: int,
) -> None:
    """The batch is in the log: remember its producer, and wake the fetches that wait for records."""
    batch, header = checked
    extra = partition.extra
    if PRODUCERS in extra:
        if first_offset == log.segments[-1].base_offset > 0:
            save_snapshot(log, extra[PRODUCERS], first_offset)  # a new segment: recovery can start here
        extra[PRODUCERS].appended(header, first_offset, header[8] if timestamp < 0 else timestamp)
    if WATCHERS in extra:
        appended(broker, partition, len(batch))


def _refused(index: int, refusal: Refusal, log: PartitionLog | None = None) -> PartitionProduceResponse:
    log_start_offset = log.log_start_offset if log is not None and refusal.by_log else -1
    return PartitionProduceResponse(
        index, refusal.code, -1, -1, log_start_offset, refusal.record_errors, refusal.message
    )


def _first_error(topics: list[TopicProduceResponse]) -> str:
    bad = (each for topic in topics for each in topic.partition_responses if each.error_code)
    return ErrorCode(next(bad).error_code).name


def _reply_when_synced(
    broker: Broker,
    call: Call,
    response: ProduceResponse,
    flushes: list[tuple[PartitionLog, PartitionProduceResponse]],
) -> None:
    """Answer when all of these logs are synced, or have failed."""
    pending = len(flushes)

    def synced(answer: PartitionProduceResponse, problem: LogFailed | None) -> None:
        nonlocal pending
        pending -= 1
        if problem is not None:
            answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            answer.base_offset = answer.log_append_time_ms = answer.log_start_offset = -1
        if not pending:
            call.reply(response)

    for log, answer in flushes:
        broker.flusher.sync(log, partial(synced, answer))
