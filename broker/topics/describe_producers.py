"""DescribeProducers (61): who has written to a partition lately, and whose transactions are open there (KIP-664).

`kafka-transactions find-hanging` asks this, to find transactions that no coordinator will end. A partition that is
named several times is answered once: few bytes could ask for millions of producers otherwise.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kohort.broker.topics.producer_snapshots import recover_producers
from kohort.broker.topics.producer_state import PRODUCERS, Producers
from kohort.broker.topics.while_there import TopicDeleted, while_there
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from kohort.protocol.record_batch import NO_SEQUENCE
from kohort.storage.errors import StorageError

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call
    from kohort.broker.steps import Steps
    from kohort.broker.topics.catalog import Partition

logger = logging.getLogger(__name__)

PRODUCERS_PER_STEP = 500
NO_TRANSACTION = -1


def describe_producers(
    broker: Broker, request: DescribeProducersRequest, call: Call
) -> Steps[DescribeProducersResponse]:
    asked: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        yield
        indexes = asked.setdefault(topic.name, {})
        for index in topic.partition_indexes:
            yield
            indexes[index] = None
    topics = []
    for name, indexes in asked.items():
        yield
        answers = []
        for index in indexes:
            yield
            answers.append((yield from _describe(broker, name, index, call.now)))
        topics.append(TopicResponse(name, answers))
    return DescribeProducersResponse(0, topics)


def _describe(broker: Broker, topic: str, index: int, now: int) -> Steps[PartitionResponse]:
    partition = broker.catalog.partition(topic, index)
    if partition is None:
        return _unknown(broker, topic, index)
    try:
        yield from while_there(broker, partition, recover_producers(broker, partition, now))
        return PartitionResponse(index, 0, None, (yield from _active(partition)))
    except TopicDeleted:
        return _unknown(broker, topic, index)
    except (StorageError, OSError, MalformedMessage) as problem:
        logger.error("DescribeProducers could not read %s: %s", partition, problem)
        return PartitionResponse(index, ErrorCode.KAFKA_STORAGE_ERROR, None, [])


def _unknown(broker: Broker, topic: str, index: int) -> PartitionResponse:
    """As in Kafka, without a text if the topic is there."""
    text = None if broker.catalog.get(topic) is not None else "This server does not host this topic-partition."
    return PartitionResponse(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text, [])


def _active(partition: Partition) -> Steps[list[ProducerState]]:
    producers: Producers = partition.extra[PRODUCERS]
    states = []
    for number, (producer_id, each) in enumerate(list(producers.by_id.items()), 1):
        last_sequence = each.batches[-1].last_sequence if each.batches else NO_SEQUENCE
        begun = producers.open.get(producer_id, NO_TRANSACTION)
        states.append(
            ProducerState(producer_id, each.epoch, last_sequence, each.timestamp, each.coordinator_epoch, begun)
        )
        if number % PRODUCERS_PER_STEP == 0:
            yield
    return states
