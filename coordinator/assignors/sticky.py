"""sticky: the most even assignment, and among those the one that moves the fewest partitions.

If all N members subscribe to the same topics with P partitions, each member has a quota of P // N partitions, and P % N
members get one more. A member keeps its partitions up to its quota; free partitions are dealt in turn to the members
below their quota. Several members may have more than the quota, and only some of them may keep one more. That choice
changes neither the number of moves nor the balance: Kafka leaves it to the order of a hash map, we go by member id.

If members subscribe to different topics, unequal.py does the work.
"""

from __future__ import annotations

from collections import Counter

from kohort.coordinator.assignors.group_spec import Assignment, GroupSpec, Partition
from kohort.coordinator.assignors.unequal import balance_unequal


def sticky_assignor(group: GroupSpec) -> Assignment:
    owned = valid_claims(group)
    return _fill_quotas(group, owned) if group.same_subscription() else balance_unequal(group, owned)


def valid_claims(group: GroupSpec) -> Assignment:
    """The partitions each member may keep: those that exist and that no other member claims to own as well."""
    existing = set(group.all_partitions())
    claims = Counter(partition for member in group.subscriptions for partition in set(group.owned.get(member, ())))
    return {
        member: [p for p in dict.fromkeys(group.owned.get(member, ())) if claims[p] == 1 and p in existing]
        for member in sorted(group.subscriptions)
    }


def _fill_quotas(group: GroupSpec, owned: Assignment) -> Assignment:
    if not owned:
        return {}
    everything = group.all_partitions()
    quota, extra = divmod(len(everything), len(owned))
    assigned: Assignment = {}
    for member, had in owned.items():
        larger = extra > 0 and len(had) > quota
        extra -= larger
        assigned[member] = sorted(had, key=_by_number)[: quota + larger]
    kept = {partition for partitions in assigned.values() for partition in partitions}
    _deal([partition for partition in everything if partition not in kept], assigned, quota)
    return assigned


def _deal(free: list[Partition], assigned: Assignment, quota: int) -> None:
    """Deal `free` in turn to the members below the quota, then one partition each to members that are exactly at it."""
    below = [member for member, partitions in assigned.items() if len(partitions) < quota]
    at_quota = [member for member, partitions in assigned.items() if len(partitions) == quota]
    partitions = iter(free)
    while below:
        for member in below:
            assigned[member].append(next(partitions))
        at_quota += [member for member in below if len(assigned[member]) == quota]
        below = [member for member in below if len(assigned[member]) < quota]
    for member, partition in zip(at_quota, partitions, strict=False):
        assigned[member].append(partition)


def _by_number(partition: Partition) -> tuple[int, str]:
    return partition[1], partition[0]
