"""ElectLeaders (43), v0-2: let another replica lead (KIP-183). v1 adds unclean elections (KIP-460); v2 is flexible.

A partition has one replica here, which leads it already: no election is ever needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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

PREFERRED, UNCLEAN = 0, 1


def elect_leaders(broker: Broker, request: ElectLeadersRequest, call: Call) -> ElectLeadersResponse:
    known_type = call.version == 0 or request.election_type in (PREFERRED, UNCLEAN)
    if request.topic_partitions is None:  # all topics; partitions that need no election are left out
        if not known_type:
            return ElectLeadersResponse(0, ErrorCode.INVALID_REQUEST, ())
        return ElectLeadersResponse(0, 0, [ReplicaElectionResult(topic.name, ()) for topic in broker.catalog])
    results = []
    for asked in request.topic_partitions:
        if known_type:
            partitions = [_elect(broker, asked.topic, index) for index in asked.partitions]
        else:
            text = f"Unknown election type {request.election_type}"
            partitions = [PartitionResult(index, ErrorCode.INVALID_REQUEST, text) for index in asked.partitions]
        results.append(ReplicaElectionResult(asked.topic, partitions))
    top_error = 0 if known_type or not results else ErrorCode.INVALID_REQUEST
    return ElectLeadersResponse(0, top_error, results)


def _elect(broker: Broker, topic: str, index: int) -> PartitionResult:
    if broker.catalog.get(topic) is None:
        return PartitionResult(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {topic}")
    if broker.catalog.partition(topic, index) is None:
        return PartitionResult(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {topic}-{index}")
    return PartitionResult(index, ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
