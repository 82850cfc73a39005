"""The target assignment: who shall have which partitions, as of a group epoch.

A small group's target is computed at once by the heartbeat that asks for it. That of a large group is computed in
pieces between other requests, and the answer to the heartbeat waits for it. Meanwhile the heartbeats of other members
are answered with the old target, and the group shows Assigning.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from kohort.coordinator.api import Steps, all_steps, in_slices
from kohort.coordinator.assignors.java_order import (
    USUAL_CAPACITY,
    JavaMap,
    capacity_for,
    hash_of_text,
    set_order,
    timeline_order,
)
from kohort.coordinator.assignors.server_range import assign_ranges
from kohort.coordinator.assignors.server_side import (
    NO_PARTITIONS,
    TOPICS_IN_STEP,
    Assigning,
    ServerGroup,
    Subscriber,
    Target,
    Targets,
    TopicId,
    as_many_steps,
)
from kohort.coordinator.assignors.uniform import assign_one_topic, assign_uniformly
from kohort.coordinator.consumer.records import packed_target, target_epoch_record
from kohort.coordinator.consumer.subscriptions import Subscriptions
from kohort.coordinator.outcome import Outcome, StepRecords
from kohort.coordinator.pieces import in_pieces
from kohort.coordinator.planning import (
    MEMBERS_IN_STEP,
    STEPS_IN_PIECE,
    changed_targets,
    members_in_order,
    most_bytes,
    together,
)

if TYPE_CHECKING:
    from kohort.coordinator.consumer.group import ConsumerGroup
    from kohort.coordinator.consumer.member import ConsumerMember
    from kohort.coordinator.rebalance import Rebalance
    from kohort.coordinator.shard_state import ShardState, Topics

PLACES_IN_STEP = 50  # partitions of targets that are compared

ASSIGNORS: dict[str, Callable[[ServerGroup], Assigning]] = {"uniform": assign_uniformly, "range": assign_ranges}


@dataclass(slots=True)
class Plan:
    """What a target is computed from: a picture of the group, which may change while the computation goes on."""

    epoch: int
    members: Mapping[str, ConsumerMember]
    capacity: int  # of the map in which Kafka keeps the members
    targets: Mapping[str, Target]
    subscriptions: Subscriptions
    is_equal: bool  # all members want the same topics
    assignor: str
    topics: Topics
    updated: ConsumerMember | None = None  # the member whose heartbeat asks for the target
    replaced: ConsumerMember | None = None  # the static member whose place `updated` takes
    names_in_request: Sequence[str] | None = None  # of `updated`; other members have theirs from the log, sorted
    _topic_ids: dict[tuple[tuple[str, ...], str | None], list[TopicId]] = field(default_factory=dict)
    _counts: dict[TopicId, int] = field(default_factory=dict)  # of partitions, when the topic was first looked up
    _taken: dict[TopicId, set[int]] = field(default_factory=dict)  # partitions in the targets that were looked at

    @property
    def size(self) -> int:
        wanted = {*self.subscriptions.names, *self.subscriptions.matched}
        return len(self.members) + sum(self.topics.partition_count(topic) for topic in wanted)

    def compute(self) -> Steps[Targets]:
        """The new targets of all members, in the order in which Kafka goes through them."""
        in_order = yield from self._in_order()
        subscribers: dict[str, Subscriber] = {}
        for some in in_slices(in_order, MEMBERS_IN_STEP):
            for member_id in some:
                subscribers[member_id] = yield from self._subscriber(member_id)
            yield
        assigned = yield from ASSIGNORS[self.assignor](ServerGroup(subscribers, self._counts, self.is_equal))
        return {member_id: assigned.get(member_id, NO_PARTITIONS) for member_id in subscribers}

    def compute_at_once(self) -> Targets:
        """The same without steps, for a small group. Most groups want one topic, which is quicker to assign."""
        found = self._compute_for_one_topic()
        return all_steps(self.compute()) if found is None else found

    def _compute_for_one_topic(self) -> Targets | None:
        """None: the members want several topics, or something else is unusual."""
        wanted = self.subscriptions.names
        if not self.is_equal or len(wanted) != 1 or self.assignor != "uniform" or self.replaced is not None:
            return None
        (name,) = wanted
        topic_id, count = self.topics.topic_id(name), self.topics.partition_count(name)
        if topic_id is None or self.subscriptions.regexes:
            return None
        in_order = all_steps(self._in_order())
        before = {member_id: self.targets.get(member_id, NO_PARTITIONS) for member_id in in_order}
        had = {member_id: target.get(topic_id, ()) for member_id, target in before.items()}
        all_had = [partition for partitions in had.values() for partition in partitions]
        if any(len(target) != bool(had[member_id]) for member_id, target in before.items()):
            return None  # there are other topics, or none of a topic's partitions
        if len(set(all_had)) < len(all_had) or not _are_all_below(count, all_had):
            return None
        return {**before, **assign_one_topic(had, topic_id, count)}

    def _in_order(self) -> Steps[list[str]]:
        changes = {}
        if self.updated is not None:
            changes[self.updated.member_id] = True
            if self.replaced is not None and self.replaced.member_id != self.updated.member_id:
                changes[self.replaced.member_id] = False
        return members_in_order(self.members, self.capacity, changes)

    def _subscriber(self, member_id: str) -> Steps[Subscriber]:
        is_updated = self.updated is not None and self.updated.member_id == member_id
        member = self.updated if self.updated is not None and is_updated else self.members[member_id]
        before = self.replaced.member_id if is_updated and self.replaced is not None else member_id
        names = member.topic_names
        if is_updated and self.names_in_request is not None:
            names = tuple(self.names_in_request)
        wants = (names, member.topic_regex)
        topic_ids = self._topic_ids.get(wants)
        yield from as_many_steps(len(names))
        if topic_ids is None:
            topic_ids = self._topic_ids[wants] = yield from self._ids(*wants)
        target = yield from self._target_before(before)
        return Subscriber(topic_ids, target, member.instance_id)

    def _target_before(self, member_id: str) -> Steps[Target]:
        """The member's target so far, without what no assignor expects there.

        A partition can be in the targets of two members if the broker ends while it writes the target of a large group
        piece by piece: some members have their new target, and others their old one. Partitions that do not exist can
        be there because the leader of a classic group has given them to members.
        """
        target = self.targets.get(member_id, NO_PARTITIONS)
        left: dict[TopicId, Sequence[int]] = {}
        is_whole = True
        for some in in_slices(target.items(), TOPICS_IN_STEP):
            for topic_id, partitions in some:
                taken, known = self._taken.setdefault(topic_id, set()), partitions
                # A topic that nobody wants has no count here. The assignors take it away.
                count = self._counts.get(topic_id)
                if not taken.isdisjoint(partitions) or not _are_all_below(count, partitions):
                    known = [each for each in partitions if each not in taken and _are_all_below(count, (each,))]
                    is_whole = False
                taken.update(known)
                if known:
                    left[topic_id] = known
            if len(some) == TOPICS_IN_STEP:
                yield
        return target if is_whole else left

    def _ids(self, subscribed: tuple[str, ...], regex: str | None) -> Steps[list[TopicId]]:
        """The existing topics that a member wants, in the order in which Kafka goes through them."""
        found = self.subscriptions.resolved.get(regex or "")
        names: Iterable[str] = yield from set_order(subscribed)
        if found is not None and found.topics:
            few, many = sorted((subscribed, found.topics), key=lambda names: len(set(names)))
            names = dict.fromkeys((*(yield from set_order(many)), *(yield from set_order(few))))
        topic_ids: list[TopicId] = []
        for some in in_slices(names, TOPICS_IN_STEP):
            for name in some:
                if (topic_id := self.topics.topic_id(name)) is not None:
                    topic_ids.append(topic_id)
                    self._counts.setdefault(topic_id, self.topics.partition_count(name))
            if len(some) == TOPICS_IN_STEP:
                yield
        return topic_ids


def _are_all_below(count: int | None, partitions: Sequence[int]) -> bool:
    return count is None or not partitions or (min(partitions) >= 0 and max(partitions) < count)


def preferred_assignor(group: ConsumerGroup, default: str) -> str:
    """The assignor that most members ask for. Of several, Kafka takes the one that its hash table has first."""
    counts = group.server_assignors
    return max(timeline_order(counts, group.assignors_capacity), key=counts.__getitem__, default=default)


def preferred_assignor_with(group: ConsumerGroup, old: ConsumerMember, new: ConsumerMember, default: str) -> str:
    """The assignor that most members ask for when `old` has become `new`. Kafka asks a copy, with another order."""
    known = group.server_assignors
    if not known and new.server_assignor is None:
        return default
    capacity = capacity_for(int(len(known) / 0.75) + 1) if known else USUAL_CAPACITY
    counts: JavaMap[str, int] = JavaMap(hash_of_text, capacity)
    for name in timeline_order(known, group.assignors_capacity):
        counts.put(name, known[name])
    if (before := old.server_assignor) is not None and before in counts.entries:
        counts.entries[before] -= 1
        if not counts.entries[before]:
            counts.remove(before)
    if (after := new.server_assignor) is not None:
        counts.compute_if_absent(after, int)
        counts.entries[after] += 1
    return max(counts.keys(), key=counts.entries.__getitem__, default=default)


def moved_partitions(before: Mapping[str, Target], changed: Targets, rebalance: Rebalance | None) -> Steps[int]:
    """How many partitions another member had in its target before, or a member that is gone since."""
    lost = set() if rebalance is None else set(rebalance.freed)
    got: list[tuple[TopicId, int]] = []
    for some in in_slices(changed.items(), MEMBERS_IN_STEP):
        for member_id, target in some:
            known = before.get(member_id, NO_PARTITIONS)
            for places in in_slices(_difference(known, target), PLACES_IN_STEP):
                lost.update(places)
                if len(places) == PLACES_IN_STEP:
                    yield
            for places in in_slices(_difference(target, known), PLACES_IN_STEP):
                got += places
                if len(places) == PLACES_IN_STEP:
                    yield
        yield
    return sum(place in lost for place in got)


def moved_at_once(before: Mapping[str, Target], changed: Targets, rebalance: Rebalance | None) -> int:
    """The same without steps, for a small group."""
    lost = set() if rebalance is None else set(rebalance.freed)
    got: list[tuple[TopicId, int]] = []
    for member_id, target in changed.items():
        if known := before.get(member_id):
            lost.update(_difference(known, target))
            got += _difference(target, known)
        else:
            got += [(topic, partition) for topic, partitions in target.items() for partition in partitions]
    return sum(map(lost.__contains__, got)) if lost else 0


def _difference(one: Target, other: Target) -> Iterator[tuple[TopicId, int]]:
    """The partitions of the one that are not in the other."""
    for topic, partitions in one.items():
        for partition in set(partitions).difference(other.get(topic, ())):
            yield topic, partition


def assign_in_pieces(shard: ShardState, group: ConsumerGroup, plan: Plan) -> Generator[Outcome, None, bool]:
    """Compute the target of a large group, and write it piece by piece. False: it does not fit into records of the log.

    Members may come and go meanwhile. Those that are gone get nothing; a static member that has taken the place of
    another one gets what was meant for that. Whatever else has changed has bumped the group epoch, so that the next
    heartbeat asks for another target.
    """
    try:
        targets = yield from in_pieces(plan.compute(), STEPS_IN_PIECE)
        changed = yield from in_pieces(changed_targets(group.targets, targets), STEPS_IN_PIECE)
        moved = yield from in_pieces(moved_partitions(group.targets, changed, group.rebalance), STEPS_IN_PIECE)
        if group.is_abandoned or group.assignment_epoch >= plan.epoch:
            return True
        if max(map(most_bytes, changed.items()), default=0) + 4 * len(group.group_id) > shard.config.max_message_bytes:
            return False
        if group.rebalance is not None:
            group.rebalance.moved += moved
        for some in together(changed):
            present = ((_present(group, plan, member_id), target) for member_id, target in some)
            yield Outcome([_target_step(group, each, target) for each, target in present if each is not None])
            if group.is_abandoned or group.member_count == 0:
                return True  # nobody is left, or the group has become a classic one
        yield Outcome([target_epoch_record(group.group_id, plan.epoch, shard.clock.wall)])
        return True
    finally:
        group.is_assigning = False


def _target_step(group: ConsumerGroup, member_id: str, target: Target) -> StepRecords:
    return StepRecords(
        [packed_target(group.packed_name, member_id, target)], partial(group.take_target, member_id, target)
    )


def _present(group: ConsumerGroup, plan: Plan, member_id: str) -> str | None:
    """The member of the plan as it is now; None if it is gone."""
    if member_id in group.members:
        return member_id
    planned = plan.members.get(member_id) or plan.updated
    return group.static_members.get(planned.instance_id or "") if planned is not None else None
