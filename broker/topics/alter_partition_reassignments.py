"""AlterPartitionReassignments (45), v0-1: move replicas between brokers, or cancel such a move (KIP-455).

v1 lets the client forbid a change of the replication factor (KIP-860). There is one broker: the assignment in force can
be asked for again, every other one is refused, and no move can be cancelled because none is ever in progress.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.broker.topics.create_topics import assignment_problem
from kohort.broker.topics.topic_names import shortened
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call
    from kohort.broker.steps import Steps


def alter_partition_reassignments(
    broker: Broker, request: AlterPartitionReassignmentsRequest, call: Call
) -> Steps[AlterPartitionReassignmentsResponse]:
    if not request.topics:  # Kafka answers this before it looks at the rest of the request
        return AlterPartitionReassignmentsResponse(0, True, 0, "", ())
    responses = []
    for topic in request.topics:
        partitions = []
        for each in topic.partitions:
            partitions.append(_reassign(broker, topic.name, each))
            yield
        responses.append(ReassignableTopicResponse(topic.name, partitions))
        yield
    may_change = call.version == 0 or request.allow_replication_factor_change
    return AlterPartitionReassignmentsResponse(0, may_change, 0, None, responses)


def _reassign(broker: Broker, topic: str, asked: ReassignablePartition) -> ReassignablePartitionResponse:
    index = asked.partition_index
    if broker.catalog.get(topic) is None:
        text = f"Unable to find a topic named {shortened(topic)}."
        return ReassignablePartitionResponse(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    if broker.catalog.partition(topic, index) is None:
        text = f"Unable to find partition {topic}:{index}."
        return ReassignablePartitionResponse(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    if asked.replicas is None:  # cancel
        return ReassignablePartitionResponse(index, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None)
    if problem := assignment_problem(list(asked.replicas), broker.config.node_id):
        return ReassignablePartitionResponse(index, ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
    return ReassignablePartitionResponse(index, 0, None)
