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

from kohort.broker.steps import ELEMENTS_AT_ONCE, Steps, WaitingSteps
from kohort.broker.topics.catalog import MAX_PARTITIONS, Catalog, Change, Topic
from kohort.broker.topics.config_entries import ConfigEntry, TopicEntries
from kohort.broker.topics.topic_config import InvalidConfig, check_together, check_topic_config
from kohort.broker.topics.topic_names import name_problem
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
MAX_PARTITIONS_PER_REQUEST = 10_000  # Kafka's limit; the next one is that of its controller's log,
MAX_RECORDS_PER_REQUEST = 10_000  # which has a record for each topic, setting and partition
TOPICS_PER_SAVE = 200  # saving them is one step
FIRST_VERSION_WITH_CONFIGS = 5


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


def create_topics(broker: Broker, request: CreateTopicsRequest, call: Call) -> WaitingSteps[CreateTopicsResponse]:
    named: Counter[str] = Counter()
    for wanted in request.topics:
        named[wanted.name] += 1
        yield None
    if (yield from _partitions_in(broker, request, named)) > MAX_PARTITIONS_PER_REQUEST:
        return (yield from _refuse_all(request, "Excessively large number of partitions per request."))
    results: dict[str, CreatableTopicResult] = {}  # one answer for all topics of a name
    planned: list[Topic] = []
    record_count = 0
    plan = Plan(broker)
    shown = ShownConfigs(broker, call)
    for wanted in request.topics:
        yield None
        if wanted.name in results:
            continue
        try:
            if named[wanted.name] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            topic = yield from _planned(plan, wanted)
            planned.append(topic)
            results[topic.name] = CreatableTopicResult(
                topic.name, topic.id, 0, None, 0, len(topic.partitions), 1, shown.of(topic)
            )
            record_count += 1 + len(topic.configs) + len(topic.partitions)
        except Refused as refused:
            results[wanted.name] = _refusal(wanted.name, refused)
    if record_count > MAX_RECORDS_PER_REQUEST:
        return (yield from _refuse_all(request, "Unable to perform excessively large batch operation."))
    if not request.validate_only:
        failed = yield from create_all(broker, planned)
        results.update({name: _refusal(name, refused) for name, refused in failed.items()})
    return CreateTopicsResponse(0, list(results.values()))


def _partitions_in(broker: Broker, request: CreateTopicsRequest, named: Counter[str]) -> Steps[int]:
    """How many partitions the request asks for, as Kafka counts them: without topics that are named twice."""
    total = 0
    for topic in request.topics:
        yield
        if named[topic.name] > 1 or topic.name == CLUSTER_METADATA:
            continue
        if topic.assignments:
            total += len(topic.assignments)
        elif topic.num_partitions == -1:
            total += broker.config.num_partitions
        elif topic.num_partitions > 0:
            total += topic.num_partitions
    return total


def _refuse_all(request: CreateTopicsRequest, why: str) -> Steps[CreateTopicsResponse]:
    refused = Refused(ErrorCode.POLICY_VIOLATION, why)
    results = []
    for wanted in request.topics:
        results.append(_refusal(wanted.name, refused))
        yield
    return CreateTopicsResponse(0, results)


class Plan:
    """Topics that one request is going to create. They count as partitions of the broker already."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.is_full = False
        self._partition_count = 0

    def add(self, name: str, partition_count: int, configs: dict[str, str]) -> Topic:
        """Refused if there would be too many partitions."""
        catalog = self.broker.catalog
        count = self._partition_count + partition_count
        if count > MAX_PARTITIONS_PER_REQUEST or catalog.all_partitions + count > MAX_PARTITIONS:
            self.is_full = True
            raise too_many_partitions()
        self._partition_count = count
        return catalog.plan(name, partition_count, configs)


def too_many_partitions() -> Refused:
    text = f"All topics together can have {MAX_PARTITIONS} partitions, and would have more."
    return Refused(ErrorCode.POLICY_VIOLATION, text)


def _planned(plan: Plan, wanted: CreatableTopic) -> Steps[Topic]:
    _check_name(plan.broker.catalog, wanted.name)
    if wanted.assignments:
        partition_count = yield from _assigned_partition_count(plan.broker, wanted)
    else:
        partition_count = _partition_count(plan.broker, wanted)
    configs = yield from _configs(wanted)
    return plan.add(wanted.name, partition_count, configs)


class ShownConfigs:
    """The settings of new topics as they are answered."""

    def __init__(self, broker: Broker, call: Call) -> None:
        self._call = call
        self._entries = TopicEntries(broker, _shown)
        self._count = 0

    def of(self, topic: Topic) -> list[CreatableTopicConfigs]:
        if self._call.version < FIRST_VERSION_WITH_CONFIGS:
            return []
        shown = self._entries.of(topic.configs)
        self._count += len(shown)
        if self._count > ELEMENTS_AT_ONCE:
            self._call.is_long = True
        return shown


def _shown(entry: ConfigEntry) -> CreatableTopicConfigs:
    return CreatableTopicConfigs(entry.name, entry.value, False, entry.source, False)


def create_all(broker: Broker, topics: list[Topic]) -> WaitingSteps[dict[str, Refused]]:
    """Create the planned topics, some at a time. Returns the errors of those that could not be created, by name."""
    failed: dict[str, Refused] = {}
    for start in range(0, len(topics), TOPICS_PER_SAVE):
        yield from broker.catalog.unchanging()
        some = []
        # Other requests may have taken names, or the room, since these topics were planned.
        room = MAX_PARTITIONS - broker.catalog.all_partitions
        for topic in topics[start : start + TOPICS_PER_SAVE]:
            if broker.catalog.get(topic.name) is not None:
                failed[topic.name] = _already_exists(topic.name)
            elif len(topic.partitions) > room:
                failed[topic.name] = too_many_partitions()
            else:
                room -= len(topic.partitions)
                some.append(topic)
        try:
            with saving():
                yield from broker.catalog.making(_creation(broker, some))
        except Refused as refused:
            failed.update({topic.name: refused for topic in some})
        yield None
    return failed


def _creation(broker: Broker, topics: list[Topic]) -> Change:
    creation = broker.catalog.creation_of(topics)
    if any(topic.is_internal for topic in topics):
        creation.then(lambda: _internal_topic_created(broker))
    return creation


def _internal_topic_created(broker: Broker) -> None:
    for coordinator in broker.coordinators():
        if broker.catalog.get(coordinator.log.topic) is not None:
            coordinator.topic_created()


def plan_on_demand(plan: Plan, name: str) -> Topic:
    """A topic that a Metadata request asked for. Raises Refused if it cannot be created."""
    broker = plan.broker
    _check_name(broker.catalog, name)
    # If Kafka's controller refuses the topic, the broker tells the client only that it is not there.
    not_there = Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{name}' cannot be created.")
    if broker.config.default_replication_factor > 1:
        _warn_about_default_replication_factor(broker)
        raise not_there
    try:
        return plan.add(name, broker.config.num_partitions, {})
    except Refused:
        raise not_there from None


def _warn_about_default_replication_factor(broker: Broker) -> None:
    """Warn once, because clients ask for such a topic again and again."""
    if not broker.extra.setdefault("warned_about_default_replication_factor", False):
        broker.extra["warned_about_default_replication_factor"] = True
        logger.warning(
            "no topics are created on demand: default.replication.factor=%d cannot be reached with one broker",
            broker.config.default_replication_factor,
        )


def _check_name(catalog: Catalog, name: str) -> None:
    """Refused for an impossible name. Topics of the same request do not collide with each other, as in Kafka."""
    if name == CLUSTER_METADATA:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
    if problem := name_problem(name):
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    if catalog.get(name) is not None:
        raise _already_exists(name)
    if other := catalog.colliding(name):
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")


def _already_exists(name: str) -> Refused:
    return Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")


def _partition_count(broker: Broker, wanted: CreatableTopic) -> int:
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


def _assigned_partition_count(broker: Broker, wanted: CreatableTopic) -> Steps[int]:
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
    indexes = []
    for assignment in wanted.assignments:
        if problem := assignment_problem(list(assignment.broker_ids), broker.config.node_id):
            raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
        indexes.append(assignment.partition_index)
        yield
    if sorted(indexes) != list(range(len(indexes))):
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


def _configs(wanted: CreatableTopic) -> Steps[dict[str, str]]:
    configs: dict[str, str] = {}
    try:
        for config in wanted.configs:
            configs[config.name] = check_topic_config(config.name, config.value)
            yield
        check_together(configs)
        return configs
    except InvalidConfig as problem:
        raise Refused(ErrorCode.INVALID_CONFIG, str(problem)) from None


def _refusal(name: str, refused: Refused) -> CreatableTopicResult:
    return CreatableTopicResult(name, NO_UUID, refused.error, str(refused), 0, -1, -1, ())
