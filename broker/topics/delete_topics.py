"""DeleteTopics (20), v1-6.

v4 is flexible; v5 adds error messages; v6 takes topics by name or by id. Up to v5 they are named in a plain list.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING

from kohort.broker.topics.catalog import Topic
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


logger = logging.getLogger(__name__)


def delete_topics(broker: Broker, request: DeleteTopicsRequest, call: Call) -> DeleteTopicsResponse:
    if call.version < 6:
        states = [DeleteTopicState(name, NO_UUID) for name in request.topic_names]
    else:
        states = list(request.topics)
    if not broker.config.delete_topic_enable:
        error = ErrorCode.TOPIC_DELETION_DISABLED if call.version >= 3 else ErrorCode.INVALID_REQUEST
        message = "Topic deletion is disabled."
        return DeleteTopicsResponse(0, [DeletableTopicResult(s.name, s.topic_id, error, message) for s in states])
    repeated = _repeated(states)
    results: list[DeletableTopicResult] = []
    doomed: list[Topic] = []
    for state in states:
        key = state.name or state.topic_id
        if key in repeated:
            if not repeated[key]:
                repeated[key] = True  # one answer for all of them
                what = "name" if state.name else "id"
                results.append(_refusal(state, ErrorCode.INVALID_REQUEST, f"Duplicate topic {what}."))
            continue
        topic, refusal = _find(broker, state)
        if topic is not None and topic in doomed:
            doomed.remove(topic)
            results = [result for result in results if result.name != topic.name]
            message = "The provided topic name maps to an ID that was already supplied."
            results.append(DeletableTopicResult(topic.name, topic.id, ErrorCode.INVALID_REQUEST, message))
            continue
        if topic is None:
            assert refusal is not None
            results.append(refusal)
        else:
            doomed.append(topic)
            results.append(DeletableTopicResult(topic.name, topic.id, 0, None))
    if doomed and (problem := _delete(broker, doomed)):
        names = {topic.name for topic in doomed}
        results = [_not_saved(result, problem) if result.name in names else result for result in results]
    return DeleteTopicsResponse(0, results)


def _delete(broker: Broker, doomed: list[Topic]) -> str | None:
    """Delete the topics. The answer is why that could not be saved; then nothing has changed."""
    try:
        broker.catalog.delete(doomed)
    except OSError as problem:
        logger.error("deleting topics: %s", problem)
        if broker.catalog.by_id(doomed[0].id) is not None:
            return f"The change could not be saved: {problem.strerror}"
    broker.coordinator.topics_deleted(doomed)
    for topic in doomed:
        for partition in topic.partitions:
            changed(broker, partition)  # fetches that wait for its records
    return None


def _not_saved(result: DeletableTopicResult, problem: str) -> DeletableTopicResult:
    return DeletableTopicResult(result.name, result.topic_id, ErrorCode.KAFKA_STORAGE_ERROR, problem)


def _repeated(states: list[DeleteTopicState]) -> dict[object, bool]:
    counted = Counter(state.name or state.topic_id for state in states if state.name or state.topic_id != NO_UUID)
    return {key: False for key, count in counted.items() if count > 1}


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
