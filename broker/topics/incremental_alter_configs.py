"""IncrementalAlterConfigs (44), v0-1: set, remove, append to and subtract from single settings (KIP-339).

v1 is flexible. Settings are those of topics, of this broker, and of all brokers of the cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kohort.broker.topics.alter_broker_configs import current_configs, default_of, level_of, replace_configs
from kohort.broker.topics.broker_settings import changeable_setting
from kohort.broker.topics.config_entries import entries_of
from kohort.broker.topics.create_topics import Refused, saving
from kohort.broker.topics.describe_configs import BROKER, NOT_HERE, TOPIC
from kohort.broker.topics.topic_config import (
    LIST,
    TOPIC_SETTINGS,
    InvalidConfig,
    Setting,
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
    from kohort.broker.topics.catalog import Topic

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
        except InvalidConfig as problem:
            error, message = ErrorCode.INVALID_CONFIG, str(problem)
        responses.append(AlterConfigsResourceResponse(error, message, resource.resource_type, resource.resource_name))
    return IncrementalAlterConfigsResponse(0, responses)


def _alter(broker: Broker, resource: AlterConfigsResource, validate_only: bool) -> None:
    if len({config.name for config in resource.configs}) < len(resource.configs):
        raise Refused(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    refuse_nulls(
        config.name for config in resource.configs if config.value is None and config.config_operation != REMOVE
    )
    if resource.resource_type == BROKER:
        _alter_broker(broker, resource, validate_only)
        return
    topic = named_topic(broker, resource.resource_type, resource.resource_name)
    inherited = {entry.name: entry.value or "" for entry in entries_of(broker, topic.configs)}
    configs = dict(topic.configs)
    for config in resource.configs:
        _apply(configs, inherited, config)
    check_together(configs)
    if not validate_only:
        with saving():
            broker.catalog.set_configs(topic, configs)


def _alter_broker(broker: Broker, resource: AlterConfigsResource, validate_only: bool) -> None:
    level = level_of(broker, resource.resource_name)
    configs = current_configs(broker, level)
    for config in resource.configs:
        name, operation = config.name, config.config_operation
        if operation == REMOVE:
            configs.pop(name, None)
        elif operation == SET:
            configs[name] = config.value or ""
        elif operation in (APPEND, SUBTRACT):
            have = configs.get(name, default_of(name))
            configs[name] = _changed_list(changeable_setting(name), have, config)
        else:
            raise Refused(ErrorCode.INVALID_REQUEST, f"Unknown operations type {operation}")
    replace_configs(broker, level, configs, validate_only=validate_only)


def named_topic(broker: Broker, resource_type: int, name: str) -> Topic:
    """Refused for everything but a topic that is there."""
    if resource_type != TOPIC:
        raise Refused(ErrorCode.INVALID_REQUEST, NOT_HERE.get(resource_type, f"Unknown resource type {resource_type}"))
    if not name:
        raise Refused(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    if problem := name_problem(name):
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    topic = broker.catalog.get(name)
    if topic is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    return topic


def refuse_nulls(names: Iterable[str]) -> None:
    for name in names:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {name}")


def _apply(configs: dict[str, str], inherited: dict[str, str], config: AlterableConfig) -> None:
    name, operation = config.name, config.config_operation
    if operation == REMOVE:
        configs.pop(name, None)
    elif operation == SET:
        configs[name] = check_topic_config(name, config.value)
    elif operation in (APPEND, SUBTRACT):
        changed = _changed_list(TOPIC_SETTINGS.get(name), inherited.get(name, ""), config)
        configs[name] = check_topic_config(name, changed)
    else:
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, "")


def _changed_list(known: Setting | None, before: str, config: AlterableConfig) -> str:
    """A list with words appended or taken away. Only settings that are lists can be changed so."""
    if known is None:
        raise InvalidConfig(f"Unknown config name: {config.name}")
    word = "APPEND to" if config.config_operation == APPEND else "SUBTRACT from"
    if known.type != LIST:
        raise InvalidConfig(f"Can't {word} key {config.name} because its type is not LIST.")
    have = [each for each in before.split(",") if each]
    change = [each.strip() for each in (config.value or "").split(",")]
    if config.config_operation == APPEND:
        return ",".join(have + [each for each in change if each not in have])
    return ",".join(each for each in have if each not in change)
