"""DescribeConfigs (32), v1-4: the settings of topics and of this broker.

v1 adds where a value comes from and its synonyms (KIP-226); v3 types and documentation (KIP-569); v4 is flexible.
Settings of loggers, client metrics and groups are gaps, see docs/protocol-support.md.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from kohort.broker.cluster.find_coordinator import INVALID_REQUEST_TEXT
from kohort.broker.config import INT32_MAX, Allowed, Config
from kohort.broker.topics.config_entries import DEFAULT, STATIC_BROKER, ConfigEntry, entries_of
from kohort.broker.topics.topic_config import BOOLEAN, DOUBLE, INT, LIST, LONG, STRING
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

TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8

_LISTS = ("advertised.listeners", "listeners", "log.cleanup.policy", "log.dirs")
_TYPES = {bool: BOOLEAN, str: STRING, int: LONG, float: DOUBLE}


def describe_configs(broker: Broker, request: DescribeConfigsRequest, call: Call) -> DescribeConfigsResponse:  # noqa: ARG001
    results = [_describe(broker, resource, request.include_synonyms) for resource in request.resources]
    return DescribeConfigsResponse(0, results)


def _describe(broker: Broker, resource: DescribeConfigsResource, synonyms: bool) -> DescribeConfigsResult:
    name = resource.resource_name
    if resource.resource_type == TOPIC:
        topic = broker.catalog.get(name)
        if topic is not None:
            return _shown(resource, entries_of(broker.config, topic.configs), synonyms, read_only=False)
        if problem := name_problem(name):
            return _refusal(resource, ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
        return _refusal(resource, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    if resource.resource_type == BROKER_LOGGER and name == str(broker.config.node_id):
        return _shown(resource, [], synonyms, read_only=False)  # no logger can be set from outside
    if resource.resource_type == BROKER:
        if not name:
            return _shown(resource, [], synonyms, read_only=True)  # the cluster's dynamic defaults: there are none
        if problem := broker_name_problem(name, broker.config.node_id, "{} or empty string"):
            return _refusal(resource, ErrorCode.INVALID_REQUEST, problem)
        return _shown(resource, broker_entries(broker.config), synonyms, read_only=True)
    return _refusal(resource, ErrorCode.INVALID_REQUEST, INVALID_REQUEST_TEXT)


def broker_name_problem(name: str, node_id: int, expected: str) -> str | None:
    """Why `name` is not this broker, in Kafka's words."""
    if not name.lstrip("-").isdigit():
        return f"Broker id must be an integer, but it is: {name}"
    if int(name) != node_id:
        return f"Unexpected broker id, expected {expected.format(node_id)}, but received {name}"
    return None


def broker_entries(config: Config) -> list[ConfigEntry]:
    entries = []
    for each in fields(Config):
        allowed: Allowed = each.metadata["allowed"]
        name, value = allowed.name, getattr(config, each.name)
        source = DEFAULT if value == each.default else STATIC_BROKER
        synonyms = [(name, _text(value), source)]
        if source == STATIC_BROKER:
            synonyms.append((name, _text(each.default), DEFAULT))
        small = type(value) is int and (allowed.high or 0) <= INT32_MAX
        kind = LIST if name in _LISTS else INT if small else _TYPES[type(value)]
        entries.append(ConfigEntry(name, _text(value), source, kind, synonyms))
    return entries


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _shown(
    resource: DescribeConfigsResource, entries: list[ConfigEntry], synonyms: bool, *, read_only: bool
) -> DescribeConfigsResult:
    wanted = set(resource.configuration_keys or ())  # none named: all
    configs = [
        DescribeConfigsResourceResult(
            entry.name,
            entry.value,
            read_only,
            entry.source,
            False,
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
