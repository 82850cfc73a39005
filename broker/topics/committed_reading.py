"""What readers with isolation.level=read_committed need besides the log: stable offsets, and what was aborted."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kohort.broker.topics.stable_offset import finding_stable_offset, is_known
from kohort.broker.topics.while_there import TopicDeleted, while_there
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from kohort.storage.errors import StorageError

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.steps import Steps
    from kohort.broker.topics.catalog import Partition
    from kohort.storage.open_files import LogSlice
    from kohort.storage.partition_log import PartitionLog

logger = logging.getLogger(__name__)

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
FIRST_VERSION_WITH_ONE_ERROR = 13  # before, each partition has it, too
ISOLATION_LEVELS = (READ_UNCOMMITTED, READ_COMMITTED)
PER_STEP = 50
Failures = dict["Partition", ErrorCode]


def must_look(broker: Broker, partitions: Iterable[Partition | None]) -> bool:
    """Whether the last stable offset of one of them is not known yet: only after a start of the broker."""
    return broker.had_transactions and any(each is not None and not is_known(broker, each) for each in partitions)


def look(broker: Broker, partitions: Iterable[Partition | None], now: int) -> Steps[Failures]:
    """Find the last stable offsets of these partitions. Returns those whose logs could not be read, with the reason."""
    failures: Failures = {}
    for number, partition in enumerate(partitions):
        if number % PER_STEP == 0:
            yield
        if partition is None or is_known(broker, partition):
            continue
        try:
            yield from while_there(broker, partition, finding_stable_offset(broker, partition, now))
        except TopicDeleted:
            continue
        except (StorageError, OSError) as problem:
            logger.error("the last stable offset of %s could not be found: %s", partition, problem)
            failures[partition] = ErrorCode.KAFKA_STORAGE_ERROR
        except MalformedMessage as problem:
            logger.error("the last stable offset of %s lies behind damaged data: %s", partition, problem)
            failures[partition] = ErrorCode.CORRUPT_MESSAGE
    return failures


def aborted_in(log: PartitionLog, offset: int, found: LogSlice, stable_offset: int) -> list[AbortedTransaction]:
    """What was aborted and may have records in the slice, which was read from `offset` on."""
    if offset > log.last_aborted_offset:  # the usual case
        return []
    return [
        AbortedTransaction(each.producer_id, each.first_offset) for each in log.aborted_in(offset, found, stable_offset)
    ]


def unknown_isolation_level(request: FetchRequest, version: int) -> FetchResponse:
    """The answer to a level that does not exist: Kafka raises an exception when it begins to read."""
    error = ErrorCode.UNKNOWN_SERVER_ERROR
    topics = []
    if version < FIRST_VERSION_WITH_ONE_ERROR:
        for topic in request.topics:
            refused = [PartitionData(each.partition, error, -1, aborted_transactions=()) for each in topic.partitions]
            topics.append(FetchableTopicResponse(topic.topic, partitions=refused))
    return FetchResponse(0, error, request.session_id, topics)
