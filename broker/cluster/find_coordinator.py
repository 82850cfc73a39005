"""FindCoordinator (10), v0-6: which broker coordinates a group, a transactional id or a share partition.

v1 tells groups (0) from transactional ids (1); v3 is flexible; v4 asks for several keys at once (KIP-699); v6 knows
share partitions (2), written group:topic-id:partition (KIP-932).
There is one broker, so it coordinates everything. The first request for a group creates __consumer_offsets, the first
one for a transactional id __transaction_state, the first one for a share partition __share_group_state. Kafka answers
COORDINATOR_NOT_AVAILABLE until that topic exists; here it exists at once.
"""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Generator
from functools import lru_cache
from typing import TYPE_CHECKING

from kohort.broker.topics.catalog import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from kohort.broker.transactions.first_use import begin_to_use, is_in_use
from kohort.coordinator.config import MAX_REMEMBERED_ID
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    encode_response,
)
from kohort.protocol.wire import Encoded

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call
    from kohort.broker.steps import Steps

logger = logging.getLogger(__name__)

GROUP, TRANSACTION, SHARE = 0, 1, 2
FEW_KEYS = 20  # in a request: so many are looked up in one step
MAX_TEXTS = 1_000  # in an answer. The text about a key of one byte has 180; the code of the error says the same.
NOT_AVAILABLE_TEXT = "The coordinator is not available."
INVALID_REQUEST_TEXT = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an "
    "incompatible broker. See the broker logs for more details."
)


def find_coordinator(
    broker: Broker, request: FindCoordinatorRequest, call: Call
) -> FindCoordinatorResponse | Encoded | Steps[FindCoordinatorResponse | Encoded]:
    if request.key_type == TRANSACTION and call.version >= 1 and not is_in_use(broker):
        return _first_use(broker, request, call)
    if call.version < 4:
        found = _find(broker, request.key, request.key_type, call)
        text = "NONE"
        if found.error_code:
            text = found.error_message or INVALID_REQUEST_TEXT
        return FindCoordinatorResponse(0, found.error_code, text, found.node_id, found.host, found.port)
    keys, key_type = request.coordinator_keys, request.key_type
    if call.is_long or len(keys) > FEW_KEYS:
        return _find_several(broker, request, call)
    if len(keys) == 1 and key_type == GROUP and len(keys[0]) <= MAX_REMEMBERED_ID:
        return _find_group(broker, keys[0], call)
    return FindCoordinatorResponse(0, 0, "", 0, "", 0, [_find(broker, key, key_type, call) for key in keys])


def _first_use(broker: Broker, request: FindCoordinatorRequest, call: Call) -> Steps[FindCoordinatorResponse | Encoded]:
    """The first request for a transactional id."""
    yield from begin_to_use(broker)
    answer = find_coordinator(broker, request, call)
    return (yield from answer) if isinstance(answer, Generator) else answer


def _find_group(broker: Broker, group_id: str, call: Call) -> FindCoordinatorResponse | Encoded:
    """Every consumer asks this on every new connection, so the bytes of the usual answer are remembered."""
    if not _exists(broker, CONSUMER_OFFSETS) or broker.coordinator.owner_of(group_id) != broker.config.node_id:
        return FindCoordinatorResponse(0, 0, "", 0, "", 0, [_nobody(group_id)])
    listener = broker.advertised[call.listener_index]
    return _encoded(group_id, broker.config.node_id, listener.host, listener.port, call.version)


@lru_cache(maxsize=1_000)
def _encoded(key: str, node_id: int, host: str, port: int, version: int) -> Encoded:
    answer = FindCoordinatorResponse(0, 0, "", 0, "", 0, [Coordinator(key, node_id, host, port, 0, "")])
    return Encoded(bytes(encode_response[version](answer)))


def _find_several(
    broker: Broker, request: FindCoordinatorRequest, call: Call
) -> Steps[FindCoordinatorResponse | Encoded]:
    coordinators: list[Coordinator] = []
    for key in request.coordinator_keys:
        found = _find(broker, key, request.key_type, call)
        if len(coordinators) >= MAX_TEXTS:
            found.error_message = ""
        coordinators.append(found)
        yield
    return FindCoordinatorResponse(0, 0, "", 0, "", 0, coordinators)


def _find(broker: Broker, key: str, key_type: int, call: Call) -> Coordinator:
    if key_type == GROUP:
        if not _exists(broker, CONSUMER_OFFSETS) or broker.coordinator.owner_of(key) != broker.config.node_id:
            return _nobody(key)
    elif key_type == SHARE:
        if call.version < 6 or not _is_share_partition(key):
            return Coordinator(key, -1, "", -1, ErrorCode.INVALID_REQUEST, "")
        if not _exists(broker, SHARE_GROUP_STATE):
            return _nobody(key)
    elif key_type == TRANSACTION:
        if not _exists(broker, TRANSACTION_STATE) or broker.transactions.owner_of(key) != broker.config.node_id:
            return _nobody(key)
    else:
        return Coordinator(key, -1, "", -1, ErrorCode.INVALID_REQUEST, INVALID_REQUEST_TEXT)
    listener = broker.advertised[call.listener_index]
    return Coordinator(key, broker.config.node_id, listener.host, listener.port, 0, "")


def _nobody(key: str) -> Coordinator:
    return Coordinator(key, -1, "", -1, ErrorCode.COORDINATOR_NOT_AVAILABLE, NOT_AVAILABLE_TEXT)


def _exists(broker: Broker, name: str) -> bool:
    """Create the topic of a coordinator, if it is not there. False: it cannot be created."""
    try:
        broker.ensure_internal(name)
    except OSError as problem:
        logger.error("%s could not be saved: %s", name, problem)
        return False
    return True


def _is_share_partition(key: str) -> bool:
    """group:topic-id:partition, where the group itself may hold colons."""
    group, topic_id, partition = (["", "", "", *key.rsplit(":", 2)])[-3:]
    try:
        return bool(group) and len(base64.urlsafe_b64decode(topic_id + "==")) == 16 and int(partition) >= 0
    except (binascii.Error, ValueError):
        return False
