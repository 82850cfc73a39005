"""CreatePartitions (37), v0-3: more partitions for a topic, never fewer. v2 is flexible; v3 may be throttled."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kohort.broker.topics.create_topics import Refused, assignment_problem, saving
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call


def create_partitions(
    broker: Broker, request: CreatePartitionsRequest, call: Call  # noqa: ARG001
) -> CreatePartitionsResponse:  # fmt: skip
    named = Counter(topic.name for topic in request.topics)
    results = [
        CreatePartitionsTopicResult(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        for name, count in named.items()
        if count > 1
    ]
    for wanted in request.topics:
        if named[wanted.name] == 1:
            try:
                _grow(broker, wanted, request.validate_only)
                results.append(CreatePartitionsTopicResult(wanted.name, 0, None))
            except Refused as refused:
                results.append(CreatePartitionsTopicResult(wanted.name, refused.error, str(refused) or None))
    return CreatePartitionsResponse(0, results)


def _grow(broker: Broker, wanted: CreatePartitionsTopic, validate_only: bool) -> None:
    topic = broker.catalog.get(wanted.name)
    if topic is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    have = len(topic.partitions)
    if wanted.count == have:
        raise Refused(ErrorCode.INVALID_PARTITIONS, f"Topic already has {have} partition(s).")
    if wanted.count < have:
        raise Refused(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {have} partition(s); {wanted.count} would not be an increase.",
        )
    if wanted.assignments is not None:
        _check_assignments(broker, wanted, wanted.count - have)
    if not validate_only:
        with saving():
            broker.catalog.add_partitions(topic, wanted.count)


def _check_assignments(broker: Broker, wanted: CreatePartitionsTopic, added: int) -> None:
    assert wanted.assignments is not None
    if len(wanted.assignments) != added:
        raise Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {added} additional partition(s), but only {len(wanted.assignments)} assignment(s) were "
            "specified.",
        )
    for assignment in wanted.assignments:
        if problem := assignment_problem(list(assignment.broker_ids), broker.config.node_id):
            raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
