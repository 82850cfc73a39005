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
from kohort.broker.topics.catalog import INTERNAL_TOPICS, LEADER_EPOCH, Topic
from kohort.broker.topics.create_topics import Refused, create_on_demand
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


def metadata(broker: Broker, request: MetadataRequest, call: Call) -> MetadataResponse:
    asked = request.topics
    if asked is None or (call.version == 0 and not len(asked)):
        topics = [_described(broker, topic) for topic in broker.catalog]
    elif problem := _bad_request(asked, call.version):
        # Kafka answers such a request without brokers, and with the error for every topic.
        topics = [MetadataResponseTopic(problem, topic.name or "", topic.topic_id) for topic in asked]
        top_error = problem if problem is ErrorCode.UNKNOWN_SERVER_ERROR else 0
        return MetadataResponse(0, (), None, -1, topics, NOT_ASKED, top_error)
    else:
        create = call.version < 4 or request.allow_auto_topic_creation
        topics = [_find(broker, topic, create) for topic in _chosen(asked)]
    if request.include_topic_authorized_operations:
        for topic in topics:
            topic.topic_authorized_operations = TOPIC_OPERATIONS
    cluster_operations = CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
    return MetadataResponse(0, [_self(broker, call)], broker.cluster_id, _node(broker), topics, cluster_operations, 0)


def _bad_request(asked: Iterable[MetadataRequestTopic], version: int) -> ErrorCode | None:
    for topic in asked:
        if version < FIRST_VERSION_BY_ID and (topic.name is None or topic.topic_id != NO_UUID):
            return ErrorCode.INVALID_REQUEST
        if topic.name is None and topic.topic_id == NO_UUID:
            return ErrorCode.UNKNOWN_SERVER_ERROR
    return None


def _chosen(asked: Iterable[MetadataRequestTopic]) -> list[MetadataRequestTopic]:
    """Each topic once. If some topics are named by id, the others are left out, as in Kafka."""
    unique = {(topic.name, topic.topic_id): topic for topic in asked}
    by_id = [topic for topic in unique.values() if topic.topic_id != NO_UUID]
    return by_id or list(unique.values())


def _find(broker: Broker, asked: MetadataRequestTopic, create: bool) -> MetadataResponseTopic:
    if asked.topic_id != NO_UUID:
        topic = broker.catalog.by_id(asked.topic_id)
        if topic is None:
            return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, asked.topic_id)
        return _described(broker, topic)
    assert asked.name is not None
    topic = broker.catalog.get(asked.name)
    if topic is None and create and broker.config.auto_create_topics_enable:
        try:
            topic = create_on_demand(broker, asked.name)
        except Refused as refused:
            return MetadataResponseTopic(refused.error, asked.name, NO_UUID)
        except OSError as problem:  # the disk refuses: the client asks again
            logger.error("topic %s could not be saved: %s", asked.name, problem)
            return MetadataResponseTopic(ErrorCode.LEADER_NOT_AVAILABLE, asked.name, NO_UUID)
    if topic is not None:
        return _described(broker, topic)
    legal = name_problem(asked.name) is None
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if legal else ErrorCode.INVALID_TOPIC_EXCEPTION
    return MetadataResponseTopic(error, asked.name, NO_UUID, asked.name in INTERNAL_TOPICS)


def _described(broker: Broker, topic: Topic) -> MetadataResponseTopic:
    node = [_node(broker)]
    partitions = [
        MetadataResponsePartition(0, index, node[0], LEADER_EPOCH, node, node, ())
        for index in range(len(topic.partitions))
    ]
    return MetadataResponseTopic(0, topic.name, topic.id, topic.is_internal, partitions)


def _self(broker: Broker, call: Call) -> MetadataResponseBroker:
    listener = broker.advertised[call.listener_index]
    return MetadataResponseBroker(_node(broker), listener.host, listener.port, broker.config.broker_rack or None)


def _node(broker: Broker) -> int:
    return broker.config.node_id
