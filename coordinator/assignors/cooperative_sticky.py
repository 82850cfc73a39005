"""cooperative-sticky: like sticky, but a partition that changes hands is left out until its owner has revoked it.

The owner revokes the partition when it sees the new assignment, and joins again. That second rebalance assigns the
partition to its new owner.
"""

from __future__ import annotations

from dataclasses import replace

from kohort.coordinator.assignors.group_spec import Assignment, GroupSpec, Partition
from kohort.coordinator.assignors.sticky import sticky_assignor

_ROUNDS = 8  # if subscriptions differ, a second rebalance may move further partitions, and need a third or a fourth


def cooperative_sticky_assignor(group: GroupSpec) -> Assignment:
    """Assign as sticky does, without the partitions that another member still owns."""
    equal = group.same_subscription()
    owners: dict[Partition, list[str]] = {}
    for member in group.subscriptions:
        for partition in group.owned.get(member, ()):
            owners.setdefault(partition, []).append(member)

    def withheld(partition: Partition, taker: str) -> bool:
        claimed_by = owners.get(partition, ())
        if taker in claimed_by and not (equal and len(claimed_by) > 1):
            return False
        return any(member != taker for member in claimed_by)

    return {
        member: [partition for partition in partitions if not withheld(partition, member)]
        for member, partitions in sticky_assignor(group).items()
    }


def settled(group: GroupSpec) -> Assignment:
    """Rebalance until every partition has its new owner, most often twice, and return the last assignment."""
    total = len(group.all_partitions())
    for _ in range(_ROUNDS):
        assigned = cooperative_sticky_assignor(group)
        if sum(map(len, assigned.values())) == total:
            return assigned
        group = replace(group, owned=assigned)
    return sticky_assignor(group)
