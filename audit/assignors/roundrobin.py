"""roundrobin: all partitions of all topics are dealt in turn; who does not want the topic is passed over."""

from __future__ import annotations

from kohort.audit.assignors.group import Assignment, Group


def roundrobin_assignor(group: Group) -> Assignment:
    members = group.members()
    assigned: Assignment = {member: [] for member in members}
    turn = 0
    for topic, number in group.all_partitions():
        while topic not in group.subscriptions[members[turn]]:
            turn = (turn + 1) % len(members)
        assigned[members[turn]].append((topic, number))
        turn = (turn + 1) % len(members)
    return assigned
