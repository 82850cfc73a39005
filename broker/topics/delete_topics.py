"""DeleteTopics (20), v1-6.

v4 is flexible; v5 adds error messages; v6 takes topics by name or by id. Up to v5 they are named in a plain list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from kohort.broker.topics.catalog import Topic
from kohort.broker.topics.create_topics import Refused, saving
from kohort.broker.topics.delayed_fetch import changed
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kohort.protocol.wire import NO_UUID

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call
    from kohort.broker.share.share_partitions import SharePartitions
    from kohort.broker.steps import Steps, WaitingSteps

FIRST_VERSION_BY_ID = 6
TOPICS_PER_STEP = 20  # folders are renamed
PARTITIONS_PER_STEP = 2_000


def delete_topics(broker: Broker, request: DeleteTopicsRequest, call: Call) -> WaitingSteps[DeleteTopicsResponse]:
    if not broker.config.delete_topic_enable:
        return (yield from _disabled(request, call))
    named: Counter[object] = Counter()
    for state in _states(request, call):
        if state.name or state.topic_id != NO_UUID:
            named[state.name or state.topic_id] += 1
        yield None
    results: dict[str | bytes | int, DeletableTopicResult] = {}
    doomed: dict[bytes, Topic] = {}  # by id
    for place, state in enumerate(_states(request, call)):
        yield None
        key = state.name or state.topic_id
        if named[key] > 1:  # one answer for all of them
            what = "name" if state.name else "id"
            results.setdefault(key, _refusal(state, ErrorCode.INVALID_REQUEST, f"Duplicate topic {what}."))
            continue
        topic, refusal = _find(broker, state)
        if topic is None:
            assert refusal is not None
            results[place] = refusal
        elif topic.id in doomed:
            del doomed[topic.id], results[topic.id]
            message = "The provided topic name maps to an ID that was already supplied."
            results[place] = DeletableTopicResult(topic.name, topic.id, ErrorCode.INVALID_REQUEST, message)
        else:
            doomed[topic.id] = topic
            results[topic.id] = DeletableTopicResult(topic.name, topic.id, 0, None)
    results |= yield from _delete(broker, list(doomed.values()))
    return DeleteTopicsResponse(0, list(results.values()))


def _states(request: DeleteTopicsRequest, call: Call) -> Iterable[DeleteTopicState]:
    if call.version < FIRST_VERSION_BY_ID:
        return (DeleteTopicState(name, NO_UUID) for name in request.topic_names)
    return request.topics


def _disabled(request: DeleteTopicsRequest, call: Call) -> Steps[DeleteTopicsResponse]:
    error = ErrorCode.TOPIC_DELETION_DISABLED if call.version >= 3 else ErrorCode.INVALID_REQUEST
    results = []
    for state in _states(request, call):
        results.append(_refusal(state, error, "Topic deletion is disabled."))
        yield
    return DeleteTopicsResponse(0, results)


def _delete(broker: Broker, doomed: list[Topic]) -> WaitingSteps[dict[str | bytes | int, DeletableTopicResult]]:
    """Delete the topics, some at a time. Returns the errors of those that could not be deleted, by id."""
    failed: dict[str | bytes | int, DeletableTopicResult] = {}
    while doomed:
        yield from broker.catalog.unchanging()
        # Another request may have deleted some of them meanwhile: for this request they are deleted, too.
        some = [topic for topic in _take_some(doomed) if broker.catalog.by_id(topic.id) is topic]
        try:
            with saving():
                deletion = broker.catalog.deletion_of(some)
                deletion.then(partial(_deleted, broker, some))  # even if the client hangs up before the disk is done
                yield from broker.catalog.making(deletion)
        except Refused as refused:
            for topic in some:
                failed[topic.id] = DeletableTopicResult(topic.name, topic.id, refused.error, str(refused))
        yield None
    return failed


def _deleted(broker: Broker, topics: list[Topic]) -> None:
    gone = [topic for topic in topics if broker.catalog.by_id(topic.id) is None]
    if gone:
        for coordinator in broker.coordinators():
            coordinator.topics_deleted(gone)
    led: SharePartitions | None = broker.extra.get("share_partitions")
    for topic in gone:
        if led is not None:
            led.forget(topic)
        for partition in topic.partitions:
            if partition.extra:
                changed(broker, partition)  # fetches that wait for its records


def _take_some(topics: list[Topic]) -> list[Topic]:
    """As many as can be deleted in one step, at least one."""
    some = [topics.pop()]
    partition_count = len(some[0].partitions)
    while topics and len(some) < TOPICS_PER_STEP and partition_count < PARTITIONS_PER_STEP:
        some.append(topics.pop())
        partition_count += len(some[-1].partitions)
    return some


def _find(broker: Broker, state: DeleteTopicState) -> tuple[Topic | None, DeletableTopicResult | None]:
    by_name, by_id = state.name is not None, state.topic_id != NO_UUID
    if not by_name and not by_id:
        return None, _refusal(state, ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if by_name and by_id:
        return None, _refusal(state, ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if state.name is not None:
        topic = broker.catalog.get(state.name)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
    else:
        topic = broker.catalog.by_id(state.topic_id)
        unknown = ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID."
    return topic, None if topic is not None else _refusal(state, *unknown)


def _refusal(state: DeleteTopicState, error: ErrorCode, message: str) -> DeletableTopicResult:
    return DeletableTopicResult(state.name, state.topic_id, error, message)
