"""AlterConfigs (33), v0-2: replaces all settings of a topic. Old tools use it; newer ones IncrementalAlterConfigs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.broker.topics.create_topics import Refused
from kohort.broker.topics.incremental_alter_configs import check_resource, refuse_nulls, unknown_topic
from kohort.broker.topics.topic_config import InvalidTopicConfig, check_together, check_topic_config
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
        except InvalidTopicConfig as problem:
            error, message = ErrorCode.INVALID_CONFIG, str(problem)
        responses.append(AlterConfigsResourceResponse(error, message, resource.resource_type, resource.resource_name))
    return AlterConfigsResponse(0, responses)


def _replace(broker: Broker, resource: AlterConfigsResource, validate_only: bool) -> None:
    refuse_nulls(config.name for config in resource.configs if config.value is None)
    check_resource(broker, resource.resource_type, resource.resource_name, [c.name for c in resource.configs])
    topic = broker.catalog.get(resource.resource_name)
    if topic is None:
        raise unknown_topic(resource.resource_name)
    configs = {config.name: check_topic_config(config.name, config.value) for config in resource.configs}
    check_together(configs)
    if not validate_only:
        broker.catalog.set_configs(topic, configs)
