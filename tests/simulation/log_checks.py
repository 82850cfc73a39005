"""What must hold of the records of consumer groups in the log, whatever the coordinator keeps in memory.

The log is read by rules of its own: those by which Apache Kafka loads it, and those of the protocol. A batch is whole
or not there, so everything is compared at the end of a batch.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from kohort.protocol.log_records import (
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    CONSUMER_GROUP_MEMBER_METADATA,
    CONSUMER_GROUP_METADATA,
    CONSUMER_GROUP_RECORDS,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA,
    decode_key,
    decode_value,
)
from kohort.protocol.record_batch import read_records

STABLE, STATIC_LEAVE = 0, -2

Place = tuple[bytes, int]


class GroupInLog:
    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = self.assignment_epoch = -1  # the first generation of a classic group is 0
        self.members: dict[str, Any] = {}
        self.current: dict[str, Any] = {}
        self.targets: dict[str, set[Place]] = {}
        self.in_force: dict[
            str, set[Place]
        ] = {}  # targets of the assignment epoch: those of a later one come before it

    def read(self, kind: int, key: Any, value: Any) -> None:
        match kind:
            case x if x == CONSUMER_GROUP_METADATA:
                assert value.epoch > self.epoch, f"group epoch {value.epoch} comes after {self.epoch}"
                self.epoch = value.epoch
            case x if x == CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA:
                self._read_assignment_epoch(value)
            case x if x == CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER:
                self._read_target(key.member_id, value)
            case x if x == CONSUMER_GROUP_MEMBER_METADATA:
                self._read_member(key.member_id, value)
            case x if x == CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT:
                self._read_current(key.member_id, value)

    def _read_assignment_epoch(self, value: Any) -> None:
        if value is None:
            self.assignment_epoch = -1
            return
        assert self.assignment_epoch < value.assignment_epoch <= self.epoch, (
            f"assignment epoch {value.assignment_epoch} comes after {self.assignment_epoch}, in epoch {self.epoch}"
        )
        self.assignment_epoch = value.assignment_epoch
        self.in_force = dict(self.targets)

    def _read_target(self, member_id: str, value: Any) -> None:
        if value is None:
            self.targets.pop(member_id, None)
            self.in_force.pop(member_id, None)
        else:
            self.targets[member_id] = places(value.topic_partitions)
            self.in_force.setdefault(member_id, self.targets[member_id])  # of a static member under a new id

    def _read_member(self, member_id: str, value: Any) -> None:
        if value is not None:
            self.members[member_id] = value
            return
        self.members.pop(member_id, None)
        assert member_id not in self.current, f"{member_id} ends before its assignment: Kafka cannot load that"
        assert member_id not in self.targets, f"{member_id} ends before its target: Kafka cannot load that"

    def _read_current(self, member_id: str, value: Any) -> None:
        before = self.current.pop(member_id, None)
        if value is None:
            return
        assert member_id in self.members, f"{member_id} has partitions before it is a member"
        if before is not None and before.member_epoch >= 0 and value.member_epoch >= 0:
            assert value.member_epoch >= before.member_epoch, f"the epoch of {member_id} falls"
        self.current[member_id] = value

    def end(self) -> None:
        """The tombstone of the group."""
        left = [*self.members, *self.current, *self.targets]
        assert not left, f"{self.group_id} ends before {left}: Kafka cannot load that"

    def check(self) -> None:
        """At the end of a batch."""
        owners: Counter[Place] = Counter()
        for member_id, value in self.current.items():
            assigned, pending = places(value.assigned_partitions), places(value.partitions_pending_revocation)
            owners.update(assigned | pending)
            assert value.member_epoch <= max(self.assignment_epoch, 1), f"{member_id} is ahead of all targets"
            if value.state == STABLE and value.member_epoch == self.assignment_epoch:
                more = assigned - self.in_force.get(member_id, set())
                assert not more, f"{member_id} has {len(more)} partitions that are not in its target"
        twice = [place for place, count in owners.items() if count > 1]
        assert not twice, f"{len(twice)} partitions of {self.group_id} belong to two members"


def places(topics: Any) -> set[Place]:
    return {(topic.topic_id, partition) for topic in topics for partition in topic.partitions}


class LogWatch:
    """Reads one partition of the log, batch by batch."""

    def __init__(self) -> None:
        self.read_count = 0
        self.groups: dict[str, GroupInLog] = {}

    def read(self, log: list[bytes]) -> list[bytes]:
        """Returns the new batches."""
        new, self.read_count = log[self.read_count :], len(log)
        for batch in new:
            for record in read_records(batch):
                assert record.key is not None
                kind, key = decode_key(record.key)
                if kind in CONSUMER_GROUP_RECORDS:
                    self._read(kind, key, None if record.value is None else decode_value(kind, record.value))
            for group in self.groups.values():
                group.check()
        return new

    def _read(self, kind: int, key: Any, value: Any) -> None:
        if kind == CONSUMER_GROUP_METADATA and value is None:
            if (ended := self.groups.pop(key.group_id, None)) is not None:
                ended.end()
            return
        group = self.groups.get(key.group_id)
        if group is None:
            if value is None:
                return
            group = self.groups[key.group_id] = GroupInLog(key.group_id)
        group.read(kind, key, value)
