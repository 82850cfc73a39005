"""DeleteRecords (21): moves the start of partitions forward; readers no longer see what lies before it (KIP-107).

v2 is flexible. The new start is saved before the answer; the next round of retention removes the files.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kohort.broker.call import PARKED, Parked
from kohort.broker.topics.delayed_fetch import changed
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kohort.storage.errors import LogFailed

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call
    from kohort.broker.steps import Steps

logger = logging.getLogger(__name__)

UP_TO_HIGH_WATERMARK = -1


def delete_records(broker: Broker, request: DeleteRecordsRequest, call: Call) -> Steps[DeleteRecordsResponse | Parked]:
    asked: dict[str, dict[int, DeleteRecordsPartition]] = {}  # named twice, a partition is answered once, as by Kafka
    for topic in request.topics:
        partitions = asked.setdefault(topic.name, {})
        for each in topic.partitions:
            partitions[each.partition_index] = each
            yield
        yield
    topics = []
    is_changed = False
    for name, partitions in asked.items():
        answers = []
        for each in partitions.values():
            answers.append(_delete(broker, name, each))
            is_changed = is_changed or not answers[-1].error_code
            yield
        topics.append(DeleteRecordsTopicResult(name, answers))
        yield
    response = DeleteRecordsResponse(0, topics)
    return _save(broker, call, response) if is_changed else response


def _save(broker: Broker, call: Call, response: DeleteRecordsResponse) -> DeleteRecordsResponse | Parked:
    """Write down the new starts, which takes some syncs, in a thread; then answer."""
    plan = broker.logs.plan_checkpoint()
    problems: list[OSError] = []
    is_saved = is_parked = False

    def write() -> None:
        try:
            plan.write()
        except OSError as problem:
            problems.append(problem)

    def written() -> None:
        nonlocal is_saved
        is_saved = True
        if problems:
            _not_saved(response, problems[0])
        else:
            broker.logs.checkpoint_written(plan)
        if is_parked:
            call.reply(response)

    broker.catalog.save_in_thread(write, written)
    if is_saved:
        return response
    is_parked = True
    return PARKED


def _not_saved(response: DeleteRecordsResponse, problem: OSError) -> None:
    """Readers see the new starts, but a crash may bring the old ones back: the client must come again."""
    logger.error("the starts of partitions whose records are deleted could not be saved: %s", problem)
    for topic in response.topics:
        for each in topic.partitions:
            if not each.error_code:
                each.error_code, each.low_watermark = ErrorCode.KAFKA_STORAGE_ERROR, -1


def _delete(broker: Broker, name: str, asked: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    partition = broker.catalog.partition(name, asked.partition_index)
    if partition is None:
        return _failed(asked, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if partition.topic.is_internal:
        return _failed(asked, ErrorCode.INVALID_TOPIC_EXCEPTION)
    if not partition.topic.config.log.deletes:
        return _failed(asked, ErrorCode.POLICY_VIOLATION)
    try:
        log = partition.log
    except LogFailed:
        return _failed(asked, ErrorCode.KAFKA_STORAGE_ERROR)
    offset = log.log_end_offset if asked.offset == UP_TO_HIGH_WATERMARK else asked.offset
    if not 0 <= offset <= log.log_end_offset:
        return _failed(asked, ErrorCode.OFFSET_OUT_OF_RANGE)
    log.advance_log_start(offset)
    changed(broker, partition)
    return DeleteRecordsPartitionResult(asked.partition_index, log.log_start_offset)


def _failed(asked: DeleteRecordsPartition, error: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(asked.partition_index, -1, error)
