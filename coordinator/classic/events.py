"""The event of a classic group that has rebalanced, for the log and the metrics of the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.coordinator.classic.member import CONSUMER_PROTOCOL
from kohort.coordinator.events import Rebalanced
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.subscription import read_assignment

MAX_TOLD = 1_000  # characters of a cause or a name, which clients choose
MAX_COMPARED_BYTES = 200_000  # of assignments: 50,000 partitions, which takes some 8 ms
BYTES_OF_MEMBER = 100  # a member's assignment takes as long to read as so many bytes on top of its own

if TYPE_CHECKING:
    from kohort.coordinator.classic.group import ClassicGroup


def rebalanced(group: ClassicGroup, assignments: dict[str, bytes], now: int) -> Rebalanced:
    """`now` is shard time."""
    slowest = max(group.members.values(), key=lambda member: member.joined_at, default=None)
    return Rebalanced(
        group.group_id,
        group.generation,
        group.cause,
        group.trigger,
        slowest.member_id[:MAX_TOLD] if slowest is not None else "",
        now - group.join_phase_started,
        len(group.members),
        _moved(group.committed_assignments, assignments) if group.protocol_type == CONSUMER_PROTOCOL else -1,
    )


def _moved(before: dict[str, bytes], after: dict[str, bytes]) -> int:
    """How many partitions have another owner now; -1 if that cannot be read, or takes too long."""
    if not before:
        return 0
    lost = {member_id: each for member_id, each in before.items() if after.get(member_id) != each}
    got = {member_id: each for member_id, each in after.items() if before.get(member_id) != each}
    read_bytes = sum(map(len, lost.values())) + sum(map(len, got.values()))
    if read_bytes + BYTES_OF_MEMBER * (len(lost) + len(got)) > MAX_COMPARED_BYTES:
        return -1
    try:
        owned_before, owned_after = _owners(lost), _owners(got)
    except MalformedMessage:
        return -1
    moved = 0
    for topic, owners in owned_after.items():
        known = owned_before.get(topic, {})
        moved += sum([known.get(partition, owner) != owner for partition, owner in owners.items()])
    return moved


def _owners(assignments: dict[str, bytes]) -> dict[str, dict[int, str]]:
    """By topic and partition."""
    owners: dict[str, dict[int, str]] = {}
    for member_id, assignment in assignments.items():
        if assignment:
            for topic in read_assignment(assignment).assigned_partitions:
                owners.setdefault(topic.topic, {}).update(dict.fromkeys(topic.partitions, member_id))
    return owners
