"""Produce (0): records come in.

v3 brought record batches of magic 2 (KIP-98); v5 answers with the log's start offset; v7 allows zstd (KIP-110); v8
tells which records of a batch are wrong and why (KIP-467); v9 is flexible; v10 can name a new leader (KIP-951); v11 and
v12 are for transactions (KIP-890), which Kohort does not have yet; v13 names topics by id (KIP-516).

acks=1 and acks=-1 mean the same on one broker: the answer leaves when the batch is in the page cache, or on disk if
flush.messages says so. acks=0 is never answered; if something is wrong then, the connection is closed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.call import NO_ANSWER, PARKED
from broker.topics.append_checks import Refusal, check_batch
from broker.topics.catalog import LEADER_EPOCH
from broker.topics.delayed_fetch import appended
from broker.topics.producer_state import producers_of
from protocol.error_codes import ErrorCode
from protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from protocol.record_batch import NO_PRODUCER_ID
from protocol.wire import NO_UUID
from storage.errors import LogFailed

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.call import Call
    from broker.topics.catalog import Topic
    from protocol.messages.produce import PartitionProduceData, TopicProduceData
    from storage.partition_log import PartitionLog

FIRST_VERSION_WITH_TOPIC_IDS = 13
ADMIN_CLIENT_ID = "__admin_client"  # Kafka's own tools may write into internal topics

INVALID_REQUIRED_ACKS = Refusal(ErrorCode.INVALID_REQUIRED_ACKS)
UNKNOWN_TOPIC_OR_PARTITION = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
UNKNOWN_TOPIC_ID = Refusal(ErrorCode.UNKNOWN_TOPIC_ID)


def produce(broker: Broker, request: ProduceRequest, call: Call) -> Any:
    acks = request.acks
    flushes = _Flushes()
    topics = []
    failed = False
    for wanted in request.topic_data:
        topic, refusal = _find_topic(broker, wanted, call)
        if not -1 <= acks <= 1:
            refusal = INVALID_REQUIRED_ACKS
        answers = []
        for data in wanted.partition_data:
            answer = _append(broker, topic, refusal, data, call, flushes)
            if answer.error_code:
                failed = True
            answers.append(answer)
        topics.append(TopicProduceResponse(wanted.name, wanted.topic_id, answers))
    if acks == 0:
        if failed:
            call.hang_up(f"Produce with acks=0 failed: {_first_error(topics)}")
        return NO_ANSWER
    if flushes.pending:
        flushes.then_reply(call, ProduceResponse(topics))
        return PARKED
    return ProduceResponse(topics)


def _find_topic(broker: Broker, wanted: TopicProduceData, call: Call) -> tuple[Topic | None, Refusal | None]:
    if call.version >= FIRST_VERSION_WITH_TOPIC_IDS:
        topic = broker.catalog.by_id(wanted.topic_id) if wanted.topic_id != NO_UUID else None
        if topic is None:
            return None, UNKNOWN_TOPIC_ID
    else:
        topic = broker.catalog.get(wanted.name)
        if topic is None:
            return None, UNKNOWN_TOPIC_OR_PARTITION
    if topic.is_internal and call.client_id != ADMIN_CLIENT_ID:
        return topic, Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {topic.name}")
    return topic, None


def _append(
    broker: Broker,
    topic: Topic | None,
    refusal: Refusal | None,
    data: PartitionProduceData,
    call: Call,
    flushes: _Flushes,
) -> PartitionProduceResponse:
    index = data.index
    if topic is not None and not 0 <= index < len(topic.partitions):
        refusal = UNKNOWN_TOPIC_OR_PARTITION
    if topic is None or refusal is not None:
        return _refused(index, refusal or UNKNOWN_TOPIC_OR_PARTITION)
    partition = topic.partitions[index]
    batch = bytes(data.records or b"")
    now = call.now
    checked = check_batch(batch, call.version, partition, now)
    if isinstance(checked, Refusal):
        return _refused(index, checked)
    try:
        log = partition.log
        if checked[9] != NO_PRODUCER_ID:
            known = producers_of(broker, partition, now).check(checked, partition)
            if known is not None:
                if isinstance(known, Refusal):
                    return _refused(index, known)
                return PartitionProduceResponse(index, 0, known.first_offset, known.timestamp, log.log_start_offset)
        info = log.append(batch, now=now, leader_epoch=LEADER_EPOCH, verify=False)
    except LogFailed as problem:
        return _refused(index, Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(problem)))
    producers = partition.extra.get("producers")
    if producers is not None:
        producers.appended(checked, info.first_offset, now if info.log_append_time_ms >= 0 else checked[8])
    appended(broker, partition, len(batch))
    answer = PartitionProduceResponse(index, 0, info.first_offset, info.log_append_time_ms, log.log_start_offset)
    if log.wants_flush(now):
        if log.log_end_offset - log.recovery_point >= log.config.flush_messages:
            flushes.add(broker, log, answer)
        else:
            broker.flusher.sync(log)
    return answer


def _refused(index: int, refusal: Refusal) -> PartitionProduceResponse:
    return PartitionProduceResponse(index, refusal.code, -1, -1, -1, refusal.record_errors, refusal.message)


def _first_error(topics: list[TopicProduceResponse]) -> str:
    bad = (each for topic in topics for each in topic.partition_responses if each.error_code)
    return ErrorCode(next(bad).error_code).name


class _Flushes:
    """The partitions of a request whose records must be on disk before it is answered."""

    __slots__ = ("_call", "_response", "pending")

    def __init__(self) -> None:
        self.pending = 0
        self._call: Call | None = None
        self._response: ProduceResponse | None = None

    def add(self, broker: Broker, log: PartitionLog, answer: PartitionProduceResponse) -> None:
        self.pending += 1

        def ready(problem: LogFailed | None) -> None:
            self.pending -= 1
            if problem is not None:
                answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
                answer.base_offset = answer.log_start_offset = answer.log_append_time_ms = -1
            if not self.pending and self._call is not None:
                self._call.reply(self._response)

        broker.flusher.sync(log, ready)

    def then_reply(self, call: Call, response: ProduceResponse) -> None:
        self._call, self._response = call, response
