"""DescribeConfigs (32), v1-4: the settings of topics and of this broker.

v1 adds where a value comes from and its synonyms (KIP-226); v3 types and documentation (KIP-569); v4 is flexible.
Settings of loggers, client metrics and groups are gaps, see docs/protocol-support.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.broker.cluster.find_coordinator import INVALID_REQUEST_TEXT
from kohort.broker.topics.config_entries import ConfigEntry, broker_entries, cluster_entries, entries_of
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

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
NOT_HERE = {
    CLIENT_METRICS: "Kohort has no client metrics, and no settings of them.",
    GROUP: "Kohort has no settings of single groups.",
}


def describe_configs(broker: Broker, request: DescribeConfigsRequest, call: Call) -> DescribeConfigsResponse:  # noqa: ARG001
    results = [_describe(broker, resource, request.include_synonyms) for resource in request.resources]
    return DescribeConfigsResponse(0, results)


def _describe(broker: Broker, resource: DescribeConfigsResource, synonyms: bool) -> DescribeConfigsResult:
    name = resource.resource_name
    if resource.resource_type == TOPIC:
        topic = broker.catalog.get(name)
        if topic is not None:
            return _shown(resource, entries_of(broker, topic.configs), synonyms)
        if problem := name_problem(name):
            return _refusal(resource, ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
        return _refusal(resource, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    if resource.resource_type == BROKER_LOGGER and name == str(broker.config.node_id):
        return _shown(resource, [], synonyms)  # Kohort has no loggers that can be set
    if resource.resource_type == BROKER:
        if not name:
            return _shown(resource, cluster_entries(broker), synonyms)
        if problem := broker_name_problem(name, broker.config.node_id, "{} or empty string"):
            return _refusal(resource, ErrorCode.INVALID_REQUEST, problem)
        return _shown(resource, broker_entries(broker), synonyms)
    return _refusal(resource, ErrorCode.INVALID_REQUEST, NOT_HERE.get(resource.resource_type, INVALID_REQUEST_TEXT))


def broker_name_problem(name: str, node_id: int, expected: str) -> str | None:
    """Why `name` is not the id of this broker, in Kafka's words; None if it is."""
    if not name.lstrip("-").isdigit():
        return f"Broker id must be an integer, but it is: {name}"
    if int(name) != node_id:
        return f"Unexpected broker id, expected {expected.format(node_id)}, but received {name}"
    return None


def _shown(resource: DescribeConfigsResource, entries: list[ConfigEntry], synonyms: bool) -> DescribeConfigsResult:
    wanted = set(resource.configuration_keys or ())  # no keys mean all
    configs = [
        DescribeConfigsResourceResult(
            entry.name,
            entry.value,
            entry.read_only,
            entry.source,
            entry.sensitive,
            [DescribeConfigsSynonym(*synonym) for synonym in entry.synonyms] if synonyms else (),
            entry.type,
            None,
        )
        for entry in entries
        if not wanted or entry.name in wanted
    ]
    return DescribeConfigsResult(0, "", resource.resource_type, resource.resource_name, configs)


def _refusal(resource: DescribeConfigsResource, error: ErrorCode, message: str) -> DescribeConfigsResult:
    return DescribeConfigsResult(error, message, resource.resource_type, resource.resource_name, ())
