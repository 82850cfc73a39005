"""uniform (KIP-848), if all members subscribe to the same topics: everybody gets the same number of partitions, or one
more, and keeps as many as possible of those that it had.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import islice

from kohort.coordinator.assignors.java_order import USUAL_CAPACITY, JavaMap, capacity_of_copy, hash_of_uuid
from kohort.coordinator.assignors.server_side import (
    Assigning,
    Draft,
    ServerGroup,
    Targets,
    TopicId,
    in_java_order,
)
from kohort.coordinator.assignors.uniform_unequal import assign_uniformly_unequal


def assign_uniformly(group: ServerGroup) -> Assigning:
    if group.has_equal_subscriptions:
        return (yield from _Equal(group).assign())
    return (yield from assign_uniformly_unequal(group))


class _Equal:
    def __init__(self, group: ServerGroup) -> None:
        self._group = group
        self._topics = _as_a_set(next(iter(group.members.values())).topics) if group.members else []
        self._subscribed = frozenset(self._topics)
        self._free: list[tuple[TopicId, int]] = []  # partitions, in the order in which they are given away
        self._drafts: dict[str, Draft] = {}  # of the members whose targets change
        self._unfilled: list[tuple[str, int]] = []  # member id, number of partitions that it has still to get

    def assign(self) -> Assigning:
        if not self._topics:
            return {}
        yield from self._find_free_partitions()
        yield from self._keep()
        yield from self._fill()
        targets: Targets = {}
        for member_id, member in self._group.members.items():
            draft = self._drafts.get(member_id)
            targets[member_id] = member.target if draft is None else draft.target()
            yield
        return targets

    def _find_free_partitions(self) -> Generator[None]:
        taken: dict[TopicId, set[int]] = {}
        for member in self._group.members.values():
            for topic, partitions in member.target.items():
                taken.setdefault(topic, set()).update(partitions)
            yield
        for topic in self._topics:
            owned = taken.get(topic, ())
            self._free += [(topic, each) for each in range(self._group.partition_counts[topic]) if each not in owned]
            yield

    def _keep(self) -> Generator[None]:
        """Every member keeps what it had, up to its quota. Partitions above the quota are free for others."""
        total = sum(self._group.partition_counts[topic] for topic in self._topics)
        share, extra = divmod(total, len(self._group.members))
        for rank, member_id in enumerate(self._group.members):
            may_have_extra = extra > 0
            missing = self._keep_up_to(share + may_have_extra, member_id)
            if may_have_extra and missing > 0 and len(self._group.members) - rank > extra:
                missing -= 1  # a later member may have the extra partition already, and there are enough of them
                may_have_extra = False
            extra -= may_have_extra
            if missing > 0:
                self._unfilled.append((member_id, missing))
            yield

    def _keep_up_to(self, quota: int, member_id: str) -> int:
        """Take from the member what is above its quota. Returns how many partitions are missing."""
        for topic, partitions in in_java_order(self._group.members[member_id].target):
            if topic not in self._subscribed:
                self._draft(member_id).remove_topic(topic)
                continue
            surplus = partitions[quota:]
            quota -= len(partitions) - len(surplus)
            for partition in surplus:
                self._draft(member_id).remove(topic, partition)
                self._free.append((topic, partition))
        return quota

    def _fill(self) -> Generator[None]:
        free = iter(self._free)
        for member_id, missing in self._unfilled:
            draft = self._draft(member_id)
            for topic, partition in islice(free, missing):
                draft.add(topic, partition, USUAL_CAPACITY)
            yield

    def _draft(self, member_id: str) -> Draft:
        draft = self._drafts.get(member_id)
        if draft is None:
            draft = self._drafts[member_id] = Draft(self._group.members[member_id].target)
        return draft


def _as_a_set(topics: Sequence[TopicId]) -> list[TopicId]:
    """The topics in the order of a HashSet that was made from them."""
    found: JavaMap[TopicId, None] = JavaMap(hash_of_uuid, capacity_of_copy(len(topics)))
    for topic in topics:
        found.put(topic, None)
    return found.keys()
