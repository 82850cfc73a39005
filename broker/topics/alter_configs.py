"""AlterConfigs (33), v0-2: replaces all settings of a topic, of a group or of the broker. v2 is flexible.

Old tools use it; newer ones use IncrementalAlterConfigs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.broker.topics.alter_broker_configs import level_of, replace_configs
from kohort.broker.topics.alter_group_configs import check_group_id, replace_group_configs
from kohort.broker.topics.alter_resources import (
    NewConfigs,
    Responses,
    alter_all,
    named_topic,
    refuse_doubles,
    refuse_nulls,
)
from kohort.broker.topics.describe_configs import BROKER, GROUP
from kohort.broker.topics.topic_config import check_together, check_topic_config
from kohort.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call
    from kohort.broker.steps import WaitingSteps


def alter_configs(broker: Broker, request: AlterConfigsRequest, call: Call) -> WaitingSteps[AlterConfigsResponse]:  # noqa: ARG001
    def replace(resource: AlterConfigsResource) -> NewConfigs | WaitingSteps[None] | None:
        return _replace(broker, resource, request.validate_only)

    outcomes = yield from alter_all(broker, request.resources, replace, validate_only=request.validate_only)
    return AlterConfigsResponse(0, Responses(request.resources, outcomes, AlterConfigsResourceResponse))


def _replace(
    broker: Broker, resource: AlterConfigsResource, validate_only: bool
) -> NewConfigs | WaitingSteps[None] | None:
    wanted = list(resource.configs)
    refuse_doubles([config.name for config in wanted])
    refuse_nulls(config.name for config in wanted if config.value is None)
    if resource.resource_type == BROKER:
        values = {config.name: config.value or "" for config in wanted}
        return replace_configs(broker, level_of(broker, resource.resource_name), values, validate_only=validate_only)
    if resource.resource_type == GROUP:
        values = {config.name: config.value or "" for config in wanted}
        group_id = check_group_id(resource.resource_name)
        return replace_group_configs(broker, group_id, values, validate_only=validate_only)
    topic = named_topic(broker, resource.resource_type, resource.resource_name)
    configs = {config.name: check_topic_config(config.name, config.value) for config in wanted}
    check_together(configs)
    return topic, configs
