"""IncrementalAlterConfigs (44), v0-1: set, remove, append to and subtract from single settings (KIP-339).

v1 is flexible. Settings are those of topics, of groups (KIP-848), of this broker, and of all brokers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.broker.topics.alter_broker_configs import current_configs, default_of, level_of, replace_configs
from kohort.broker.topics.alter_group_configs import check_group_id, replace_group_configs
from kohort.broker.topics.alter_resources import (
    NewConfigs,
    Responses,
    alter_all,
    named_topic,
    refuse_doubles,
    refuse_nulls,
)
from kohort.broker.topics.broker_settings import changeable_setting
from kohort.broker.topics.config_entries import entries_of
from kohort.broker.topics.create_topics import Refused
from kohort.broker.topics.describe_configs import BROKER, GROUP
from kohort.broker.topics.group_configs import GROUP_SETTINGS
from kohort.broker.topics.topic_config import (
    LIST,
    TOPIC_SETTINGS,
    InvalidConfig,
    Setting,
    check_together,
    check_topic_config,
)
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kohort.protocol.wire import MAX_STRING_BYTES

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call
    from kohort.broker.steps import WaitingSteps

SET, REMOVE, APPEND, SUBTRACT = 0, 1, 2, 3


def incremental_alter_configs(
    broker: Broker, request: IncrementalAlterConfigsRequest, call: Call  # noqa: ARG001
) -> WaitingSteps[IncrementalAlterConfigsResponse]:  # fmt: skip
    def alter(resource: AlterConfigsResource) -> NewConfigs | WaitingSteps[None] | None:
        return _alter(broker, resource, request.validate_only)

    outcomes = yield from alter_all(broker, request.resources, alter, validate_only=request.validate_only)
    return IncrementalAlterConfigsResponse(0, Responses(request.resources, outcomes, AlterConfigsResourceResponse))


def _alter(
    broker: Broker, resource: AlterConfigsResource, validate_only: bool
) -> NewConfigs | WaitingSteps[None] | None:
    wanted = list(resource.configs)
    refuse_doubles([config.name for config in wanted])
    refuse_nulls(config.name for config in wanted if config.value is None and config.config_operation != REMOVE)
    if resource.resource_type == BROKER:
        return _alter_broker(broker, resource.resource_name, wanted, validate_only)
    if resource.resource_type == GROUP:
        return _alter_group(broker, resource.resource_name, wanted, validate_only)
    topic = named_topic(broker, resource.resource_type, resource.resource_name)
    configs = dict(topic.configs)
    inherited: dict[str, str] = {}
    if any(config.config_operation in (APPEND, SUBTRACT) for config in wanted):
        inherited = {entry.name: entry.value or "" for entry in entries_of(broker, topic.configs)}
    for config in wanted:
        _apply(configs, inherited, config)
    check_together(configs)
    return topic, configs


def _alter_broker(
    broker: Broker, name: str, wanted: list[AlterableConfig], validate_only: bool
) -> WaitingSteps[None] | None:
    level = level_of(broker, name)
    configs = current_configs(broker, level)
    for config in wanted:
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
    return replace_configs(broker, level, configs, validate_only=validate_only)


def _alter_group(
    broker: Broker, name: str, wanted: list[AlterableConfig], validate_only: bool
) -> WaitingSteps[None] | None:
    group_id = check_group_id(name)
    configs = dict(broker.catalog.group_configs.get(group_id, {}))
    for config in wanted:
        if config.config_operation == REMOVE:
            configs.pop(config.name, None)
        elif config.config_operation == SET:
            configs[config.name] = config.value or ""
        elif config.config_operation in (APPEND, SUBTRACT):
            configs[config.name] = _changed_list(GROUP_SETTINGS.get(config.name), "", config)  # none of them is a list
        else:
            raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, "")
    return replace_group_configs(broker, group_id, configs, validate_only=validate_only)


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
    """A list with words appended or taken away. Raises Refused for a setting that is no list."""
    if known is None:
        raise InvalidConfig(f"Unknown config name: {config.name}")
    word = "APPEND to" if config.config_operation == APPEND else "SUBTRACT from"
    if known.type != LIST:
        raise InvalidConfig(f"Can't {word} key {config.name} because its type is not LIST.")
    have = dict.fromkeys(each for each in before.split(",") if each)
    change = dict.fromkeys(each.strip() for each in (config.value or "").split(","))
    left = {**have, **change} if config.config_operation == APPEND else [each for each in have if each not in change]
    changed = ",".join(left)
    if len(changed) > MAX_STRING_BYTES:
        raise InvalidConfig(
            "The configuration value cannot be added because it exceeds the maximum value size of "
            f"{MAX_STRING_BYTES} bytes."
        )
    return changed
