"""The event of a classic group that has rebalanced, for the log and the metrics of the host.

A partition has moved if its owner is not the last one that it had since the group was last empty. So a partition that a
cooperative group revokes in one generation, and gives to another member in a later one, has moved once: in the later
generation. An owner is a static member's instance id, because that member comes back with other member ids, or else a
member id. The audit counts in the same way (history/moves.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.coordinator.classic.member import CONSUMER_PROTOCOL
from kohort.coordinator.events import Rebalanced
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.subscription import read_assignment

MAX_TOLD = 1_000  # characters of a cause or a name, which clients choose
MAX_COMPARED_BYTES = 200_000  # of assignments: 50,000 partitions, which takes some 8 ms
BYTES_OF_MEMBER = 100  # a member's assignment takes as long to read as so many bytes on top of its own
MAX_WITHOUT_OWNER = 10_000  # partitions whose last owner is remembered while they have none: some 1 MB

Owners = dict[str, dict[int, str]]  # topic: partition: owner
WithoutOwner = Owners | None  # the last owners; None: there are too many, or they could not be read

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
        slowest.member_id[:MAX_TOLD] if slowest is not None else "",
        now - group.join_phase_started,
        len(group.members),
        _moved(group, assignments) if group.protocol_type == CONSUMER_PROTOCOL else -1,
    )


def _moved(group: ClassicGroup, assignments: dict[str, bytes]) -> int:
    """How many partitions have moved; -1 if that cannot be read, or takes too long."""
    before = group.committed_assignments
    if not before:
        return 0
    members = group.members
    after = {members[member_id].instance_id or member_id: each for member_id, each in assignments.items()}
    lost = {owner: each for owner, each in before.items() if after.get(owner) != each}
    got = {owner: each for owner, each in after.items() if before.get(owner) != each}
    if not lost and not got:
        return 0
    known, group.without_owner = group.without_owner, None
    read_bytes = sum(map(len, lost.values())) + sum(map(len, got.values()))
    if read_bytes + BYTES_OF_MEMBER * (len(lost) + len(got)) > MAX_COMPARED_BYTES:
        return -1
    try:
        last_owners, owners = _owners(lost), _owners(got)
    except MalformedMessage:
        return -1
    for topic, partitions in (known or {}).items():
        last_owners[topic] = partitions | last_owners.get(topic, {})
    moved = 0
    for topic, partitions in owners.items():
        last = last_owners.get(topic, {})
        moved += sum([last.pop(partition, owner) != owner for partition, owner in partitions.items()])
    if sum(map(len, last_owners.values())) <= MAX_WITHOUT_OWNER:
        group.without_owner = {topic: partitions for topic, partitions in last_owners.items() if partitions}
    return -1 if known is None else moved


def _owners(assignments: dict[str, bytes]) -> Owners:
    owners: Owners = {}
    for owner, assignment in assignments.items():
        if assignment:
            for topic in read_assignment(assignment).assigned_partitions:
                owners.setdefault(topic.topic, {}).update(dict.fromkeys(topic.partitions, owner))
    return owners
