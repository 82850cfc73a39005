"""range: each topic is cut into one slice per subscriber; the first slices are longer by one if it does not divide."""

from __future__ import annotations

from kohort.coordinator.assignors.group_spec import Assignment, GroupSpec


def range_assignor(group: GroupSpec) -> Assignment:
    assigned: Assignment = {member: [] for member in group.subscriptions}
    for topic in group.topics():
        subscribers = group.subscribers(topic)
        share, extra = divmod(group.partitions[topic], len(subscribers))
        start = 0
        for rank, member in enumerate(subscribers):
            end = start + share + (rank < extra)
            assigned[member] += [(topic, number) for number in range(start, end)]
            start = end
    return assigned
