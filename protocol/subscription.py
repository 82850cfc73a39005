"""ConsumerProtocol: what consumers of a group put into their JoinGroup metadata and read from their assignment.

    | version int16 | Subscription or Assignment of that version, never flexible |

A broker reads it to show which member consumes which topics, and to know which topics a group subscribes to. A newer
version than ours is read as our newest, since new versions only append fields. Kafka checks no more than that, and
neither do we.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any

from kohort.protocol.errors import MalformedMessage
from kohort.protocol.messages import consumer_protocol
from kohort.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription

MAX_VERSION = 3
VERSION_BYTES = 2
COUNT_BYTES = 4
LENGTH_BYTES = 2

_version = Struct(">h")
_count = Struct(">i")


def read_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    version = read_version(metadata)
    subscription: ConsumerProtocolSubscription = consumer_protocol.decode_subscription[version](metadata, 2)
    return subscription


class SubscribedTopics:
    """Reads the topics of many subscriptions. Mostly all members of a group name the same ones: those are read once."""

    __slots__ = ("_raw", "_topics")

    def __init__(self) -> None:
        self._raw: bytes | None = None  # the topics that were read last, with their count in front
        self._topics: Sequence[str] = ()

    def read(self, metadata: bytes) -> Sequence[str]:
        """Only what a subscription of version 0 has is looked at, whatever version it says it is, as Kafka does.

        The same object is returned for the same topics as before.
        """
        raw = self._raw
        if raw is None or not metadata.startswith(raw, VERSION_BYTES) or not _ends_well(metadata, len(raw)):
            self._topics = consumer_protocol.decode_subscription[0](metadata, VERSION_BYTES).topics
            size = COUNT_BYTES + sum(LENGTH_BYTES + len(topic.encode()) for topic in self._topics)
            self._raw = bytes(metadata[VERSION_BYTES : VERSION_BYTES + size])
        return self._topics


def _ends_well(metadata: bytes, topics_size: int) -> bool:
    """Whether the data of the client's own, behind the topics, is there: its length, -1 for none, and its bytes."""
    at = VERSION_BYTES + topics_size
    if len(metadata) < at + COUNT_BYTES:
        return False
    (length,) = _count.unpack_from(metadata, at)
    return bool(-1 <= length <= len(metadata) - at - COUNT_BYTES)


def read_assignment(assignment: bytes) -> ConsumerProtocolAssignment:
    version = read_version(assignment)
    read: ConsumerProtocolAssignment = consumer_protocol.decode_assignment[version](assignment, 2)
    return read


def pack_subscription(subscription: ConsumerProtocolSubscription, version: int = MAX_VERSION) -> bytes:
    return _pack(consumer_protocol.encode_subscription[version](subscription), version)


def pack_assignment(assignment: ConsumerProtocolAssignment, version: int = MAX_VERSION) -> bytes:
    return _pack(consumer_protocol.encode_assignment[version](assignment), version)


def _pack(body: Any, version: int) -> bytes:
    return _version.pack(version) + bytes(body)


def read_version(data: bytes) -> int:
    """In which version a subscription or an assignment can be read."""
    if len(data) < 2:
        raise MalformedMessage("too short for a ConsumerProtocol version")
    (version,) = _version.unpack_from(data)
    if version < 0:
        raise MalformedMessage(f"ConsumerProtocol version {version}")
    return min(int(version), MAX_VERSION)
