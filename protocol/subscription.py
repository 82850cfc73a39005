"""ConsumerProtocol: what consumers of a group put into their JoinGroup metadata and read from their assignment.

    | version int16 | Subscription or Assignment of that version, never flexible |

A broker reads it to show which member consumes which topics, and to know which topics a group subscribes to. A newer
version than ours is read as our newest, since new versions only append fields. Kafka checks no more than that, and
neither do we.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from kohort.protocol.errors import MalformedMessage
from kohort.protocol.messages import consumer_protocol
from kohort.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription

MAX_VERSION = 3

_version = Struct(">h")


def read_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    version = _read_version(metadata)
    subscription: ConsumerProtocolSubscription = consumer_protocol.decode_subscription[version](metadata, 2)
    return subscription


def read_assignment(assignment: bytes) -> ConsumerProtocolAssignment:
    version = _read_version(assignment)
    read: ConsumerProtocolAssignment = consumer_protocol.decode_assignment[version](assignment, 2)
    return read


def pack_subscription(subscription: ConsumerProtocolSubscription, version: int = MAX_VERSION) -> bytes:
    return _pack(consumer_protocol.encode_subscription[version](subscription), version)


def pack_assignment(assignment: ConsumerProtocolAssignment, version: int = MAX_VERSION) -> bytes:
    return _pack(consumer_protocol.encode_assignment[version](assignment), version)


def _pack(body: Any, version: int) -> bytes:
    return _version.pack(version) + bytes(body)


def _read_version(data: bytes) -> int:
    if len(data) < 2:
        raise MalformedMessage("too short for a ConsumerProtocol version")
    (version,) = _version.unpack_from(data)
    if version < 0:
        raise MalformedMessage(f"ConsumerProtocol version {version}")
    return min(int(version), MAX_VERSION)
