"""range (KIP-848): each topic is cut into one slice per subscriber. Members that had partitions get no preference.

The first slices are longer by one if the partitions cannot be shared out evenly. Topics with equally many partitions
are cut at the same places, so that a member gets the same numbers of each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kohort.coordinator.api import Steps, in_slices
from kohort.coordinator.assignors.java_order import JavaMap, capacity_for, hash_of_uuid
from kohort.coordinator.assignors.server_side import (
    TOPICS_IN_STEP,
    Assigning,
    ServerGroup,
    Target,
    Targets,
    TopicId,
    as_many_steps,
)


def assign_ranges(group: ServerGroup) -> Assigning:
    subscribers: Counter[TopicId] = Counter()
    for member in group.members.values():
        subscribers.update(member.topics)
        yield from as_many_steps(len(member.topics))
        yield
    slices = {topic: _Slices(group.partition_counts[topic], count) for topic, count in subscribers.items()}
    targets: Targets = {}
    for member_id in _ranked(group):
        targets[member_id] = yield from _target(group.members[member_id].topics, slices)
        yield
    return targets


def _target(topics: Sequence[TopicId], slices: dict[TopicId, _Slices]) -> Steps[Target]:
    target: JavaMap[TopicId, range] = JavaMap(hash_of_uuid, capacity_for(int(len(topics) / 0.75) + 1))
    for some in in_slices(topics, TOPICS_IN_STEP):
        for topic in some:
            if taken := slices[topic].next():
                target.put(topic, taken)
        if len(some) == TOPICS_IN_STEP:
            yield
    in_order = yield from target.keys_in_steps()
    return {topic: target.entries[topic] for topic in in_order}


def _ranked(group: ServerGroup) -> list[str]:
    """Static members first, by instance id, which survives a restart; then the other members, by member id."""

    def rank(member_id: str) -> tuple[bool, bytes]:
        instance_id = group.members[member_id].instance_id
        named = (True, member_id) if instance_id is None else (False, instance_id)
        return named[0], named[1].encode("utf-16-be", "surrogatepass")  # as Java compares strings

    return sorted(group.members, key=rank)


class _Slices:
    """The slices of a topic that are still to be given away."""

    __slots__ = ("_extra", "_share", "_start")

    def __init__(self, partitions: int, subscribers: int) -> None:
        self._share, self._extra = divmod(partitions, subscribers)
        self._start = 0

    def next(self) -> range:
        start = self._start
        self._start += self._share + (self._extra > 0)
        self._extra -= self._extra > 0
        return range(start, self._start)
