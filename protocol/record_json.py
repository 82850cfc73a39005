"""Keys and values of internal topics as the JSON that Apache Kafka's own tools print.

    key      {"type":"1","data":{"group":"orders","topic":"t","partition":0}}
    value    {"version":"4","data":{"offset":5,"leaderEpoch":-1, ...}}

Names are Kafka's, in its order; a field shows only in versions that have it, a tagged field only if it is not at its
default. Uuids are base64 without padding, bytes are base64. The subscriptions and assignments of members of a classic
group with the protocol type "consumer" are shown decoded, if they can be read.
"""

from __future__ import annotations

import base64
import json
import re
from array import array
from struct import Struct
from typing import Any

from kohort.printable import printable_json
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.log_records import CONSUMER_OFFSETS, UnknownRecord
from kohort.protocol.messages.log_consumer_group_member_metadata import ClassicMemberMetadata
from kohort.protocol.record_types import RecordTypes
from kohort.protocol.subscription import read_assignment, read_subscription
from kohort.protocol.wire import NO_UUID, LazyArray, Message

_version = Struct(">h").unpack_from

# Fields that came with a later version, or went with one: (first version, last version).
_VERSIONS: dict[tuple[str, str], tuple[int, int]] = {
    ("OffsetCommitValue", "leader_epoch"): (3, 32767),
    ("OffsetCommitValue", "expire_timestamp"): (1, 1),
    ("OffsetCommitValue", "topic_id"): (4, 32767),
    ("GroupMetadataValue", "current_state_timestamp"): (2, 32767),
    ("MemberMetadata", "group_instance_id"): (3, 32767),
    ("MemberMetadata", "rebalance_timeout"): (1, 32767),
    ("ConsumerProtocolSubscription", "owned_partitions"): (1, 32767),
    ("ConsumerProtocolSubscription", "generation_id"): (2, 32767),
    ("ConsumerProtocolSubscription", "rack_id"): (3, 32767),
}

# Tagged fields, with their default, which is not shown.
_TAGGED: dict[tuple[str, str], Any] = {
    ("OffsetCommitValue", "topic_id"): NO_UUID,
    ("ConsumerGroupMetadataValue", "metadata_hash"): 0,
    ("ConsumerGroupTargetAssignmentMetadataValue", "assignment_timestamp"): 0,
    ("ShareGroupTargetAssignmentMetadataValue", "assignment_timestamp"): 0,
    ("TopicPartitions", "assignment_epochs"): (),
    ("ConsumerGroupMemberMetadataValue", "classic_member_metadata"): ClassicMemberMetadata(),
    ("StreamsGroupMetadataValue", "validated_topology_epoch"): -1,
    ("StreamsGroupMetadataValue", "last_assignment_configs"): (),
    ("StreamsGroupTargetAssignmentMetadataValue", "assignment_timestamp"): 0,
    ("TaskIds", "assignment_epochs"): (),
    ("ShareSnapshotValue", "delivery_complete_count"): -1,
    ("ShareUpdateValue", "delivery_complete_count"): -1,
    ("TransactionLogValue", "previous_producer_id"): -1,
    ("TransactionLogValue", "next_producer_id"): -1,
    ("TransactionLogValue", "client_transaction_version"): 0,
    ("TransactionLogValue", "next_producer_epoch"): -1,
}
_ABSENT = object()
_UUIDS = {"topic_id"}


def key_and_value(
    key: bytes, value: bytes | None, types: RecordTypes = CONSUMER_OFFSETS
) -> tuple[dict[str, Any] | UnknownRecord, dict[str, Any] | None]:
    """Key and value as dicts for JSON. MalformedMessage if they cannot be read."""
    record_type, decoded = types.decode_key(key)
    if isinstance(decoded, UnknownRecord):
        return decoded, None
    shown_key = {"type": str(record_type), "data": as_json(decoded, 0)}
    if value is None:
        return shown_key, None
    message = types.decode_value(record_type, value)
    (version,) = _version(value)
    data = as_json(message, version)
    if data.get("protocolType") == "consumer" and "members" in data:
        for member, shown in zip(message.members, data["members"], strict=True):
            _open_up(shown, "subscription", member.subscription, read_subscription)
            _open_up(shown, "assignment", member.assignment, read_assignment)
    return shown_key, {"version": str(version), "data": data}


def _open_up(shown: dict[str, Any], name: str, raw: bytes, read: Any) -> None:
    try:
        shown[name] = as_json(read(raw), _version(raw)[0])
    except MalformedMessage:
        return  # it stays in base64


def as_json(message: Message, version: int) -> dict[str, Any]:
    shown = {}
    kind = type(message).__name__
    for name in message.__slots__:
        first, last = _VERSIONS.get((kind, name), (0, 32767))
        value = getattr(message, name)
        if not first <= version <= last or _is_default(_TAGGED.get((kind, name), _ABSENT), value):
            continue
        shown[_camel_case(name)] = uuid_text(value) if name in _UUIDS else _value(value, version)
    return shown


def _is_default(default: Any, value: Any) -> bool:
    if isinstance(default, tuple):
        return value is not None and len(value) == 0
    return default is not _ABSENT and bool(value == default)


def _value(value: Any, version: int) -> Any:
    if isinstance(value, Message):
        return as_json(value, version)
    if isinstance(value, (list, tuple, array, LazyArray)):
        return [_value(item, version) for item in value]
    if isinstance(value, (bytes, memoryview)):
        return base64.b64encode(value).decode()
    return value


def uuid_text(value: bytes) -> str:
    """An id as Kafka shows it."""
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


_ESCAPE = re.compile(r"\\(u00[0-9a-f]{2}|.)")


def to_text(shown: Any) -> str:
    """Compact JSON, to the letter as Kafka's tools write it: control characters in upper-case hex. Kafka's tools leave
    those beyond ASCII as they are; here they are safe to print."""
    text = json.dumps(shown, ensure_ascii=False, separators=(",", ":"))
    text = _ESCAPE.sub(lambda found: "\\" + (found[1] if len(found[1]) == 1 else "u" + found[1][1:].upper()), text)
    return printable_json(text)
