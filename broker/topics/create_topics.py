"""CreateTopics (19), v2-7.

v4 takes -1 for partitions and replication factor, meaning the broker's default (KIP-464); v5 is flexible and answers
with the topic's settings (KIP-525); v6 may be throttled (KIP-599); v7 answers with the topic id.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kohort.broker.topics.catalog import CONSUMER_OFFSETS, Catalog, Topic, new_topic_id
from kohort.broker.topics.config_entries import entries_of
from kohort.broker.topics.topic_config import InvalidConfig, check_together, check_topic_config
from kohort.broker.topics.topic_names import collision_key, name_problem
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kohort.protocol.wire import NO_UUID

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call

logger = logging.getLogger(__name__)

CLUSTER_METADATA = "__cluster_metadata"


class Refused(Exception):
    """Why a request, or one of the things that it asks for, is refused."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


@contextmanager
def saving() -> Iterator[None]:
    """Inside, a change is saved. If the disk refuses, nothing has changed, and the client may try again later."""
    try:
        yield
    except OSError as problem:
        logger.error("a change of topics or settings could not be saved: %s", problem)
        raise Refused(ErrorCode.KAFKA_STORAGE_ERROR, f"The change could not be saved: {problem.strerror}") from problem


def create_topics(broker: Broker, request: CreateTopicsRequest, call: Call) -> CreateTopicsResponse:  # noqa: ARG001
    named = Counter(topic.name for topic in request.topics)
    before = {collision_key(topic.name): topic.name for topic in broker.catalog}
    results = []
    for wanted in request.topics:
        if named[wanted.name] > 1:
            if named.pop(wanted.name):  # one answer for all of this name
                results.append(_refusal(wanted.name, ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
            continue
        if wanted.name not in named:
            continue
        try:
            results.append(_create(broker, wanted, before, request.validate_only))
        except Refused as refused:
            results.append(_refusal(wanted.name, refused.error, str(refused)))
    return CreateTopicsResponse(0, results)


def _create(
    broker: Broker, wanted: CreatableTopic, before: dict[str, str], validate_only: bool
) -> CreatableTopicResult:
    _check_name(broker.catalog, wanted.name, before)
    partition_count = _partition_count(broker, wanted)
    configs = _configs(wanted)
    with saving():
        topic_id = new_topic_id() if validate_only else broker.catalog.create(wanted.name, partition_count, configs).id
    if wanted.name == CONSUMER_OFFSETS and not validate_only:
        broker.coordinator.offsets_topic_created()
    shown = [
        CreatableTopicConfigs(each.name, each.value, False, each.source, False) for each in entries_of(broker, configs)
    ]
    return CreatableTopicResult(wanted.name, topic_id, 0, None, 0, partition_count, 1, shown)


def create_on_demand(broker: Broker, name: str) -> Topic:
    """A topic that somebody asked for in a Metadata request. Refused if it cannot be."""
    if name == CONSUMER_OFFSETS:
        return broker.catalog.ensure_consumer_offsets()
    _check_name(broker.catalog, name, {collision_key(topic.name): topic.name for topic in broker.catalog})
    if broker.config.default_replication_factor > 1:
        _warn_about_default_replication_factor(broker)
        # Kafka's controller refuses the topic, and the broker tells the client only that it is not there.
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{name}' cannot be created.")
    return broker.catalog.create(name, broker.config.num_partitions, {})


def _warn_about_default_replication_factor(broker: Broker) -> None:
    """Warn once, because clients ask for such a topic again and again."""
    if not broker.extra.setdefault("warned_about_default_replication_factor", False):
        broker.extra["warned_about_default_replication_factor"] = True
        logger.warning(
            "no topics are created on demand: default.replication.factor=%d cannot be reached with one broker",
            broker.config.default_replication_factor,
        )


def _check_name(catalog: Catalog, name: str, before: dict[str, str]) -> None:
    """Refused for an impossible name. `before` has the topics that existed when the request came, by collision key."""
    if name == CLUSTER_METADATA:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
    if problem := name_problem(name):
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    if catalog.get(name) is not None:
        raise Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    if other := before.get(collision_key(name)):
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")


def _partition_count(broker: Broker, wanted: CreatableTopic) -> int:
    if wanted.assignments:
        return _assigned_partition_count(broker, wanted)
    if wanted.replication_factor < -1 or wanted.replication_factor == 0:
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if wanted.num_partitions < -1 or wanted.num_partitions == 0:
        raise Refused(ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
    factor = wanted.replication_factor
    if factor == -1:
        factor = broker.config.default_replication_factor
    if factor > 1:
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {factor} time(s): The target replication factor of {factor} cannot be "
            "reached because only 1 broker(s) are registered or some brokers have all their log directories cordoned.",
        )
    return broker.config.num_partitions if wanted.num_partitions == -1 else wanted.num_partitions


def _assigned_partition_count(broker: Broker, wanted: CreatableTopic) -> int:
    """A manual assignment can only name this broker, once per partition."""
    if wanted.replication_factor != -1:
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        )
    if wanted.num_partitions != -1:
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        )
    for assignment in wanted.assignments:
        if problem := assignment_problem(list(assignment.broker_ids), broker.config.node_id):
            raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
    indexes = sorted(assignment.partition_index for assignment in wanted.assignments)
    if indexes != list(range(len(indexes))):
        raise Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
        )
    return len(indexes)


def assignment_problem(broker_ids: list[int], node_id: int) -> str | None:
    """Why a manual assignment is impossible, in Kafka's words; None if it is possible."""
    if not broker_ids:
        return "The manual partition assignment includes an empty replica list."
    for broker_id in sorted(broker_ids):
        if broker_id != node_id:
            return f"The manual partition assignment includes broker {broker_id}, but no such broker is registered."
    if len(broker_ids) > 1:
        return f"The manual partition assignment includes the broker {node_id} more than once."
    return None


def _configs(wanted: CreatableTopic) -> dict[str, str]:
    try:
        configs = {config.name: check_topic_config(config.name, config.value) for config in wanted.configs}
        check_together(configs)
        return configs
    except InvalidConfig as problem:
        raise Refused(ErrorCode.INVALID_CONFIG, str(problem)) from None


def _refusal(name: str, error: ErrorCode, message: str) -> CreatableTopicResult:
    return CreatableTopicResult(name, NO_UUID, error, message, 0, -1, -1, ())
