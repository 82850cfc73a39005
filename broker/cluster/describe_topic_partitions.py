"""DescribeTopicPartitions (75), v0: topics in the order of their names, a page of partitions at a time (KIP-966)."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kohort.broker.cluster.operations import NOT_ASKED, TOPIC_OPERATIONS
from kohort.broker.topics.catalog import LEADER_EPOCH
from kohort.broker.topics.topic_names import name_problem
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from kohort.protocol.wire import NO_UUID

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call
    from kohort.broker.steps import Steps

NAMES_AT_ONCE = 1_000
MAX_PARTITIONS = 2000  # max.request.partition.size.limit


def describe_topic_partitions(
    broker: Broker, request: DescribeTopicPartitionsRequest, call: Call  # noqa: ARG001
) -> Steps[DescribeTopicPartitionsResponse]:  # fmt: skip
    asked: set[str] = set()
    for wanted in request.topics:
        asked.add(wanted.name)
        yield
    start_name, start_index = "", 0
    if request.cursor is not None:
        start_name, start_index = request.cursor.topic_name, request.cursor.partition_index
        if start_index < 0 or (asked and start_name not in asked):  # the cursor belongs to another request
            return (yield from _refuse_all(request))
    left = max(1, min(request.response_partition_limit, MAX_PARTITIONS))
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    names = yield from _in_order(list(asked or broker.catalog.names()), start_name)
    for name in names:
        yield
        if left == 0:
            return DescribeTopicPartitionsResponse(0, topics, Cursor(name, 0))
        first = start_index if name == start_name else 0
        described = _describe(broker, name, first, left)
        topics.append(described)
        left -= len(described.partitions)
        topic = broker.catalog.get(name)
        if topic is not None and first + len(described.partitions) < len(topic.partitions):
            return DescribeTopicPartitionsResponse(0, topics, Cursor(name, first + len(described.partitions)))
    return DescribeTopicPartitionsResponse(0, topics, None)


def _in_order(names: list[str], start: str) -> Steps[Iterable[str]]:
    """The names from `start` on. Parts of the list are sorted one by one, and merged when they are read."""
    parts = []
    for at in range(0, len(names), NAMES_AT_ONCE):
        parts.append(sorted(name for name in names[at : at + NAMES_AT_ONCE] if name >= start))
        yield
    return heapq.merge(*parts)


def _refuse_all(request: DescribeTopicPartitionsRequest) -> Steps[DescribeTopicPartitionsResponse]:
    error = ErrorCode.INVALID_REQUEST
    topics = []
    for wanted in request.topics:
        topics.append(DescribeTopicPartitionsResponseTopic(error, wanted.name, NO_UUID, False, (), NOT_ASKED))
        yield
    return DescribeTopicPartitionsResponse(0, topics, None)


def _describe(broker: Broker, name: str, first: int, limit: int) -> DescribeTopicPartitionsResponseTopic:
    topic = broker.catalog.get(name)
    if topic is None:
        legal = name_problem(name) is None
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if legal else ErrorCode.INVALID_TOPIC_EXCEPTION
        return DescribeTopicPartitionsResponseTopic(error, name, NO_UUID, False, (), TOPIC_OPERATIONS)
    node = broker.config.node_id
    partitions = [
        DescribeTopicPartitionsResponsePartition(0, index, node, LEADER_EPOCH, [node], [node], (), (), ())
        for index in range(first, min(first + limit, len(topic.partitions)))
    ]
    return DescribeTopicPartitionsResponseTopic(0, name, topic.id, topic.is_internal, partitions, TOPIC_OPERATIONS)
