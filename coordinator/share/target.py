"""The target assignment: who shall have which partitions, as of a group epoch.

A small group's target is computed at once by the heartbeat that asks for it. That of a large group is computed in
pieces between other requests, and the answer to the heartbeat waits for it. Meanwhile the heartbeats of other members
are answered with the old target.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kohort.coordinator.api import Steps, in_slices
from kohort.coordinator.assignors.java_order import JavaNumbers, set_order, timeline_capacity
from kohort.coordinator.assignors.server_side import (
    NO_PARTITIONS,
    TOPICS_IN_STEP,
    Subscriber,
    Target,
    Targets,
    TopicId,
    as_many_steps,
)
from kohort.coordinator.assignors.simple import SharingGroup, assign_simply
from kohort.coordinator.outcome import Outcome, Record
from kohort.coordinator.pieces import in_pieces
from kohort.coordinator.planning import (
    MEMBERS_IN_STEP,
    STEPS_IN_PIECE,
    changed_targets,
    members_in_order,
    most_bytes,
    together,
)
from kohort.coordinator.share.records import ReadyTopics, target_epoch_record, target_record

if TYPE_CHECKING:
    from kohort.coordinator.shard_state import ShardState, Topics
    from kohort.coordinator.share.group import ShareGroup
    from kohort.coordinator.share.member import ShareMember

ASSIGNOR = "simple"


@dataclass(slots=True)
class Plan:
    """What a target is computed from: a picture of the group, which may change while the computation goes on."""

    epoch: int
    members: Mapping[str, ShareMember]
    capacity: int  # of the map in which Kafka keeps the members
    targets: Mapping[str, Target]
    initialized: ReadyTopics
    is_equal: bool  # all members want the same topics
    topics: Topics
    updated: ShareMember  # the member whose heartbeat asks for the target
    names_in_request: Sequence[str] | None = None  # of `updated`; other members have theirs from the log, sorted
    _topic_ids: dict[tuple[str, ...], list[TopicId]] = field(default_factory=dict)
    _assignable: dict[TopicId, Sequence[int]] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return len(self.members) + sum(len(ready.partitions) for ready in self.initialized.values())

    def compute(self) -> Steps[Targets]:
        """The new targets of all members, in the order in which Kafka goes through them."""
        members, capacity = self.members, self.capacity
        if self.updated.member_id not in members:  # Kafka has put a new member into its map before it assigns
            members = {**members, self.updated.member_id: self.updated}
            capacity = timeline_capacity(capacity, len(members))
        in_order = yield from members_in_order(members, capacity, {self.updated.member_id: True})
        subscribers: dict[str, Subscriber] = {}
        for some in in_slices(in_order, MEMBERS_IN_STEP):
            for member_id in some:
                subscribers[member_id] = yield from self._subscriber(member_id)
            yield
        assigned = yield from assign_simply(SharingGroup(subscribers, self._assignable, self.is_equal))
        return {member_id: assigned.get(member_id, NO_PARTITIONS) for member_id in subscribers}

    def _subscriber(self, member_id: str) -> Steps[Subscriber]:
        is_updated = self.updated.member_id == member_id
        names = self.updated.topic_names if is_updated else self.members[member_id].topic_names
        if is_updated and self.names_in_request is not None:
            names = tuple(self.names_in_request)
        yield from as_many_steps(len(names))
        topic_ids = self._topic_ids.get(names)
        if topic_ids is None:
            topic_ids = self._topic_ids[names] = yield from self._ids(names)
        return Subscriber(topic_ids, self.targets.get(member_id, NO_PARTITIONS))

    def _ids(self, names: tuple[str, ...]) -> Steps[list[TopicId]]:
        """The existing topics that a member wants, in the order in which Kafka goes through them."""
        found: list[TopicId] = []
        for some in in_slices((yield from set_order(names)), TOPICS_IN_STEP):
            for name in some:
                if (topic_id := self.topics.topic_id(name)) is not None:
                    found.append(topic_id)
                    if topic_id not in self._assignable:
                        ready = self.initialized.get(topic_id)
                        self._assignable[topic_id] = () if ready is None else JavaNumbers(ready.partitions).ordered()
            yield
        return found


def given_partitions(before: Mapping[str, Target], changed: Targets) -> Steps[int]:
    """How many times a partition is given to a member that did not have it in its target."""
    given = 0
    for some in in_slices(changed.items(), MEMBERS_IN_STEP):
        for member_id, target in some:
            known = before.get(member_id, NO_PARTITIONS)
            for topics in in_slices(target.items(), TOPICS_IN_STEP):
                given += sum(len(set(each).difference(known.get(topic_id, ()))) for topic_id, each in topics)
                yield
        yield
    return given


def target_records(group_id: str, changed: Targets, epoch: int, wall_ms: int) -> list[Record]:
    records = [target_record(group_id, member_id, target) for member_id, target in changed.items()]
    return [*records, target_epoch_record(group_id, epoch, wall_ms)]


def assign_in_pieces(shard: ShardState, group: ShareGroup, plan: Plan) -> Generator[Outcome, None, bool]:
    """Compute the target of a large group, and write it piece by piece. False: it does not fit into records of the log.

    Members may come and go meanwhile. Those that are gone get nothing. Whatever else has changed has bumped the group
    epoch, so that the next heartbeat asks for another target.
    """
    try:
        targets = yield from in_pieces(plan.compute(), STEPS_IN_PIECE)
        changed = yield from in_pieces(changed_targets(group.targets, targets), STEPS_IN_PIECE)
        given = yield from in_pieces(given_partitions(group.targets, changed), STEPS_IN_PIECE)
        if group.is_abandoned or group.assignment_epoch >= plan.epoch:
            return True
        if max(map(most_bytes, changed.items()), default=0) + 4 * len(group.group_id) > shard.config.max_message_bytes:
            return False
        if group.rebalance is not None:
            group.rebalance.moved += given
        for some in together(changed):
            yield Outcome(
                [target_record(group.group_id, each, target) for each, target in some if each in group.members]
            )
            if group.is_abandoned or not group.members:
                return True
        yield Outcome([target_epoch_record(group.group_id, plan.epoch, shard.clock.wall)])
        return True
    finally:
        group.is_assigning = False
