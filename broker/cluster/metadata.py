"""Metadata (3), v0-13: brokers, and topics with their partitions and leaders.

v1 tells all topics (null) from none (empty), adds rack, controller and internal topics; v2 the cluster id; v4 lets the
client refuse auto-creation; v7 leader epochs (KIP-320); v8 authorized operations (KIP-430); v9 is flexible; v10 topic
ids (KIP-516), v12 asks by them; v11 drops the cluster's authorized operations; v13 adds a top-level error (KIP-1102).

A topic that is created on demand is in the same answer, with its leader. Kafka answers UNKNOWN_TOPIC_OR_PARTITION at
first, and clients ask again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kohort.broker.cluster.operations import CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS
from kohort.broker.steps import ELEMENTS_AT_ONCE, Steps, WaitingSteps
from kohort.broker.topics.catalog import INTERNAL_TOPICS, LEADER_EPOCH, Topic
from kohort.broker.topics.create_topics import Plan, Refused, create_all, plan_on_demand
from kohort.broker.topics.topic_names import name_problem
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kohort.protocol.wire import NO_UUID

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call

logger = logging.getLogger(__name__)

FIRST_VERSION_BY_ID = 12


def metadata(broker: Broker, request: MetadataRequest, call: Call) -> WaitingSteps[MetadataResponse]:
    asked = request.topics
    topics: list[MetadataResponseTopic] = []
    if asked is None or (call.version == 0 and not len(asked)):
        for topic in list(broker.catalog):
            topics.append(_described(broker, topic))
            yield None
    elif problem := (yield from _bad_request(asked, call.version)):
        return (yield from _refuse_all(asked, problem))
    else:
        chosen = yield from _chosen(asked)
        errors: dict[str, ErrorCode] = {}
        if broker.config.auto_create_topics_enable and (call.version < 4 or request.allow_auto_topic_creation):
            errors = yield from _create_missing(broker, chosen)
        for each in chosen:
            topics.append(_find(broker, each, errors))
            yield None
    if request.include_topic_authorized_operations:
        for row in topics:
            row.topic_authorized_operations = TOPIC_OPERATIONS
    if sum(len(row.partitions) for row in topics) > ELEMENTS_AT_ONCE:
        call.is_long = True
    cluster_operations = CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
    return MetadataResponse(0, [_self(broker, call)], broker.cluster_id, _node(broker), topics, cluster_operations, 0)


def _refuse_all(asked: Iterable[MetadataRequestTopic], problem: ErrorCode) -> Steps[MetadataResponse]:
    """Kafka answers such a request without brokers, and with the error for every topic."""
    topics = []
    for topic in asked:
        topics.append(MetadataResponseTopic(problem, topic.name or "", topic.topic_id))
        yield
    top_error = problem if problem is ErrorCode.UNKNOWN_SERVER_ERROR else 0
    return MetadataResponse(0, (), None, -1, topics, NOT_ASKED, top_error)


def _bad_request(asked: Iterable[MetadataRequestTopic], version: int) -> Steps[ErrorCode | None]:
    for topic in asked:
        if version < FIRST_VERSION_BY_ID and (topic.name is None or topic.topic_id != NO_UUID):
            return ErrorCode.INVALID_REQUEST
        if topic.name is None and topic.topic_id == NO_UUID:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        yield
    return None


def _chosen(asked: Iterable[MetadataRequestTopic]) -> Steps[list[MetadataRequestTopic]]:
    """Each topic once. If some topics are named by id, the others are left out, as in Kafka."""
    unique: dict[tuple[str | None, bytes], MetadataRequestTopic] = {}
    by_id: dict[tuple[str | None, bytes], MetadataRequestTopic] = {}
    for topic in asked:
        chosen = unique if topic.topic_id == NO_UUID else by_id
        chosen[topic.name, topic.topic_id] = topic
        yield
    return list((by_id or unique).values())


def _create_missing(broker: Broker, chosen: list[MetadataRequestTopic]) -> WaitingSteps[dict[str, ErrorCode]]:
    """Create the topics that are asked for by name and do not exist. Returns the errors, by name."""
    errors: dict[str, ErrorCode] = {}
    planned: list[Topic] = []
    plan = Plan(broker)
    for asked in chosen:
        yield None
        if asked.name is None or asked.topic_id != NO_UUID or broker.catalog.get(asked.name) is not None:
            continue
        try:
            if asked.name in INTERNAL_TOPICS:
                broker.ensure_internal(asked.name)
            else:
                planned.append(plan_on_demand(plan, asked.name))
        except Refused as refused:
            errors[asked.name] = refused.error
        except OSError as problem:  # the disk refuses: the client asks again
            logger.error("topic %s could not be saved: %s", asked.name, problem)
            errors[asked.name] = ErrorCode.LEADER_NOT_AVAILABLE
    if plan.is_full:
        logger.warning("not all topics that one request named are created: there would be too many partitions")
    for name in (yield from create_all(broker, planned)):
        errors[name] = ErrorCode.LEADER_NOT_AVAILABLE
    return errors


def _find(broker: Broker, asked: MetadataRequestTopic, errors: dict[str, ErrorCode]) -> MetadataResponseTopic:
    """`errors`: why topics could not be created, by name."""
    if asked.topic_id != NO_UUID:
        topic = broker.catalog.by_id(asked.topic_id)
        if topic is None:
            return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, asked.topic_id)
        return _described(broker, topic)
    assert asked.name is not None
    topic = broker.catalog.get(asked.name)
    if topic is not None:
        return _described(broker, topic)
    if asked.name in errors:
        return MetadataResponseTopic(errors[asked.name], asked.name, NO_UUID)
    legal = name_problem(asked.name) is None
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if legal else ErrorCode.INVALID_TOPIC_EXCEPTION
    return MetadataResponseTopic(error, asked.name, NO_UUID, asked.name in INTERNAL_TOPICS)


def _described(broker: Broker, topic: Topic) -> MetadataResponseTopic:
    partitions = _partitions(broker, len(topic.partitions))
    return MetadataResponseTopic(0, topic.name, topic.id, topic.is_internal, partitions)


def _partitions(broker: Broker, count: int) -> list[MetadataResponsePartition]:
    """Partitions of the same number look alike in all topics, so they are made once."""
    known: list[MetadataResponsePartition] = broker.extra.setdefault("metadata_partitions", [])
    if len(known) < count:
        node = [_node(broker)]
        known += [
            MetadataResponsePartition(0, index, node[0], LEADER_EPOCH, node, node, ())
            for index in range(len(known), count)
        ]
    return known[:count]


def _self(broker: Broker, call: Call) -> MetadataResponseBroker:
    listener = broker.advertised[call.listener_index]
    return MetadataResponseBroker(_node(broker), listener.host, listener.port, broker.config.broker_rack or None)


def _node(broker: Broker) -> int:
    return broker.config.node_id
