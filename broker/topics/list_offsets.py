"""ListOffsets (2): the offset at which a partition starts, ends, or was at some time.

v2 has isolation levels (KIP-98); v4 leader epochs (KIP-320); v6 is flexible; v7 knows the latest timestamp (KIP-734);
v8 the earliest local offset (KIP-405); v9 the latest tiered one (KIP-1005); v10 a timeout (KIP-1075); v11 the earliest
offset that is not uploaded yet (KIP-1023). Kohort has no tiered storage: all offsets are local.

With isolation.level=read_committed a partition ends at its last stable offset, and what lies behind it is not found.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING

from kohort.broker.topics.catalog import LEADER_EPOCH
from kohort.broker.topics.committed_reading import ISOLATION_LEVELS, READ_COMMITTED
from kohort.broker.topics.fetch import epoch_error
from kohort.broker.topics.stable_offset import finding_stable_offset
from kohort.broker.topics.while_there import TopicDeleted, while_there
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kohort.storage.errors import StorageError

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call
    from kohort.broker.steps import WaitingSteps
    from kohort.broker.topics.catalog import Partition
    from kohort.storage.partition_log import PartitionLog

logger = logging.getLogger(__name__)

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

BOUNDS = (LATEST, EARLIEST, EARLIEST_LOCAL)

Found = tuple[int, int, int]  # timestamp, offset, leader epoch

FIRST_VERSION = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}


def list_offsets(broker: Broker, request: ListOffsetsRequest, call: Call) -> WaitingSteps[ListOffsetsResponse]:
    asked: Counter[tuple[str, int]] = Counter()
    for topic in request.topics:
        yield None  # also for a topic without partitions
        for each in topic.partitions:
            asked[topic.name, each.partition_index] += 1
            yield None
    topics = []
    for topic in request.topics:
        yield None
        answers = []
        for each in topic.partitions:
            times = asked.pop((topic.name, each.partition_index), 0)
            if request.isolation_level not in ISOLATION_LEVELS:
                answers.append(_failed(each, ErrorCode.UNKNOWN_SERVER_ERROR))  # as in Kafka, for all of them
            elif times == 1:
                partition = broker.catalog.partition(topic.name, each.partition_index)
                answers.append((yield from _look_up(broker, partition, each, request.isolation_level, call)))
            elif times:  # asked for several times: one answer for all
                answers.append(_failed(each, ErrorCode.INVALID_REQUEST))
            yield None
        topics.append(ListOffsetsTopicResponse(topic.name, answers))
    return ListOffsetsResponse(0, topics)


def _look_up(
    broker: Broker, partition: Partition | None, asked: ListOffsetsPartition, isolation_level: int, call: Call
) -> WaitingSteps[ListOffsetsPartitionResponse]:
    timestamp = asked.timestamp
    if timestamp < EARLIEST_PENDING_UPLOAD or call.version < FIRST_VERSION.get(timestamp, 0):
        return _failed(asked, ErrorCode.UNSUPPORTED_VERSION)
    if partition is None:
        return _failed(asked, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if asked.current_leader_epoch not in (-1, LEADER_EPOCH):
        return _failed(asked, epoch_error(asked.current_leader_epoch))
    try:
        end = None
        if isolation_level == READ_COMMITTED:
            end = yield from while_there(broker, partition, finding_stable_offset(broker, partition, call.now))
        found = yield from _offset_at(broker, partition, timestamp, end)
    except TopicDeleted:
        return _failed(asked, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    except (StorageError, OSError) as problem:
        logger.error("ListOffsets could not read %s: %s", partition, problem)
        return _failed(asked, ErrorCode.KAFKA_STORAGE_ERROR)
    except MalformedMessage as problem:
        logger.error("ListOffsets met damaged data in %s: %s", partition, problem)
        return _failed(asked, ErrorCode.CORRUPT_MESSAGE)
    if found is None or (end is not None and timestamp not in BOUNDS and found[1] >= end):
        return ListOffsetsPartitionResponse(asked.partition_index)
    at, offset, epoch = found
    return ListOffsetsPartitionResponse(asked.partition_index, 0, at, offset, epoch)


def _offset_at(broker: Broker, partition: Partition, timestamp: int, end: int | None) -> WaitingSteps[Found | None]:
    """`end`: the last stable offset, if that is where the partition ends for the client."""
    log = partition.log
    if timestamp == LATEST:
        return -1, log.log_end_offset if end is None else end, LEADER_EPOCH
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.log_start_offset, epoch_of(log, log.log_start_offset)
    if timestamp == MAX_TIMESTAMP:
        return (yield from broker.inflating.take(while_there(broker, partition, log.latest_timestamp())))
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return -1, -1, -1
    return (yield from broker.inflating.take(while_there(broker, partition, log.offset_for_timestamp(timestamp))))


def epoch_of(log: PartitionLog, offset: int) -> int:
    """The leader epoch that the offset was, or will be, written in."""
    return max((epoch for epoch, start in log.leader_epochs if start <= offset), default=LEADER_EPOCH)


def _failed(asked: ListOffsetsPartition, error: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(asked.partition_index, error)
