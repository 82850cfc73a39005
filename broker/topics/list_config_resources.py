"""ListConfigResources (74), v0-1: what DescribeConfigs can describe.

v0 lists client metrics only; v1 asks for types of resources (KIP-1142).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.broker.topics.describe_configs import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call
    from kohort.broker.steps import Steps

KNOWN_TYPES = (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)


def list_config_resources(
    broker: Broker, request: ListConfigResourcesRequest, call: Call
) -> Steps[ListConfigResourcesResponse]:  # fmt: skip
    if call.version == 0:
        return ListConfigResourcesResponse(0, 0, ())  # Kohort has no client metrics
    types = set(request.resource_types) or set(KNOWN_TYPES)
    if not types <= set(KNOWN_TYPES):
        return ListConfigResourcesResponse(0, ErrorCode.UNSUPPORTED_VERSION, ())
    resources = []
    if GROUP in types:  # those that have settings of their own
        for group_id in list(broker.catalog.group_configs):
            resources.append(ConfigResource(group_id, GROUP))
            yield
    if BROKER in types:
        resources.append(ConfigResource(str(broker.config.node_id), BROKER))
    if TOPIC in types:
        for topic in list(broker.catalog):
            resources.append(ConfigResource(topic.name, TOPIC))
            yield
    return ListConfigResourcesResponse(0, 0, resources)
