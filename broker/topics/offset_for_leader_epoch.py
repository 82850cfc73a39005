"""OffsetForLeaderEpoch (23): where a leader epoch ended. A consumer notices by it that a log was cut (KIP-320).

v3 adds the follower's id; v4 is flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.broker.topics.catalog import LEADER_EPOCH
from kohort.broker.topics.fetch import epoch_error
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from kohort.storage.errors import LogFailed

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call
    from kohort.broker.steps import Steps
    from kohort.broker.topics.catalog import Partition


def offset_for_leader_epoch(
    broker: Broker,
    request: OffsetForLeaderEpochRequest,
    call: Call,  # noqa: ARG001
) -> Steps[OffsetForLeaderEpochResponse]:
    topics = []
    for topic in request.topics:
        answers = []
        for each in topic.partitions:
            answers.append(_end_of(broker.catalog.partition(topic.topic, each.partition), each))
            yield
        topics.append(OffsetForLeaderTopicResult(topic.topic, answers))
        yield
    return OffsetForLeaderEpochResponse(0, topics)


def _end_of(partition: Partition | None, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    if partition is None:
        return EpochEndOffset(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, asked.partition)
    if asked.current_leader_epoch not in (-1, LEADER_EPOCH):
        return EpochEndOffset(epoch_error(asked.current_leader_epoch), asked.partition)
    try:
        log = partition.log
    except LogFailed:
        return EpochEndOffset(ErrorCode.KAFKA_STORAGE_ERROR, asked.partition)
    if asked.leader_epoch == LEADER_EPOCH:  # the present one, which may have written nothing yet
        return EpochEndOffset(0, asked.partition, LEADER_EPOCH, log.log_end_offset)
    if asked.leader_epoch == -1:
        return EpochEndOffset(0, asked.partition)
    if asked.leader_epoch < -1:  # older than all: it ended where the log starts
        return EpochEndOffset(0, asked.partition, asked.leader_epoch, log.log_start_offset)
    epoch, end = log.leader_epochs.end_offset_for(asked.leader_epoch, log.log_end_offset)
    return EpochEndOffset(0, asked.partition, epoch, end)
