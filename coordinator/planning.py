"""What the planning of targets has in common for all groups whose coordinator assigns (KIP-848, KIP-932).

The target of a small group is computed at once by the heartbeat that asks for it. That of a large group is computed in
pieces between other requests.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from kohort.coordinator.api import Steps, in_slices
from kohort.coordinator.assignors.java_order import (
    USUAL_CAPACITY,
    JavaMap,
    grown_capacity,
    hash_of_text,
    map_slot,
    timeline_order_of,
    timeline_slot,
)
from kohort.coordinator.assignors.server_side import TOPICS_IN_STEP, Target, Targets
from kohort.coordinator.partitioner import java_hash

SMALL_GROUP = 500  # members and partitions together: the target of a smaller group takes a few milliseconds
UINT32 = 0xFFFFFFFF
STEPS_IN_PIECE = 200  # of an assignor, between two requests
RECORDS_IN_PIECE = 500
BYTES_OF_RECORD, BYTES_OF_TOPIC = 200, 25  # of a target's record, without ids and partitions
MAX_PARTITIONS_IN_PIECE = 2_000  # of targets that are written together, where a topic counts as one more
MEMBERS_IN_STEP = 5  # of the work before the assignor: five members take about as long as one step of an assignor


def members_in_order(members: Collection[str], known_capacity: int, changes: Mapping[str, bool]) -> Steps[list[str]]:
    """The members, in the order in which Kafka's assignors go through them.

    Kafka copies its members into a HashMap and makes the changes there: True for a member that comes or has changed,
    False for one that goes. It keeps the changes in a HashMap as well, whose order says which comes first. If a full
    map gets a member before it loses another one, it grows, and then all its members have another order.
    `known_capacity`: of the map that Kafka copies.
    """
    in_java_order: JavaMap[str, bool] = JavaMap(hash_of_text)
    for member_id, is_there in changes.items():
        in_java_order.put(member_id, is_there)
    count = most = len(members)
    for member_id, is_there in in_java_order.items():
        count += is_there - (member_id in members)
        most = max(most, count)
    capacity = grown_capacity(USUAL_CAPACITY, most)  # of the HashMap
    known: dict[str, int] = {}  # slots of the members, in the map that Kafka copies
    slots: dict[str, int] = {}  # in the HashMap
    mask = capacity - 1
    for some in in_slices(members, MEMBERS_IN_STEP):
        for member_id in some:
            hashed = java_hash(member_id)
            known[member_id] = timeline_slot(hashed, known_capacity)
            slots[member_id] = (hashed ^ (hashed & UINT32) >> 16) & mask  # as map_slot, without a call
        yield
    order = timeline_order_of(known)
    for member_id, is_there in changes.items():
        if not is_there:
            order.remove(member_id)
        elif member_id not in members:
            order.append(member_id)
            slots[member_id] = map_slot(hash_of_text(member_id), capacity)
    return sorted(order, key=slots.__getitem__)


def changed_targets(before: Mapping[str, Target], after: Targets) -> Steps[Targets]:
    changed: Targets = {}
    for some in in_slices(after.items(), MEMBERS_IN_STEP):
        for member_id, target in some:
            known = before.get(member_id)
            if known is None or (known is not target and not (yield from _same(known, target))):
                changed[member_id] = target
        yield
    return changed


def _same(one: Target, other: Target) -> Steps[bool]:
    if one.keys() != other.keys():
        return False
    for some in in_slices(one, TOPICS_IN_STEP):
        if any(set(one[topic]) != set(other[topic]) for topic in some):
            return False
        if len(some) == TOPICS_IN_STEP:
            yield
    return True


def most_bytes(changed: tuple[str, Target]) -> int:
    """A batch with the record of this target has at most so many bytes."""
    member_id, target = changed
    return 4 * len(member_id) + BYTES_OF_RECORD + sum(BYTES_OF_TOPIC + 4 * len(each) for each in target.values())


def together(changed: Targets) -> Iterator[list[tuple[str, Target]]]:
    """The targets, as many at a time as one piece of work can write."""
    some: list[tuple[str, Target]] = []
    size = 0
    for member_id, target in changed.items():
        some.append((member_id, target))
        size += len(target) + sum(map(len, target.values()))
        if len(some) >= RECORDS_IN_PIECE or size >= MAX_PARTITIONS_IN_PIECE:
            yield some
            some, size = [], 0
    if some:
        yield some
