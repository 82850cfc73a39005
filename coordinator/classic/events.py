"""What the host should tell about a rebalance: one line in its log, a few counters."""

from __future__ import annotations

from typing import NamedTuple

from kohort.coordinator.classic.group import CONSUMER, ClassicGroup
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.subscription import read_assignment


class Rebalanced(NamedTuple):
    group: str
    generation: int
    cause: str
    trigger: str  # who caused it
    slowest: str  # who rejoined last; nobody if they are all gone
    duration_ms: int  # from the cause to the assignment
    members: int
    moved: int  # partitions that have another owner than before; -1 if the assignments cannot be read


def rebalanced(group: ClassicGroup, assignments: dict[str, bytes], now: int) -> Rebalanced:
    slowest = max(group.members.values(), key=lambda member: member.joined_at, default=None)
    return Rebalanced(
        group.group_id,
        group.generation,
        group.cause,
        group.trigger,
        slowest.member_id if slowest is not None else "",
        now - group.join_phase_started,
        len(group.members),
        _moved(group.committed_assignments, assignments) if group.protocol_type == CONSUMER else -1,
    )


def _moved(before: dict[str, bytes], after: dict[str, bytes]) -> int:
    try:
        owned_before, owned_after = _owners(before), _owners(after)
    except MalformedMessage:
        return -1
    return sum(1 for place, owner in owned_after.items() if owned_before.get(place, owner) != owner)


def _owners(assignments: dict[str, bytes]) -> dict[tuple[str, int], str]:
    owners = {}
    for member_id, assignment in assignments.items():
        if assignment:
            for topic in read_assignment(assignment).assigned_partitions:
                for partition in topic.partitions:
                    owners[topic.topic, partition] = member_id
    return owners
