"""IncrementalAlterConfigs (44), v0-1: set, remove, append to and subtract from single settings of topics (KIP-339).

The broker's own settings are read from its file at start; changing them here is refused in the words that Kafka has
for settings that cannot change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kohort.broker.topics.config_entries import entries_of
from kohort.broker.topics.create_topics import Refused
from kohort.broker.topics.describe_configs import BROKER, TOPIC, broker_name_problem
from kohort.broker.topics.topic_config import (
    LIST,
    TOPIC_SETTINGS,
    InvalidTopicConfig,
    check_together,
    check_topic_config,
)
from kohort.broker.topics.topic_names import name_problem
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call

SET, REMOVE, APPEND, SUBTRACT = 0, 1, 2, 3


def incremental_alter_configs(
    broker: Broker, request: IncrementalAlterConfigsRequest, call: Call  # noqa: ARG001
) -> IncrementalAlterConfigsResponse:  # fmt: skip
    named = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    responses = []
    for resource in request.resources:
        error, message = 0, None
        try:
            if named[resource.resource_type, resource.resource_name] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            _alter(broker, resource, request.validate_only)
        except Refused as refused:
            error, message = refused.error, str(refused) or None
        except InvalidTopicConfig as problem:
            error, message = ErrorCode.INVALID_CONFIG, str(problem)
        responses.append(AlterConfigsResourceResponse(error, message, resource.resource_type, resource.resource_name))
    return IncrementalAlterConfigsResponse(0, responses)


def _alter(broker: Broker, resource: AlterConfigsResource, validate_only: bool) -> None:
    if len({config.name for config in resource.configs}) < len(resource.configs):
        raise Refused(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    refuse_nulls(
        config.name for config in resource.configs if config.value is None and config.config_operation != REMOVE
    )
    check_resource(broker, resource.resource_type, resource.resource_name, [c.name for c in resource.configs])
    topic = broker.catalog.get(resource.resource_name)
    if topic is None:
        raise unknown_topic(resource.resource_name)
    inherited = {entry.name: entry.value for entry in entries_of(broker.config, topic.configs)}
    configs = dict(topic.configs)
    for config in resource.configs:
        _apply(configs, inherited, config)
    check_together(configs)
    if not validate_only:
        broker.catalog.set_configs(topic, configs)


def check_resource(broker: Broker, resource_type: int, name: str, configs: Sequence[str]) -> None:
    """Refused for everything but a topic."""
    if resource_type == TOPIC:
        if not name:
            raise Refused(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        if problem := name_problem(name):
            raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
        return
    if resource_type == BROKER:
        problem = broker_name_problem(name, broker.config.node_id, "{}") if name else None
        raise Refused(
            ErrorCode.INVALID_REQUEST, problem or f"Cannot update these configs dynamically: [{', '.join(configs)}]"
        )
    raise Refused(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource_type}")


def refuse_nulls(names: Iterable[str]) -> None:
    for name in names:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {name}")


def unknown_topic(name: str) -> Refused:
    return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")


def _apply(configs: dict[str, str], inherited: dict[str, str], config: AlterableConfig) -> None:
    name, operation = config.name, config.config_operation
    if operation == REMOVE:
        configs.pop(name, None)
    elif operation == SET:
        configs[name] = check_topic_config(name, config.value)
    elif operation in (APPEND, SUBTRACT):
        configs[name] = check_topic_config(name, _changed_list(inherited, config))
    else:
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, "")


def _changed_list(inherited: dict[str, str], config: AlterableConfig) -> str:
    known = TOPIC_SETTINGS.get(config.name)
    if known is None:
        raise InvalidTopicConfig(f"Unknown topic config name: {config.name}")
    word = "APPEND to" if config.config_operation == APPEND else "SUBTRACT from"
    if known.type != LIST:
        raise InvalidTopicConfig(f"Can't {word} key {config.name} because its type is not LIST.")
    have = [each for each in inherited[config.name].split(",") if each]
    change = [each.strip() for each in (config.value or "").split(",")]
    if config.config_operation == APPEND:
        return ",".join(have + [each for each in change if each not in have])
    return ",".join(each for each in have if each not in change)
