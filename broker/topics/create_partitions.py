"""CreatePartitions (37), v0-3: more partitions for a topic, never fewer. v2 is flexible; v3 may be throttled."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kohort.broker.topics.catalog import MAX_PARTITIONS
from kohort.broker.topics.create_topics import (
    MAX_PARTITIONS_PER_REQUEST,
    TOPICS_PER_SAVE,
    Refused,
    assignment_problem,
    saving,
    too_many_partitions,
)
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
    from kohort.broker.steps import Steps, WaitingSteps
    from kohort.broker.topics.catalog import Topic


def create_partitions(
    broker: Broker, request: CreatePartitionsRequest, call: Call  # noqa: ARG001
) -> WaitingSteps[CreatePartitionsResponse]:  # fmt: skip
    named: Counter[str] = Counter()
    for wanted in request.topics:
        named[wanted.name] += 1
        yield None
    results = {
        name: _result(name, Refused(ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
        for name, count in named.items()
        if count > 1
    }
    planned: dict[str, int] = {}  # the number of partitions that the topic will have
    added = 0
    for wanted in request.topics:
        yield None
        if wanted.name in results:
            continue
        try:
            _, more = _growth(broker, wanted.name, wanted.count, added)
            yield from _check_assignments(broker, wanted, more)
            added += more
            planned[wanted.name] = wanted.count
            results[wanted.name] = CreatePartitionsTopicResult(wanted.name, 0, None)
        except Refused as refused:
            results[wanted.name] = _result(wanted.name, refused)
    if not request.validate_only:
        failed = yield from _grow(broker, planned)
        results.update({name: _result(name, refused) for name, refused in failed.items()})
    return CreatePartitionsResponse(0, list(results.values()))


def _result(name: str, refused: Refused) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name, refused.error, str(refused) or None)


def _growth(broker: Broker, name: str, count: int, added_before: int) -> tuple[Topic, int]:
    """The topic, and how many partitions it gets. `added_before`: those of other topics of the same request."""
    topic = broker.catalog.get(name)
    if topic is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    have = len(topic.partitions)
    if count == have:
        raise Refused(ErrorCode.INVALID_PARTITIONS, f"Topic already has {have} partition(s).")
    if count < have:
        raise Refused(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {have} partition(s); {count} would not be an increase.",
        )
    if topic.is_internal:
        # Kafka does it, and after the next restart looks for the offsets of nearly every group in another partition.
        raise Refused(
            ErrorCode.INVALID_PARTITIONS,
            f"The number of partitions of {topic.name} cannot be changed: groups would no longer find their offsets.",
        )
    more = count - have
    if added_before + more > MAX_PARTITIONS_PER_REQUEST:
        # Kafka answers UNKNOWN_SERVER_ERROR, and adds the first 10,000 all the same.
        raise Refused(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
    if broker.catalog.all_partitions + added_before + more > MAX_PARTITIONS:
        raise too_many_partitions()
    return topic, more


def _grow(broker: Broker, planned: dict[str, int]) -> WaitingSteps[dict[str, Refused]]:
    """Add the planned partitions, to some topics at a time. Returns the errors of those that failed, by name."""
    failed: dict[str, Refused] = {}
    names = list(planned)
    for start in range(0, len(names), TOPICS_PER_SAVE):
        yield from broker.catalog.unchanging()
        some = []
        added = 0
        for name in names[start : start + TOPICS_PER_SAVE]:
            # Other requests may have deleted the topic, or added partitions to it or to others, since it was planned.
            try:
                topic, more = _growth(broker, name, planned[name], added)
                added += more
                some.append((topic, planned[name]))
            except Refused as refused:
                failed[name] = refused
        try:
            with saving():
                yield from broker.catalog.making(broker.catalog.growth_of(some))
        except Refused as refused:
            failed.update({topic.name: refused for topic, _ in some})
        yield None
    return failed


def _check_assignments(broker: Broker, wanted: CreatePartitionsTopic, added: int) -> Steps[None]:
    if wanted.assignments is None:
        return
    if len(wanted.assignments) != added:
        raise Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {added} additional partition(s), but only {len(wanted.assignments)} assignment(s) were "
            "specified.",
        )
    for assignment in wanted.assignments:
        if problem := assignment_problem(list(assignment.broker_ids), broker.config.node_id):
            raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
        yield
