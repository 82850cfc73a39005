"""What there is to tell about a rebalance of a classic group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.coordinator.classic.member import CONSUMER_PROTOCOL
from kohort.coordinator.events import Rebalanced
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.subscription import read_assignment

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
        slowest.member_id if slowest is not None else "",
        now - group.join_phase_started,
        len(group.members),
        _moved(group.committed_assignments, assignments) if group.protocol_type == CONSUMER_PROTOCOL else -1,
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
