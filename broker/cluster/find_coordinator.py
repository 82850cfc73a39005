"""FindCoordinator (10), v0-6: which broker coordinates a group, a transactional id or a share partition.

v1 tells groups (0) from transactional ids (1); v3 is flexible; v4 asks for several keys at once (KIP-699); v6 knows
share partitions (2), written group:topic-id:partition (KIP-932).
There is one broker, so it coordinates everything. The first request for a group creates __consumer_offsets. Kafka
answers COORDINATOR_NOT_AVAILABLE until that topic exists; here it exists at once.
"""

from __future__ import annotations

import base64
import binascii
import logging
from typing import TYPE_CHECKING

from kohort.broker.topics.catalog import CONSUMER_OFFSETS
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call
    from kohort.broker.steps import Steps

logger = logging.getLogger(__name__)

GROUP, TRANSACTION, SHARE = 0, 1, 2
NOT_AVAILABLE_TEXT = "The coordinator is not available."
INVALID_REQUEST_TEXT = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an "
    "incompatible broker. See the broker logs for more details."
)


def find_coordinator(broker: Broker, request: FindCoordinatorRequest, call: Call) -> Steps[FindCoordinatorResponse]:
    if call.version < 4:
        found = _find(broker, request.key, request.key_type, call)
        text = "NONE"
        if found.error_code:
            text = found.error_message or INVALID_REQUEST_TEXT
        return FindCoordinatorResponse(0, found.error_code, text, found.node_id, found.host, found.port)
    coordinators = []
    for key in request.coordinator_keys:
        coordinators.append(_find(broker, key, request.key_type, call))
        yield
    return FindCoordinatorResponse(0, 0, "", 0, "", 0, coordinators)


def _find(broker: Broker, key: str, key_type: int, call: Call) -> Coordinator:
    if key_type not in (GROUP, TRANSACTION, SHARE):
        return Coordinator(key, -1, "", -1, ErrorCode.INVALID_REQUEST, INVALID_REQUEST_TEXT)
    if key_type == SHARE and (call.version < 6 or not _is_share_partition(key)):
        return Coordinator(key, -1, "", -1, ErrorCode.INVALID_REQUEST, "")
    if key_type == GROUP and not _can_coordinate(broker, key):
        return Coordinator(key, -1, "", -1, ErrorCode.COORDINATOR_NOT_AVAILABLE, NOT_AVAILABLE_TEXT)
    listener = broker.advertised[call.listener_index]
    return Coordinator(key, broker.config.node_id, listener.host, listener.port, 0, "")


def _can_coordinate(broker: Broker, group_id: str) -> bool:
    """Whether the topic of offsets is there, which is created if need be, and this broker owns the group's part."""
    try:
        broker.catalog.ensure_consumer_offsets()
    except OSError as problem:
        logger.error("%s could not be saved: %s", CONSUMER_OFFSETS, problem)
        return False
    return broker.coordinator.owner_of(group_id) == broker.config.node_id


def _is_share_partition(key: str) -> bool:
    """group:topic-id:partition, where the group itself may hold colons."""
    group, topic_id, partition = (["", "", "", *key.rsplit(":", 2)])[-3:]
    try:
        return bool(group) and len(base64.urlsafe_b64decode(topic_id + "==")) == 16 and int(partition) >= 0
    except (binascii.Error, ValueError):
        return False
