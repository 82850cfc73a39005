"""What one request of a member changes in its group: gathered by member_update.py, then written and replayed.

There are two ways to write it. `records` lists the records one by one, as for every other kind of change. The usual
changes are packed by hand, and replayed without decoding what was just packed: when many members join at once, that is
a large part of the work. Both ways make the same bytes and the same group; a test compares them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from kohort.coordinator.consumer.records import (
    current_assignment_record,
    group_epoch_record,
    member_record,
    partition_metadata_tombstone,
    regex_tombstone,
    target_epoch_record,
    target_records,
)
from kohort.coordinator.outcome import AtomicRecords, Headers, LogEntry, PackedRecords, Record, StepRecords
from kohort.coordinator.record_codec import batch_bytes
from kohort.protocol.consumer_group_record import (
    GROUP_EPOCH_KEY,
    MEMBER_KEY,
    TARGET_KEY,
    assignment_fields,
    group_epoch_value,
    member_value,
    pack_name,
    target_value,
)
from kohort.protocol.log_records import encode_key, encode_value
from kohort.protocol.record_batch import BATCH_HEADER_BYTES, NO_HEADERS, encode_fields

if TYPE_CHECKING:
    from kohort.coordinator.assignors.server_side import Targets
    from kohort.coordinator.consumer.group import ConsumerGroup
    from kohort.coordinator.consumer.member import ConsumerMember
    from kohort.coordinator.rebalance import Rebalance

FEW_TOPICS = 20

_remembered_value = lru_cache(maxsize=16)(member_value)  # members that join together say the same about themselves

Why = tuple["Rebalance", str, str]  # the rebalance that a new group epoch is part of, the cause and the trigger

MOST_BYTES_OF_A_START = BATCH_HEADER_BYTES + 12  # of a batch, and of a record up to its fields


class Changes:
    __slots__ = (
        "_group", "described", "ends_old_metadata", "epoch", "first", "metadata_hash", "moved",
        "target_epoch", "targets", "unused_regex", "wall_ms", "why",
    )  # fmt: skip

    def __init__(self, group: ConsumerGroup, first: list[Record]) -> None:
        self._group = group
        self.first = first  # end the empty group that is replaced, or put a static member in the place of another one
        self.described: ConsumerMember | None = None  # the member says something else about itself
        self.unused_regex: str | None = None  # nobody uses this regular expression any more
        self.epoch: int | None = None  # the group epoch is bumped: these three are set
        self.metadata_hash = 0
        self.why: Why | None = None  # None: the log has no headers
        self.ends_old_metadata = False  # see ConsumerGroup.has_old_metadata_record
        self.targets: Targets | None = None  # those that changed in a new target: these three are set
        self.target_epoch = 0
        self.wall_ms = 0
        self.moved: ConsumerMember | None = None  # the member has another state, epoch or assignment

    def entries(self, converted: PackedRecords | None, replacing: int, max_bytes: int) -> list[LogEntry] | None:
        """The changes as one batch if they fit into one. None: a single record is too large for any.

        `replacing`: so many of the first records end an empty group.
        """
        if converted is None and not self.first and (step := self._as_step(max_bytes)) is not None:
            return [step] if step.fields else []
        before: list[LogEntry] = [] if converted is None else [converted]
        records = self.records()
        sizes = [batch_bytes(record) for record in records] or [0]
        if max(sizes) > max_bytes:
            return None
        if sum(sizes) <= max_bytes:
            return [*before, AtomicRecords(records)] if records else before
        if sum(sizes[:replacing]) > max_bytes:
            return None  # a group is replaced as a whole or not at all
        return [*before, *([AtomicRecords(records[:replacing])] if replacing else []), *records[replacing:]]

    # --- one by one

    def records(self) -> list[Record]:
        """All records, in Kafka's order."""
        group_id, made = self._group.group_id, list(self.first)
        if self.described is not None:
            made.append(member_record(group_id, self.described))
        if self.unused_regex is not None:
            made.append(regex_tombstone(group_id, self.unused_regex))
        if self.epoch is not None:
            made.append(group_epoch_record(group_id, self.epoch, self.metadata_hash, self._headers()))
        if self.ends_old_metadata:
            made.append(partition_metadata_tombstone(group_id))
        if self.targets is not None:
            made += target_records(group_id, self.targets, self.target_epoch, self.wall_ms)
        if self.moved is not None:
            made.append(current_assignment_record(group_id, self.moved))
        return made

    def _headers(self) -> Headers:
        return () if self.why is None else self.why[0].headers(*self.why[1:])

    # --- all at once

    def _as_step(self, max_bytes: int) -> StepRecords | None:
        """None: they must be written one by one, because they are unusual, or may be too large for a batch."""
        is_unusual = self.unused_regex is not None or self.ends_old_metadata
        if is_unusual or (self.described is not None and self.described.classic is not None):
            return None
        fields = self._packed()
        return StepRecords(fields, self.replay) if fits(fields, max_bytes) else None

    def _packed(self) -> list[bytes]:
        group, fields = self._group, []
        if self.described is not None:
            fields.append(packed_member(packed_names(group, self.described), self.described))
        if self.epoch is not None:
            fields.append(packed_epoch(group, self.epoch, self.metadata_hash, self.why))
        if self.targets is not None:
            fields += packed_targets(group, self.targets, self.target_epoch, self.wall_ms)
        if self.moved is not None:
            fields.append(packed_assignment(packed_names(group, self.moved), self.moved))
        return fields

    def replay(self) -> None:
        """Change the group as the replay of the records would."""
        group = self._group
        group.take_member(self.described, self.moved)
        if self.epoch is not None:
            group.enter_epoch(self.epoch, self.metadata_hash)
        if self.targets is not None:
            group.take_targets(self.targets, self.target_epoch, self.wall_ms)


# --- the fields of records, packed


def fits(fields: list[bytes], max_bytes: int) -> bool:
    """Whether all these records fit into one batch in any case."""
    return sum(map(len, fields)) + MOST_BYTES_OF_A_START * len(fields) <= max_bytes


def packed_names(group: ConsumerGroup, member: ConsumerMember) -> bytes:
    """Group and member, as they stand in the keys of the member's records."""
    return member.packed_names or group.packed_name + pack_name(member.member_id)


def packed_member(names: bytes, member: ConsumerMember) -> bytes:
    """Of a member that speaks KIP-848."""
    pack = _remembered_value if len(member.topic_names) <= FEW_TOPICS else member_value
    value = pack(
        member.instance_id, member.rack_id, member.client_id, member.client_host, member.topic_names,
        member.topic_regex, member.rebalance_timeout_ms, member.server_assignor,
    )  # fmt: skip
    return encode_fields(MEMBER_KEY + names, value, NO_HEADERS)


def packed_epoch(group: ConsumerGroup, epoch: int, metadata_hash: int, why: Why | None) -> bytes:
    headers = NO_HEADERS if why is None else why[0].packed_headers(*why[1:])
    return encode_fields(GROUP_EPOCH_KEY + group.packed_name, group_epoch_value(epoch, metadata_hash), headers)


def packed_targets(group: ConsumerGroup, targets: Targets, epoch: int, wall_ms: int) -> list[bytes]:
    known, start = group.members, TARGET_KEY + group.packed_name
    fields = []
    for member_id, target in targets.items():
        names = known[member_id].packed_names if member_id in known else b""
        place = TARGET_KEY + names if names else start + pack_name(member_id)
        fields.append(encode_fields(place, target_value(target), NO_HEADERS))
    kind, key, value, _, _ = target_epoch_record(group.group_id, epoch, wall_ms)
    fields.append(encode_fields(encode_key(kind, key), encode_value(kind, value), NO_HEADERS))
    return fields


def packed_assignment(names: bytes, member: ConsumerMember) -> bytes:
    return assignment_fields(
        names, member.epoch, member.previous_epoch, member.state, member.assigned, member.pending_revocation
    )
