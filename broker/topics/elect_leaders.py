"""ElectLeaders (43), v0-2: let another replica lead (KIP-183). v1 adds unclean elections (KIP-460); v2 is flexible.

A partition has one replica here, which leads it already: no election is ever needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.broker.topics.topic_names import shortened
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call
    from kohort.broker.steps import Steps

PREFERRED, UNCLEAN = 0, 1


def elect_leaders(broker: Broker, request: ElectLeadersRequest, call: Call) -> Steps[ElectLeadersResponse]:
    known_type = call.version == 0 or request.election_type in (PREFERRED, UNCLEAN)
    if request.topic_partitions is None:  # all topics; partitions that need no election are left out
        if not known_type:
            return ElectLeadersResponse(0, ErrorCode.INVALID_REQUEST, ())
        return (yield from _elect_everywhere(broker))
    unknown_type = f"Unknown election type {request.election_type}"
    results = []
    for asked in request.topic_partitions:
        partitions = []
        for index in asked.partitions:
            if known_type:
                partitions.append(_elect(broker, asked.topic, index))
            else:
                partitions.append(PartitionResult(index, ErrorCode.INVALID_REQUEST, unknown_type))
            yield
        yield
        results.append(ReplicaElectionResult(asked.topic, partitions))
    top_error = 0 if known_type or not results else ErrorCode.INVALID_REQUEST
    return ElectLeadersResponse(0, top_error, results)


def _elect_everywhere(broker: Broker) -> Steps[ElectLeadersResponse]:
    results = []
    for topic in list(broker.catalog):
        results.append(ReplicaElectionResult(topic.name, ()))
        yield
    return ElectLeadersResponse(0, 0, results)


def _elect(broker: Broker, topic: str, index: int) -> PartitionResult:
    if broker.catalog.get(topic) is None:
        return PartitionResult(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {shortened(topic)}")
    if broker.catalog.partition(topic, index) is None:
        return PartitionResult(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {topic}-{index}")
    return PartitionResult(index, ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
