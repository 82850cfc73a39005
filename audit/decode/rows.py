"""Records about groups and members as rows of the tables: one record at a time, by the generated codecs.

Committed offsets, which are nearly all records of a log, are decoded in commits.py; only those with an unusual form
come here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from kohort.audit.decode.classic import SPLIT_VERSION, ClassicMembers, Generation, split_generation
from kohort.audit.decode.consumer_protocol import assignment_of, joined, subscription_of
from kohort.audit.decode.schemas import micros, schema, uuid_text
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.log_records import (
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    CONSUMER_GROUP_MEMBER_METADATA,
    CONSUMER_GROUP_METADATA,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA,
    GROUP_METADATA,
    OFFSET_COMMITS,
    RECORD_TYPES,
    SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    SHARE_GROUP_MEMBER_METADATA,
    SHARE_GROUP_METADATA,
    SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER,
    SHARE_GROUP_TARGET_ASSIGNMENT_METADATA,
    STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    STREAMS_GROUP_MEMBER_METADATA,
    STREAMS_GROUP_METADATA,
    STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER,
    STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA,
    UnknownRecord,
    decode_key,
    decode_value,
    group_of,
)
from kohort.protocol.messages.log_consumer_group_member_metadata import ClassicMemberMetadata
from kohort.protocol.record_batch import Headers
from kohort.protocol.record_json import as_json, key_and_value, to_text
from kohort.protocol.wire import NO_UUID

Row: TypeAlias = tuple[Any, ...]

GENERATION_TYPES = {
    GROUP_METADATA: "classic",
    CONSUMER_GROUP_METADATA: "consumer",
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: "consumer",
    SHARE_GROUP_METADATA: "share",
    SHARE_GROUP_TARGET_ASSIGNMENT_METADATA: "share",
    STREAMS_GROUP_METADATA: "streams",
    STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA: "streams",
}
MEMBER_TYPES = {
    CONSUMER_GROUP_MEMBER_METADATA: "consumer",
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: "consumer",
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: "consumer",
    SHARE_GROUP_MEMBER_METADATA: "share",
    SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER: "share",
    SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT: "share",
    STREAMS_GROUP_MEMBER_METADATA: "streams",
    STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER: "streams",
    STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT: "streams",
}
TARGET_EPOCHS = (
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA,
    SHARE_GROUP_TARGET_ASSIGNMENT_METADATA,
    STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA,
)


class RawRecord(NamedTuple):
    """A record whose key and value are not decoded yet."""

    log_partition: int
    log_offset: int
    time_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    producer_id: int
    transaction: str


class Rows:
    """Collects rows by table, and the names of topics that the records mention.

    With `quick`, members of classic generations go to `quick` and not to the rows.
    """

    def __init__(self, quick: ClassicMembers | None = None) -> None:
        self._quick = quick
        self.offset_commits: list[Row] = []
        self.group_generations: list[Row] = []
        self.member_assignments: list[Row] = []
        self.other_records: list[Row] = []
        self.topics: dict[bytes, str] = {}

    def add(self, record: RawRecord) -> None:
        """Add the rows of a record. Every record becomes at least one row, whatever its form."""
        if record.key is None:
            self._other(record, None, None, "no key", "a record without a key says nothing about any group")
            return
        group_id = None
        record_type = int.from_bytes(record.key[:2], "big", signed=True) if len(record.key) >= 2 else None
        try:
            record_type, key = decode_key(record.key)
            if isinstance(key, UnknownRecord):
                detail = f"record type {key.type}, which a newer Kafka has introduced"
                self._other(record, record_type, None, "unknown", detail)
                return
            group_id = group_of(record_type, key)
            value = None if record.value is None else self._decode_value(record_type, record.value)
            self._known(record, record_type, key, value)
        except MalformedMessage as problem:
            named = RECORD_TYPES.get(record_type) if record_type is not None else None
            detail = f"{named.name}: {problem}" if named else str(problem)
            self._other(record, record_type, group_id, "undecodable", detail)

    def _decode_value(self, record_type: int, raw: bytes) -> Any:
        if record_type == GROUP_METADATA and self._quick is not None and _version(raw) == SPLIT_VERSION:
            generation = split_generation(raw)
            if generation is not None:
                return generation
        return decode_value(record_type, raw)

    def _known(self, record: RawRecord, record_type: int, key: Any, value: Any) -> None:
        if record_type in OFFSET_COMMITS:
            self._commit(record, record_type, key, value)
        elif record_type in GENERATION_TYPES:
            self._generation(record, record_type, key, value)
        elif record_type in MEMBER_TYPES:
            self._member(record, record_type, key, value)
        else:
            self._metadata(record, record_type, key, value)

    # --- offset_commits -------------------------------------------------------------------------------------------

    def _commit(self, record: RawRecord, record_type: int, key: Any, value: Any) -> None:
        topic_id = getattr(value, "topic_id", NO_UUID)
        if topic_id != NO_UUID:
            self.topics[topic_id] = key.topic
        told = (
            (None,) * 6
            if value is None
            else (
                value.offset,
                getattr(value, "leader_epoch", -1),
                value.metadata,
                micros(value.commit_timestamp),
                micros(getattr(value, "expire_timestamp", -1)),
                None if topic_id == NO_UUID else uuid_text(topic_id),
            )
        )
        self.offset_commits.append(
            (
                record.log_partition, record.log_offset, micros(record.time_ms), key.group, key.topic, key.partition,
                value is None, *told, header_text(record.headers, b"kohort.member"),
                header_int32(record.headers, b"kohort.generation"),
                record.producer_id, record.transaction, record_type, _version(record.value),
            )
        )  # fmt: skip

    # --- group_generations ----------------------------------------------------------------------------------------

    def _generation(self, record: RawRecord, record_type: int, key: Any, value: Any) -> None:
        kind = GENERATION_TYPES[record_type]
        group_id = group_of(record_type, key)
        told: Row = (None,) * 6
        rest = None
        if value is not None and record_type == GROUP_METADATA:
            told = (
                value.generation, value.protocol_type, value.protocol, value.leader,
                micros(value.current_state_timestamp), len(value.members),
            )  # fmt: skip
            self._classic_members(record, group_id, value)
        elif value is not None:
            told = (value.assignment_epoch if record_type in TARGET_EPOCHS else value.epoch, *(None,) * 5)
            rest = _rest(value, ("epoch", "assignmentEpoch"))
        self.group_generations.append(
            (
                record.log_partition, record.log_offset, micros(record.time_ms), group_id, kind, record_type,
                value is None, *told, micros(_int64(header_bytes(record.headers, b"kohort.join.start.ms"))),
                header_text(record.headers, b"kohort.cause"), header_text(record.headers, b"kohort.trigger"),
                _version(record.value), rest,
            )
        )  # fmt: skip

    def _classic_members(self, record: RawRecord, group_id: str, value: Any) -> None:
        start = (
            record.log_partition, record.log_offset, micros(record.time_ms), group_id, "classic", 2,
            False, value.generation, None,
        )  # fmt: skip
        of_consumers = value.protocol_type == "consumer"
        if self._quick is not None and isinstance(value, Generation):
            self._quick.add(start, of_consumers, value.members)
            return
        version = _version(record.value)
        for member in value.members:
            subscription = subscription_of(member.subscription, of_consumers)
            assignment = assignment_of(member.assignment, of_consumers)
            self.member_assignments.append(
                (
                    *start, member.member_id, member.group_instance_id, None, member.client_id, member.client_host,
                    member.rebalance_timeout, member.session_timeout, subscription.topics, None, None,
                    subscription.owned, assignment.assigned, None, None,
                    subscription.readable and assignment.readable, version,
                    joined(subscription.rest, assignment.rest),
                )
            )  # fmt: skip

    # --- member_assignments ---------------------------------------------------------------------------------------

    def _member(self, record: RawRecord, record_type: int, key: Any, value: Any) -> None:
        told: Mapping[str, Any] = {} if value is None else _TOLD[record_type](value)
        get = told.get
        self.member_assignments.append(
            (
                record.log_partition, record.log_offset, micros(record.time_ms), key.group_id,
                MEMBER_TYPES[record_type], record_type, value is None, get("generation"), get("previous"),
                key.member_id, get("instance_id"), get("rack_id"), get("client_id"), get("client_host"),
                get("rebalance_timeout_ms"), None, get("topics"), get("regex"), get("assignor"), None,
                get("assigned"), get("revoking"), get("state"), True, _version(record.value), get("rest"),
            )
        )  # fmt: skip

    # --- other_records --------------------------------------------------------------------------------------------

    def _metadata(self, record: RawRecord, record_type: int, key: Any, value: Any) -> None:
        """Records of the types 4 and 15, which have both the id and the name of a topic."""
        for field in ("topics", "initializing_topics", "initialized_topics", "deleting_topics"):
            for topic in getattr(value, field, ()):
                if hasattr(topic, "topic_name"):
                    self.topics[topic.topic_id] = topic.topic_name
        assert record.key is not None
        shown_key, shown_value = key_and_value(record.key, record.value)
        self.other_records.append(
            (
                record.log_partition, record.log_offset, micros(record.time_ms), record_type, key.group_id,
                value is None, to_text(shown_key), None if shown_value is None else to_text(shown_value), None, None,
            )
        )  # fmt: skip

    def _other(
        self, record: RawRecord, record_type: int | None, group_id: str | None, problem: str, detail: str
    ) -> None:
        key, value = (None if raw is None else raw.hex() for raw in (record.key, record.value))
        self.other_records.append(
            (
                record.log_partition, record.log_offset, micros(record.time_ms), record_type, group_id,
                record.value is None, key, value, problem, detail,
            )
        )  # fmt: skip


# --- what records about members of consumer, share and streams groups tell ------------------------------------------


def _who_in_consumer_group(value: Any) -> dict[str, Any]:
    classic = value.classic_member_metadata
    return {
        "instance_id": value.instance_id,
        "rack_id": value.rack_id,
        "client_id": value.client_id,
        "client_host": value.client_host,
        "topics": list(value.subscribed_topic_names),
        "regex": value.subscribed_topic_regex or None,
        "rebalance_timeout_ms": value.rebalance_timeout_ms,
        "assignor": value.server_assignor,
        "rest": None
        if classic == ClassicMemberMetadata()
        else to_text({"classicMemberMetadata": None if classic is None else as_json(classic, 0)}),
    }


def _who_in_share_group(value: Any) -> dict[str, Any]:
    return {
        "rack_id": value.rack_id,
        "client_id": value.client_id,
        "client_host": value.client_host,
        "topics": list(value.subscribed_topic_names),
    }


def _target(value: Any) -> dict[str, Any]:
    return {"assigned": _by_id(value.topic_partitions)}


def _current_in_consumer_group(value: Any) -> dict[str, Any]:
    epochs = {
        name: [list(topic.assignment_epochs) if topic.assignment_epochs is not None else None for topic in topics]
        for name, topics in (
            ("assignedPartitions", value.assigned_partitions),
            ("partitionsPendingRevocation", value.partitions_pending_revocation),
        )
        if any(topic.assignment_epochs is None or len(topic.assignment_epochs) for topic in topics)
    }
    return {
        **_current_in_share_group(value),
        "revoking": _by_id(value.partitions_pending_revocation),
        "rest": to_text({"assignmentEpochs": epochs}) if epochs else None,
    }


def _current_in_share_group(value: Any) -> dict[str, Any]:
    return {
        "generation": value.member_epoch,
        "previous": value.previous_member_epoch,
        "state": value.state,
        "assigned": _by_id(value.assigned_partitions),
    }


def _who_in_streams_group(value: Any) -> dict[str, Any]:
    """What such a member reads follows from the topology of the group (other_records, type 23)."""
    known = ("instanceId", "rackId", "clientId", "clientHost", "rebalanceTimeoutMs")
    return {
        "instance_id": value.instance_id,
        "rack_id": value.rack_id,
        "client_id": value.client_id,
        "client_host": value.client_host,
        "rebalance_timeout_ms": value.rebalance_timeout_ms,
        "rest": _rest(value, known),
    }


def _target_in_streams_group(value: Any) -> dict[str, Any]:
    """A member is assigned tasks, which are parts of the topology, and not partitions of topics."""
    return {"rest": _rest(value, ())}


def _current_in_streams_group(value: Any) -> dict[str, Any]:
    return {
        "generation": value.member_epoch,
        "previous": value.previous_member_epoch,
        "state": value.state,
        "rest": _rest(value, ("memberEpoch", "previousMemberEpoch", "state")),
    }


_TOLD: dict[int, Callable[[Any], dict[str, Any]]] = {
    5: _who_in_consumer_group,
    7: _target,
    8: _current_in_consumer_group,
    10: _who_in_share_group,
    13: _target,
    14: _current_in_share_group,
    19: _who_in_streams_group,
    21: _target_in_streams_group,
    22: _current_in_streams_group,
}


def _by_id(topics: Any) -> list[tuple[str | None, str, int]]:
    """Partitions of topics that are known by id only. Their names are filled in when the whole log has been read."""
    return [(None, uuid_text(topic.topic_id), partition) for topic in topics for partition in topic.partitions]


# --- small things ---------------------------------------------------------------------------------------------------


def _rest(value: Any, known: tuple[str, ...]) -> str | None:
    fields = {name: field for name, field in as_json(value, 0).items() if name not in known}
    return to_text(fields) if fields else None


def _version(value: bytes | None) -> int | None:
    return None if value is None else int.from_bytes(value[:2], "big", signed=True)


# --- record headers -------------------------------------------------------------------------------------------------


def header_bytes(headers: Headers, name: bytes) -> bytes | None:
    """The value of the last header of that name; None if there is none."""
    for found, value in reversed(headers):
        if found == name:
            return value
    return None


def header_text(headers: Headers, name: bytes) -> str | None:
    raw = header_bytes(headers, name)
    return None if raw is None else raw.decode("utf-8", "java")


def _int64(raw: bytes | None) -> int | None:
    """The number that a header has as decimal digits; None if it has something else."""
    digits = (raw or b"").removeprefix(b"-")
    if raw is None or not digits.isdigit() or len(digits) > 18:
        return None
    return int(raw)


def header_int32(headers: Headers, name: bytes) -> int | None:
    number = _int64(header_bytes(headers, name))
    return number if number is not None and -(2**31) <= number < 2**31 else None


# --- names of topics ------------------------------------------------------------------------------------------------

_GROUP_TYPE = schema("member_assignments").get_field_index("group_type")
_BY_ID = [schema("member_assignments").get_field_index(name) for name in ("assigned", "revoking")]


def unresolved(row: Row) -> set[str]:
    """Ids of topics in a row of member_assignments that have no name yet."""
    if row[_GROUP_TYPE] == "classic":
        return set()
    return {id_ for column in _BY_ID for topic, id_, _ in row[column] or () if topic is None}


def resolved(row: Row, names: Mapping[str, str]) -> Row:
    """The row with the names that are known."""
    changed = list(row)
    for column in _BY_ID:
        if row[column]:
            changed[column] = [(topic or names.get(id_), id_, partition) for topic, id_, partition in row[column]]
    return tuple(changed)
