"""uniform (KIP-848), if all members subscribe to the same topics: everybody gets the same number of partitions, or one
more, and keeps as many as possible of those that it had.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from kohort.coordinator.api import Steps, in_slices
from kohort.coordinator.assignors.java_order import (
    FEW_NUMBERS,
    USUAL_CAPACITY,
    JavaMap,
    JavaNumbers,
    capacity_of_copy,
    hash_of_uuid,
    order_of_few,
)
from kohort.coordinator.assignors.server_side import (
    TOPICS_IN_STEP,
    Assigning,
    Draft,
    ServerGroup,
    Targets,
    TopicId,
    as_many_steps,
    in_java_order_in_steps,
)
from kohort.coordinator.assignors.uniform_unequal import assign_uniformly_unequal


def assign_uniformly(group: ServerGroup) -> Assigning:
    if group.has_equal_subscriptions:
        return (yield from _Equal(group).assign())
    return (yield from assign_uniformly_unequal(group))


class _Equal:
    def __init__(self, group: ServerGroup) -> None:
        self._group = group
        self._topics: list[TopicId] = []
        self._subscribed: frozenset[TopicId] = frozenset()
        self._free: list[tuple[TopicId, int]] = []  # partitions, in the order in which they are given away
        self._drafts: dict[str, Draft] = {}  # of the members whose targets change
        self._unfilled: list[tuple[str, int]] = []  # member id, number of partitions that it has still to get

    def assign(self) -> Assigning:
        first = next(iter(self._group.members.values()), None)
        if first is None or not first.topics:
            return {}
        self._topics = yield from _as_a_set(first.topics)
        self._subscribed = frozenset(self._topics)
        yield from self._find_free_partitions()
        yield from self._keep()
        yield from self._fill()
        targets: Targets = {}
        for member_id, member in self._group.members.items():
            draft = self._drafts.get(member_id)
            targets[member_id] = member.target if draft is None else (yield from draft.target_in_steps())
            yield
        return targets

    def _find_free_partitions(self) -> Steps[None]:
        taken: dict[TopicId, set[int]] = {}
        for member in self._group.members.values():
            for some in in_slices(member.target.items(), TOPICS_IN_STEP):
                for topic, partitions in some:
                    taken.setdefault(topic, set()).update(partitions)
                if len(some) == TOPICS_IN_STEP:
                    yield
            yield
        for topic in self._topics:
            owned = taken.get(topic, ())
            count = self._group.partition_counts[topic]
            self._free += [(topic, each) for each in range(count) if each not in owned]
            yield from as_many_steps(count)
            yield

    def _keep(self) -> Steps[None]:
        """Every member keeps what it had, up to its quota. Partitions above the quota are free for others."""
        total = sum(self._group.partition_counts[topic] for topic in self._topics)
        share, extra = divmod(total, len(self._group.members))
        for rank, member_id in enumerate(self._group.members):
            may_have_extra = extra > 0
            missing = yield from self._keep_up_to(share + may_have_extra, member_id)
            if may_have_extra and missing > 0 and len(self._group.members) - rank > extra:
                missing -= 1  # a later member may have the extra partition already, and there are enough of them
                may_have_extra = False
            extra -= may_have_extra
            if missing > 0:
                self._unfilled.append((member_id, missing))
            yield

    def _keep_up_to(self, quota: int, member_id: str) -> Steps[int]:
        """Take from the member what is above its quota. Returns how many partitions are missing."""
        in_order = yield from in_java_order_in_steps(self._group.members[member_id].target)
        for some in in_slices(in_order, TOPICS_IN_STEP):
            for topic, partitions in some:
                if topic not in self._subscribed:
                    (yield from self._draft(member_id)).remove_topic(topic)
                    continue
                surplus = partitions[quota:]
                quota -= len(partitions) - len(surplus)
                for partition in surplus:
                    (yield from self._draft(member_id)).remove(topic, partition)
                    self._free.append((topic, partition))
            if len(some) == TOPICS_IN_STEP:
                yield
        return quota

    def _fill(self) -> Steps[None]:
        free = iter(self._free)
        for member_id, missing in self._unfilled:
            draft = yield from self._draft(member_id)
            for some in in_slices(islice(free, missing), TOPICS_IN_STEP):
                for topic, partition in some:
                    draft.add(topic, partition, USUAL_CAPACITY)
                if len(some) == TOPICS_IN_STEP:
                    yield
            yield

    def _draft(self, member_id: str) -> Steps[Draft]:
        draft = self._drafts.get(member_id)
        if draft is None:
            draft = self._drafts[member_id] = yield from Draft.in_steps(self._group.members[member_id].target)
        return draft


def assign_one_topic(members: Mapping[str, Sequence[int]], topic: TopicId, count: int) -> Targets:
    """The same without steps, for a small group that wants one topic. Returns the targets that are new.

    `members`: the partitions that each had, in order. All of them exist, and no two members have the same.
    """
    taken = set().union(*members.values())
    free = [each for each in range(count) if each not in taken]
    share, extra = divmod(count, len(members))
    targets: Targets = {}
    unfilled: list[tuple[str, int, Sequence[int]]] = []
    left = len(members)
    for member_id, partitions in members.items():
        quota = share + (extra > 0)
        has = JavaNumbers(partitions).ordered() if partitions else ()
        missing = quota - len(has)
        if missing < 0:
            draft = JavaNumbers(has)
            for partition in has[quota:]:
                draft.remove(partition)
                free.append(partition)
            targets[member_id] = {topic: tuple(draft.ordered())} if quota else {}
            extra -= extra > 0
        elif missing > 0 and 0 < extra < left:
            missing -= 1  # a later member may have the extra partition already, and there are enough of them
        else:
            extra -= extra > 0
        if missing > 0:
            unfilled.append((member_id, missing, has))
        left -= 1
    given = iter(free)
    for member_id, missing, had in unfilled:
        filled = _filled(had, list(islice(given, missing)))
        targets[member_id] = {topic: tuple(filled)} if filled else {}
    return targets


def _filled(has: Sequence[int], added: list[int]) -> Sequence[int]:
    """The partitions of a member that had some and gets others, in order."""
    if not has and len(added) <= FEW_NUMBERS:
        return order_of_few(added)
    draft = JavaNumbers(has) if has else JavaNumbers((), USUAL_CAPACITY)
    draft.add_all(added)
    return draft.ordered()


def _as_a_set(topics: Sequence[TopicId]) -> Steps[list[TopicId]]:
    """The topics in the order of a HashSet that was made from them."""
    found: JavaMap[TopicId, None] = JavaMap(hash_of_uuid, capacity_of_copy(len(topics)))
    for some in in_slices(topics, TOPICS_IN_STEP):
        for topic in some:
            found.put(topic, None)
        if len(some) == TOPICS_IN_STEP:
            yield
    return (yield from found.keys_in_steps())
