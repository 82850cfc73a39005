"""sticky: as even as can be, and within that as little moved as can be.

Where all members want the same topics, even means quotas: every member gets P // N partitions, and P % N members one
more. A member keeps what it had up to its quota, and what is then free is dealt in turn to those below theirs. Which of
several members with too much may keep one more changes neither how many move nor how even it is; Kafka leaves that to
the order of a hash map, we go by member id.

Where they want different topics, see unequal.py.
"""

from __future__ import annotations

from collections import Counter

from kohort.audit.assignors.group import Assignment, Group, Partition
from kohort.audit.assignors.unequal import balance_unequal


def sticky_assignor(group: Group) -> Assignment:
    owned = valid_claims(group)
    return _fill_quotas(group, owned) if group.same_subscription() else balance_unequal(group, owned)


def valid_claims(group: Group) -> Assignment:
    """What each member may go on from: partitions that exist and that it alone says it owned."""
    existing = set(group.all_partitions())
    claims = Counter(partition for member in group.subscriptions for partition in set(group.owned.get(member, ())))
    return {
        member: [p for p in dict.fromkeys(group.owned.get(member, ())) if claims[p] == 1 and p in existing]
        for member in sorted(group.subscriptions)
    }


def _fill_quotas(group: Group, owned: Assignment) -> Assignment:
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
    """In turn to those below the quota; when there are none left, one more to members that are exactly at it."""
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
