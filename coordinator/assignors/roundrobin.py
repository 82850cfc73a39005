"""roundrobin: members take the partitions of all topics in turn; a member not subscribed to the topic is skipped."""

from __future__ import annotations

from kohort.coordinator.assignors.group_spec import Assignment, GroupSpec


def roundrobin_assignor(group: GroupSpec) -> Assignment:
    members = group.members()
    assigned: Assignment = {member: [] for member in members}
    turn = 0
    for topic, number in group.all_partitions():
        while topic not in group.subscriptions[members[turn]]:
            turn = (turn + 1) % len(members)
        assigned[members[turn]].append((topic, number))
        turn = (turn + 1) % len(members)
    return assigned
