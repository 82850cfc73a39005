"""DescribeCluster (60), v0-2: brokers and controller. v1 knows controller endpoints (KIP-919), v2 fenced brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.broker.cluster.operations import CLUSTER_OPERATIONS, NOT_ASKED
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call

BROKERS, CONTROLLERS = 1, 2


def describe_cluster(broker: Broker, request: DescribeClusterRequest, call: Call) -> DescribeClusterResponse:
    if call.version >= 1 and request.endpoint_type != BROKERS:
        return _refusal(request.endpoint_type)
    listener = broker.advertised[call.listener_index]
    node = broker.config.node_id
    brokers = [DescribeClusterBroker(node, listener.host, listener.port, broker.config.broker_rack or None, False)]
    operations = CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
    return DescribeClusterResponse(0, 0, None, BROKERS, broker.cluster_id, node, brokers, operations)


def _refusal(endpoint_type: int) -> DescribeClusterResponse:
    if endpoint_type == CONTROLLERS:
        error = ErrorCode.MISMATCHED_ENDPOINT_TYPE
        text = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
    else:
        error, text = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {endpoint_type}"
    return DescribeClusterResponse(0, error, text, BROKERS, "", -1, (), NOT_ASKED)
