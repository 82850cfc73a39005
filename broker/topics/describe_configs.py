"""DescribeConfigs (32), v1-4: the settings of topics, of groups and of this broker.

v1 adds where a value comes from and its synonyms (KIP-226); v3 types and documentation (KIP-569); v4 is flexible.
Settings of loggers and client metrics are gaps, see docs/protocol-support.md.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kohort.broker.cluster.find_coordinator import INVALID_REQUEST_TEXT
from kohort.broker.steps import ELEMENTS_AT_ONCE, Steps
from kohort.broker.topics.config_entries import (
    ConfigEntry,
    TopicEntries,
    broker_entries,
    cluster_entries,
    group_entries,
)
from kohort.broker.topics.topic_names import name_problem
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call

# As in Kafka, a resource that is named twice is answered twice, unless the answer is long already.
MAX_REPEATED_CONFIGS = 20_000
_INTEGER = re.compile("-?[0-9]{1,100}")
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
NOT_HERE = {
    CLIENT_METRICS: "Kohort has no client metrics, and no settings of them.",
}


def describe_configs(broker: Broker, request: DescribeConfigsRequest, call: Call) -> Steps[DescribeConfigsResponse]:
    results = []
    asked_before: set[int] = set()  # hashes, because there may be many
    shown = Shown(broker, request.include_synonyms)
    for resource in request.resources:
        yield
        names = set()
        for name in resource.configuration_keys or ():  # null asks for all
            names.add(name)
            yield
        keys = frozenset(names)
        asked = hash((resource.resource_type, resource.resource_name, keys))
        if asked in asked_before and shown.count > MAX_REPEATED_CONFIGS:
            continue
        asked_before.add(asked)
        results.append(_describe(broker, resource, shown, keys))
    if shown.count > ELEMENTS_AT_ONCE:
        call.is_long = True
    return DescribeConfigsResponse(0, results)


class Shown:
    """Settings as they are answered."""

    def __init__(self, broker: Broker, synonyms: bool) -> None:
        self._broker = broker
        self._synonyms = synonyms
        self._topics = TopicEntries(broker, self._entry)
        self._known: dict[str, list[DescribeConfigsResourceResult]] = {}
        self.count = 0  # of settings in the answer

    def of_topic(self, configs: dict[str, str], wanted: frozenset[str]) -> list[DescribeConfigsResourceResult]:
        return self._chosen(self._topics.of(configs), wanted)

    def of_broker(self, wanted: frozenset[str]) -> list[DescribeConfigsResourceResult]:
        if "broker" not in self._known:
            self._known["broker"] = [self._entry(entry) for entry in broker_entries(self._broker)]
        return self._chosen(self._known["broker"], wanted)

    def of_cluster(self, wanted: frozenset[str]) -> list[DescribeConfigsResourceResult]:
        if "cluster" not in self._known:
            self._known["cluster"] = [self._entry(entry) for entry in cluster_entries(self._broker)]
        return self._chosen(self._known["cluster"], wanted)

    def of_group(self, configs: dict[str, str], wanted: frozenset[str]) -> list[DescribeConfigsResourceResult]:
        if configs:
            return self._chosen([self._entry(entry) for entry in group_entries(self._broker, configs)], wanted)
        if "group" not in self._known:  # most groups have no settings of their own
            self._known["group"] = [self._entry(entry) for entry in group_entries(self._broker, {})]
        return self._chosen(self._known["group"], wanted)

    def _chosen(
        self, known: list[DescribeConfigsResourceResult], wanted: frozenset[str]
    ) -> list[DescribeConfigsResourceResult]:
        chosen = [entry for entry in known if entry.name in wanted] if wanted else known
        self.count += len(chosen)
        return chosen

    def _entry(self, entry: ConfigEntry) -> DescribeConfigsResourceResult:
        synonyms = [DescribeConfigsSynonym(*synonym) for synonym in entry.synonyms] if self._synonyms else ()
        return DescribeConfigsResourceResult(
            entry.name, entry.value, entry.read_only, entry.source, entry.sensitive, synonyms, entry.type, None
        )


def _describe(
    broker: Broker, resource: DescribeConfigsResource, shown: Shown, wanted: frozenset[str]
) -> DescribeConfigsResult:
    name = resource.resource_name
    if resource.resource_type == TOPIC:
        topic = broker.catalog.get(name)
        if topic is not None:
            return _result(resource, shown.of_topic(topic.configs, wanted))
        if problem := name_problem(name):
            return _refusal(resource, ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
        return _refusal(resource, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    if resource.resource_type == GROUP:
        if not name:
            return _refusal(resource, ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        return _result(resource, shown.of_group(broker.catalog.group_configs.get(name, {}), wanted))
    if resource.resource_type == BROKER_LOGGER and name == str(broker.config.node_id):
        return _result(resource, [])  # Kohort has no loggers that can be set
    if resource.resource_type == BROKER:
        if not name:
            return _result(resource, shown.of_cluster(wanted))
        if problem := broker_name_problem(name, broker.config.node_id, "{} or empty string"):
            return _refusal(resource, ErrorCode.INVALID_REQUEST, problem)
        return _result(resource, shown.of_broker(wanted))
    return _refusal(resource, ErrorCode.INVALID_REQUEST, NOT_HERE.get(resource.resource_type, INVALID_REQUEST_TEXT))


def broker_name_problem(name: str, node_id: int, expected: str) -> str | None:
    """Why `name` is not the id of this broker, in Kafka's words; None if it is."""
    if not _INTEGER.fullmatch(name):
        return f"Broker id must be an integer, but it is: {name}"
    if int(name) != node_id:
        return f"Unexpected broker id, expected {expected.format(node_id)}, but received {name}"
    return None


def _result(
    resource: DescribeConfigsResource, configs: list[DescribeConfigsResourceResult]
) -> DescribeConfigsResult:  # fmt: skip
    return DescribeConfigsResult(0, "", resource.resource_type, resource.resource_name, configs)


def _refusal(resource: DescribeConfigsResource, error: ErrorCode, message: str) -> DescribeConfigsResult:
    return DescribeConfigsResult(error, message, resource.resource_type, resource.resource_name, ())
