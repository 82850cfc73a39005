"""cooperative-sticky: as sticky, but what changes hands is left out until its owner has let go.

The owner gives it up when it sees the new assignment and joins again; that second rebalance hands it over.
"""

from __future__ import annotations

from dataclasses import replace

from kohort.audit.assignors.group import Assignment, Group, Partition
from kohort.audit.assignors.sticky import sticky_assignor

_ROUNDS = 8  # with different subscriptions, handing over may upset the balance once or twice more


def cooperative_sticky_assignor(group: Group) -> Assignment:
    """One rebalance: partitions that another member still owns are withheld."""
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


def settled(group: Group) -> Assignment:
    """What the group has when everything is handed over, most often after the second rebalance."""
    total = len(group.all_partitions())
    for _ in range(_ROUNDS):
        assigned = cooperative_sticky_assignor(group)
        if sum(map(len, assigned.values())) == total:
            return assigned
        group = replace(group, owned=assigned)
    return sticky_assignor(group)
