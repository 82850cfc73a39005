"""AlterShareGroupOffsets (91), v0: where an empty share group shall read on. The group need not exist.

The states of the partitions are made anew, with the group's epoch and the given start. A partition that does not exist
has an error of its own. The leader of a partition is not told, as in Kafka: it goes on with what it knows, until
the share coordinator refuses what it wants to write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.broker.share.coordinators import Place, Problem, Problems, ask_group, initialize
from kohort.broker.steps import WaitingSteps
from kohort.coordinator.api import in_slices
from kohort.coordinator.events import InitializeStates
from kohort.coordinator.share.offsets import ALTER_OFFSETS, StartsAltered
from kohort.coordinator.share.records import Ready
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
    asked = Asked(broker, request)
    yield from asked.read()
    if asked.problem is not None:
        return AlterShareGroupOffsetsResponse(0, ErrorCode.UNKNOWN_SERVER_ERROR, asked.problem)
    part = yield from ask_group(broker, request.group_id, ALTER_OFFSETS, StartsAltered(request.group_id, asked.topics))
    if part.error:
        return AlterShareGroupOffsetsResponse(0, part.error, part.message)
    problems: Problems = {}
    if part.places:
        partitions = [(*place, asked.starts[place]) for place in part.places]
        waiting = initialize(broker, InitializeStates(request.group_id, part.state_epoch, partitions))
        yield waiting.waits
        problems = waiting.problems
    return AlterShareGroupOffsetsResponse(0, 0, None, (yield from asked.rows(problems)))


class Asked:
    """A request, read in steps: which of its partitions exist."""

    def __init__(self, broker: Broker, request: AlterShareGroupOffsetsRequest) -> None:
        self._broker = broker
        self._request = request
        self.topics: dict[bytes, Ready] = {}
        self.starts: dict[Place, int] = {}
        self.problem: str | None = None  # with which the whole request fails

    def read(self) -> WaitingSteps[None]:
        for topic in self._request.topics:
            topic_id = self._broker.catalog.topic_id(topic.topic_name)
            if topic_id is not None:
                yield from self._read(topic, topic_id)
            yield None

    def _read(self, topic: AlterShareGroupOffsetsRequestTopic, topic_id: bytes) -> WaitingSteps[None]:
        count = self._broker.catalog.partition_count(topic.topic_name)
        for some in in_slices(topic.partitions):
            for each in some:
                index = each.partition_index
                if index < 0:  # Kafka notices that late, and the whole request fails
                    place = f"{self._request.group_id} {uuid_text(topic_id)} {index}"
                    self.problem = f"Initialize share group parameters has invalid partitionId - {place}"
                elif index < count:
                    self.starts[topic_id, index] = each.start_offset
            yield None
        exist = tuple(index for index in range(count) if (topic_id, index) in self.starts)
        self.topics[topic_id] = Ready(topic.topic_name, exist)

    def rows(self, problems: Problems) -> WaitingSteps[list[AlterShareGroupOffsetsResponseTopic]]:
        """Topics that do not exist come first, as in Kafka."""
        known: list[AlterShareGroupOffsetsResponseTopic] = []
        unknown: list[AlterShareGroupOffsetsResponseTopic] = []
        for topic in self._request.topics:
            topic_id = self._broker.catalog.topic_id(topic.topic_name)
            rows: list[AlterShareGroupOffsetsResponsePartition] = []
            for some in in_slices(topic.partitions):
                for index in (each.partition_index for each in some):
                    place = topic_id or NO_UUID, index
                    problem = problems.get(place, NO_PROBLEM) if place in self.starts else UNKNOWN
                    rows.append(AlterShareGroupOffsetsResponsePartition(index, *problem))
                yield None
            row = AlterShareGroupOffsetsResponseTopic(topic.topic_name, topic_id or NO_UUID, rows)
            (unknown if topic_id is None else known).append(row)
            yield None
        return [*unknown, *known]
