"""AlterConfigs (33), v0-2: replaces all settings of a topic or of the broker. v2 is flexible.

Old tools use it; newer ones use IncrementalAlterConfigs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.broker.topics.alter_broker_configs import level_of, replace_configs
from kohort.broker.topics.create_topics import Refused, saving
from kohort.broker.topics.describe_configs import BROKER
from kohort.broker.topics.incremental_alter_configs import named_topic, refuse_nulls
from kohort.broker.topics.topic_config import InvalidConfig, check_together, check_topic_config
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call


def alter_configs(broker: Broker, request: AlterConfigsRequest, call: Call) -> AlterConfigsResponse:  # noqa: ARG001
    responses = []
    for resource in request.resources:
        error, message = 0, None
        try:
            _replace(broker, resource, request.validate_only)
        except Refused as refused:
            error, message = refused.error, str(refused) or None
        except InvalidConfig as problem:
            error, message = ErrorCode.INVALID_CONFIG, str(problem)
        responses.append(AlterConfigsResourceResponse(error, message, resource.resource_type, resource.resource_name))
    return AlterConfigsResponse(0, responses)


def _replace(broker: Broker, resource: AlterConfigsResource, validate_only: bool) -> None:
    refuse_nulls(config.name for config in resource.configs if config.value is None)
    if resource.resource_type == BROKER:
        wanted = {config.name: config.value or "" for config in resource.configs}
        replace_configs(broker, level_of(broker, resource.resource_name), wanted, validate_only=validate_only)
        return
    topic = named_topic(broker, resource.resource_type, resource.resource_name)
    configs = {config.name: check_topic_config(config.name, config.value) for config in resource.configs}
    check_together(configs)
    if not validate_only:
        with saving():
            broker.catalog.set_configs(topic, configs)
