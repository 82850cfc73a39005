"""range: each topic on its own is cut into slices, the first members getting one more where it does not divide."""

from __future__ import annotations

from kohort.audit.assignors.group import Assignment, Group


def range_assignor(group: Group) -> Assignment:
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
