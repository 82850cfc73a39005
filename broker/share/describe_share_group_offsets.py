"""DescribeShareGroupOffsets (90), v0-1: where share groups read. v1 adds the lag (KIP-1226).

A partition without a state has the start -1, and so has one of a topic that does not exist: no error. The lag is the
count of records that are neither accepted nor archived, as of the last write of the state; -1 if that is not known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from kohort.broker.share.coordinators import PARTITIONS_AT_ONCE, ask_group
from kohort.broker.share.persister import SharePartitionKey, ShareStateSummary
from kohort.broker.steps import Pause, WaitingSteps
from kohort.coordinator.api import in_slices
from kohort.coordinator.share.offsets import INITIALIZED_PARTITIONS, AboutGroup
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from kohort.protocol.wire import NO_UUID
from kohort.storage.errors import StorageError

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call

NOT_KNOWN = -1  # an offset, a count or a lag
NO_LEADER_EPOCH = 0
UNEXPECTED = "The server experienced an unexpected error when processing the request."


def describe_share_group_offsets(
    broker: Broker, request: DescribeShareGroupOffsetsRequest, _call: Call
) -> WaitingSteps[DescribeShareGroupOffsetsResponse]:
    groups = []
    for asked in request.groups:
        groups.append((yield from _describe(broker, asked)))
        yield None
    return DescribeShareGroupOffsetsResponse(0, groups)


def _describe(
    broker: Broker, asked: DescribeShareGroupOffsetsRequestGroup
) -> WaitingSteps[DescribeShareGroupOffsetsResponseGroup]:
    wanted: dict[str, list[int]] = {}
    if asked.topics is None:
        part = yield from ask_group(broker, asked.group_id, INITIALIZED_PARTITIONS, AboutGroup(asked.group_id))
        if part.error:
            return DescribeShareGroupOffsetsResponseGroup(asked.group_id, (), part.error, _words(part.error))
        for topic_id, partition in part.places:
            if (name := broker.catalog.name_of(topic_id)) is not None:
                wanted.setdefault(name, []).append(partition)
    else:
        for topic in asked.topics:
            wanted[topic.topic_name] = list(topic.partitions)
            exists = broker.catalog.topic_id(topic.topic_name) is not None
            if exists and (not asked.group_id or any(each < 0 for each in topic.partitions)):
                error = ErrorCode.UNKNOWN_SERVER_ERROR  # as Kafka: its share coordinator does not take such a question
                return DescribeShareGroupOffsetsResponseGroup(asked.group_id, (), error, UNEXPECTED)
            yield None
    known: list[DescribeShareGroupOffsetsResponseTopic] = []
    unknown: list[DescribeShareGroupOffsetsResponseTopic] = []
    for name, partitions in wanted.items():
        found = broker.catalog.topic_id(name)
        if found is None:
            rows = []
            for some in in_slices(partitions):
                rows += [DescribeShareGroupOffsetsResponsePartition(each, NOT_KNOWN) for each in some]
                yield None
            unknown.append(DescribeShareGroupOffsetsResponseTopic(name, NO_UUID, rows))
        else:
            summaries = yield from _summaries(broker, asked.group_id, found, partitions)
            rows = []
            for summarized in in_slices(summaries.items()):
                rows += [_row(broker, name, index, summary) for index, summary in summarized]
                yield None
            known.append(DescribeShareGroupOffsetsResponseTopic(name, found, rows))
        yield None
    return DescribeShareGroupOffsetsResponseGroup(asked.group_id, [*known, *unknown])


def _words(error: ErrorCode) -> str:
    return error.name.replace("_", " ").lower()


def _summaries(
    broker: Broker, group_id: str, topic_id: bytes, partitions: Sequence[int]
) -> WaitingSteps[Mapping[int, ShareStateSummary]]:
    """What the share coordinator knows of each partition, in the order of the request."""
    wanted = list(dict.fromkeys(partitions))
    found: dict[int, ShareStateSummary] = {}
    waits = Pause()

    def take(partition: int, summary: ShareStateSummary) -> None:
        found[partition] = summary
        if len(found) == len(wanted):
            waits.end()

    for number, partition in enumerate(wanted, 1):
        key = SharePartitionKey(group_id, topic_id, partition)
        broker.share_state.read_summary(key, NO_LEADER_EPOCH, partial(take, partition))
        if number % PARTITIONS_AT_ONCE == 0:
            yield None
    if wanted:
        yield waits
    return {partition: found[partition] for partition in wanted}


def _row(
    broker: Broker, name: str, index: int, summary: ShareStateSummary
) -> DescribeShareGroupOffsetsResponsePartition:
    if summary.error:
        return DescribeShareGroupOffsetsResponsePartition(index, NOT_KNOWN, NO_LEADER_EPOCH, NOT_KNOWN)
    start, epoch, finished = summary.start_offset, summary.leader_epoch, summary.delivery_complete_count
    if NOT_KNOWN in (start, finished):
        return DescribeShareGroupOffsetsResponsePartition(index, start, epoch, NOT_KNOWN)
    try:
        partition = broker.catalog.partition(name, index)
        end = None if partition is None else partition.log.log_end_offset
    except StorageError:
        end = None
    if end is None:
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return DescribeShareGroupOffsetsResponsePartition(index, 0, 0, NOT_KNOWN, error, _words(error))
    return DescribeShareGroupOffsetsResponsePartition(index, start, epoch, _int64(end - start - finished))


def _int64(number: int) -> int:
    """As Java calculates: a share coordinator takes any start offset, also one of which the lag is no int64."""
    return (number + 2**63) % 2**64 - 2**63
