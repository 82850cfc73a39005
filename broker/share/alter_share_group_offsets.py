"""AlterShareGroupOffsets (91), v0: where an empty share group shall read on. The group need not exist.

The states of the partitions are made anew, with the group's epoch and the given start. A partition that does not exist
has an error of its own. The leader of a partition is not told, as in Kafka: it goes on with what it knows, until
the share coordinator refuses what it wants to write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.broker.share.coordinators import Problem, Problems, ask_group, initialize
from kohort.broker.steps import WaitingSteps
from kohort.coordinator.events import InitializeStates
from kohort.coordinator.share.offsets import ALTER_OFFSETS
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from kohort.protocol.record_json import uuid_text
from kohort.protocol.wire import NO_UUID

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call

NO_PROBLEM: Problem = (ErrorCode.NONE, None)
UNKNOWN: Problem = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")


def alter_share_group_offsets(
    broker: Broker, request: AlterShareGroupOffsetsRequest, _call: Call
) -> WaitingSteps[AlterShareGroupOffsetsResponse]:
    if not request.group_id:
        return AlterShareGroupOffsetsResponse(0, ErrorCode.INVALID_GROUP_ID, "The group id is invalid.")
    if (problem := _below_zero(broker, request)) is not None:
        return AlterShareGroupOffsetsResponse(0, ErrorCode.UNKNOWN_SERVER_ERROR, problem)
    part = yield from ask_group(broker, request.group_id, ALTER_OFFSETS, request)
    if part.error:
        return AlterShareGroupOffsetsResponse(0, part.error, part.message)
    problems: Problems = {}
    if part.places:
        starts = _starts(broker, request)
        partitions = [(*place, starts[place]) for place in part.places if place in starts]
        asked = initialize(broker, InitializeStates(request.group_id, part.state_epoch, partitions))
        yield asked.waits
        problems = asked.problems
    # Kafka names topics that it does not know first.
    known = [topic for topic in request.topics if broker.catalog.topic_id(topic.topic_name) is not None]
    unknown = [topic for topic in request.topics if broker.catalog.topic_id(topic.topic_name) is None]
    return AlterShareGroupOffsetsResponse(0, 0, None, [_topic(broker, each, problems) for each in (*unknown, *known)])


def _below_zero(broker: Broker, request: AlterShareGroupOffsetsRequest) -> str | None:
    """What Kafka says of a partition below 0. It notices that late, and the whole request fails."""
    for topic in request.topics:
        topic_id = broker.catalog.topic_id(topic.topic_name)
        for each in topic.partitions:
            if topic_id is not None and each.partition_index < 0:
                place = f"{request.group_id} {uuid_text(topic_id)} {each.partition_index}"
                return f"Initialize share group parameters has invalid partitionId - {place}"
    return None


def _starts(broker: Broker, request: AlterShareGroupOffsetsRequest) -> dict[tuple[bytes, int], int]:
    return {
        (topic_id, each.partition_index): each.start_offset
        for topic in request.topics
        if (topic_id := broker.catalog.topic_id(topic.topic_name)) is not None
        for each in topic.partitions
    }


def _topic(
    broker: Broker, asked: AlterShareGroupOffsetsRequestTopic, problems: Problems
) -> AlterShareGroupOffsetsResponseTopic:
    topic_id = broker.catalog.topic_id(asked.topic_name)
    count = broker.catalog.partition_count(asked.topic_name)
    rows = []
    for index in (each.partition_index for each in asked.partitions):
        if topic_id is None or not 0 <= index < count:
            problem: Problem = UNKNOWN
        else:
            problem = problems.get((topic_id, index), NO_PROBLEM)
        rows.append(AlterShareGroupOffsetsResponsePartition(index, *problem))
    return AlterShareGroupOffsetsResponseTopic(asked.topic_name, topic_id or NO_UUID, rows)
