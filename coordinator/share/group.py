"""A share group (KIP-932): what its records say, and who is on time.

Hard state is what `replay` installs: epochs, members, targets, and which partitions have a state with the share
coordinator. Members are immutable, so whoever holds a member object and finds the same object in `members` knows that
nothing has happened to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable
from typing import TYPE_CHECKING, TypeVar

from kohort.coordinator.assignors.java_order import timeline_capacity
from kohort.coordinator.assignors.server_side import NO_PARTITIONS, Target, TopicId
from kohort.coordinator.group import SHARE, Committer, Group
from kohort.coordinator.member_pulse import MemberPulse
from kohort.coordinator.member_session import Session
from kohort.coordinator.outcome import Outcome, Record
from kohort.coordinator.rebalance import Rebalance
from kohort.coordinator.share.member import ShareMember
from kohort.coordinator.share.records import NO_STATES, PartitionStates, group_tombstones, states_in, states_record
from kohort.coordinator.share.removal import remove_member
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.log_share_group_current_member_assignment import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
)
from kohort.protocol.messages.log_share_group_member_metadata import (
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
)
from kohort.protocol.messages.log_share_group_metadata import ShareGroupMetadataKey, ShareGroupMetadataValue
from kohort.protocol.messages.log_share_group_state_partition_metadata import (
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
)
from kohort.protocol.messages.log_share_group_target_assignment_member import (
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
)
from kohort.protocol.messages.log_share_group_target_assignment_metadata import (
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)
from kohort.protocol.wire import Message

if TYPE_CHECKING:
    from kohort.coordinator.shard_state import ShardState
    from kohort.protocol.messages.offset_commit import OffsetCommitRequest

FIRST_EPOCH = 1  # of a group that was just created, and of its empty target
NO_ASSIGNMENT = -1  # assignment epoch after the tombstone of a target's epoch
CAPACITY_AT_FIRST = 2  # of the map in which Kafka keeps members


class ShareGroup(Group):
    __slots__ = (
        "_reconciled", "_targeted", "assignment_epoch", "assignment_timestamp", "capacity", "changes", "epoch",
        "initializing_since", "is_abandoned", "is_assigning", "members", "metadata_hash", "rebalance", "sessions",
        "settled_changes", "states", "targets", "topic_counts", "topics_version", "waiting_member",
    )  # fmt: skip

    type: str = SHARE
    protocol_type: str | None = "share"

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = FIRST_EPOCH
        self.assignment_timestamp = 0  # wall time; 0: not known
        self.members: dict[str, ShareMember] = {}
        self.capacity = CAPACITY_AT_FIRST  # decides in which order Kafka goes through members
        self.targets: dict[str, Target] = {}
        self.topic_counts: dict[str, int] = {}  # topic: count of members that want it
        self.states: PartitionStates = NO_STATES
        self.changes = 0  # rises with every change of the above, except that of a member's own assignment
        self._reconciled: Counter[int] = Counter()  # epoch: count of members
        self._targeted: dict[TopicId, Counter[int]] = {}  # partition: count of members that have it in their target
        # Soft state.
        self.sessions: dict[str, Session] = {}
        self.rebalance: Rebalance | None = None  # the one in progress
        self.topics_version = -1  # of the topics for which the hash was last looked at
        self.settled_changes = -1  # `changes` when a heartbeat found that nothing is to be done
        self.initializing_since: int | None = None  # wall time of the last change of `states`; None: before the restart
        self.is_assigning = False  # a target assignment is being computed in steps
        self.waiting_member: str | None = None  # whose last heartbeat is answered once that is done
        self.is_abandoned = False  # this object is no longer the group

    # --- state

    @property
    def state_name(self) -> str:
        return "Stable" if self.members else "Empty"

    @property
    def member_count(self) -> int:
        return len(self.members)

    def target_of(self, member_id: str) -> Target:
        return self.targets.get(member_id, NO_PARTITIONS)

    def will_be_stable(self, old: ShareMember | None, new: ShareMember, epoch: int) -> bool:
        """Whether all members are in `epoch` once `new` has taken the place of `old`."""
        reached = self._reconciled[epoch] + (new.epoch == epoch) - (old is not None and old.epoch == epoch)
        return reached == len(self.members) + (old is None)

    def has_unassigned(self, shard: ShardState) -> bool:
        """Whether a partition of a wanted topic is initialized and in nobody's target, or the other way round.

        A deleted topic may still be initialized, if the broker crashed before it wrote down that it is not.
        """
        return any(
            ready.name in self.topic_counts
            and self._targeted.get(topic_id, {}).keys() != set(ready.partitions)
            and shard.topics.name_of(topic_id) is not None
            for topic_id, ready in self.states.initialized.items()
        )

    def counts_with(self, old: ShareMember | None, new: ShareMember | None) -> dict[str, int]:
        """`topic_counts` when a member has joined (`old` is None), left (`new` is None) or wants something else."""
        counts = dict(self.topic_counts)
        _change(counts, old, new)
        return counts

    # --- replay: live or at restart, the only writer of hard state

    def replay(self, key: Message, value: Message | None) -> None:
        match key:  # the most frequent first
            case ShareGroupCurrentMemberAssignmentKey():
                self._replay_current(key.member_id, _value(ShareGroupCurrentMemberAssignmentValue, value))
                return
            case ShareGroupTargetAssignmentMemberKey():
                self._replay_target(key.member_id, _value(ShareGroupTargetAssignmentMemberValue, value))
            case ShareGroupMetadataKey():
                assert isinstance(value, ShareGroupMetadataValue), "its tombstone ends the group: see `replay` below"
                self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
            case ShareGroupMemberMetadataKey():
                self._replay_member(key.member_id, _value(ShareGroupMemberMetadataValue, value))
            case ShareGroupTargetAssignmentMetadataKey():
                self._replay_target_epoch(_value(ShareGroupTargetAssignmentMetadataValue, value))
            case ShareGroupStatePartitionMetadataKey():
                said = _value(ShareGroupStatePartitionMetadataValue, value)
                self.states = NO_STATES if said is None else states_in(said)
        self.changes += 1

    def _replay_target_epoch(self, value: ShareGroupTargetAssignmentMetadataValue | None) -> None:
        self.assignment_epoch = NO_ASSIGNMENT if value is None else value.assignment_epoch
        self.assignment_timestamp = 0 if value is None else value.assignment_timestamp

    def _replay_member(self, member_id: str, value: ShareGroupMemberMetadataValue | None) -> None:
        before = self.members.get(member_id)
        if value is not None:
            self._install(before, (before or ShareMember(member_id)).with_metadata(value))
        elif before is not None:
            self._install(before, None)

    def _replay_current(self, member_id: str, value: ShareGroupCurrentMemberAssignmentValue | None) -> None:
        before = self.members.get(member_id)
        if value is not None:
            self._install(before, (before or ShareMember(member_id)).with_assignment(value))
        elif before is not None:
            self._install(before, before.without_assignment())

    def _replay_target(self, member_id: str, value: ShareGroupTargetAssignmentMemberValue | None) -> None:
        self._count_targets(self.targets.pop(member_id, NO_PARTITIONS), -1)
        if value is not None:
            target = self.targets[member_id] = {
                topic.topic_id: tuple(topic.partitions) for topic in value.topic_partitions
            }
            self._count_targets(target, 1)

    def _count_targets(self, target: Target, by: int) -> None:
        for topic_id, partitions in target.items():
            counts = self._targeted.setdefault(topic_id, Counter())
            for partition in partitions:
                counts[partition] += by
                if not counts[partition]:
                    del counts[partition]
            if not counts:
                del self._targeted[topic_id]

    def _install(self, old: ShareMember | None, new: ShareMember | None) -> None:
        """Put `new` where `old` was, and keep everything that is derived from members."""
        _change(self.topic_counts, old, new)
        if old is not None:
            self._reconciled[old.epoch] -= 1
            if not self._reconciled[old.epoch]:
                del self._reconciled[old.epoch]
        if new is not None:
            self._reconciled[new.epoch] += 1
            # Kafka's map makes room for one more key even if it has the member already.
            self.capacity = timeline_capacity(self.capacity, len(self.members) + 1)
            self.members[new.member_id] = new
        elif old is not None:
            del self.members[old.member_id]

    # --- as every group (see coordinator/group.py)

    def check_commit(self, shard: ShardState, request: OffsetCommitRequest, version: int) -> ErrorCode | None:
        return ErrorCode.GROUP_ID_NOT_FOUND  # a share group has no committed offsets

    def check_txn_commit(self, sender: Committer) -> ErrorCode | None:
        return ErrorCode.GROUP_ID_NOT_FOUND

    def check_delete(self) -> ErrorCode | None:
        return ErrorCode.NON_EMPTY_GROUP if self.members else None

    def check_offset_delete(self) -> ErrorCode | None:
        return ErrorCode.GROUP_ID_NOT_FOUND

    @property
    def can_be_replaced(self) -> bool:
        """A share group has states with the share coordinator, which would be left over."""
        return False

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.topic_counts

    def may_expire(self, topic: str) -> bool:
        return False

    @property
    def offsets_unused_since(self) -> int | None:
        return None

    @property
    def ends_without_offsets(self) -> bool:
        return False

    def tombstones(self) -> list[Record]:
        return list(group_tombstones(self.group_id, list(self.members)))

    def on_loaded(self, shard: ShardState, out: Outcome) -> Iterable[None]:
        """Members get a whole session to report."""
        for member_id in self.members:
            self.heard_from(shard, member_id)
            yield

    def abandon(self, error: ErrorCode, out: Outcome) -> None:
        """No request of a share group's member is ever parked."""
        self.is_abandoned = True

    def topics_deleted(self, shard: ShardState, topic_ids: Container[bytes]) -> Record | None:
        """The share coordinator forgets the states of deleted topics by itself."""
        states = self.states
        left = PartitionStates(
            {each: topic for each, topic in states.initializing.items() if each not in topic_ids},
            {each: topic for each, topic in states.initialized.items() if each not in topic_ids},
            {each: name for each, name in states.deleting.items() if each not in topic_ids},
        )
        if left == states:
            return None
        self.initializing_since = shard.clock.wall
        return states_record(self.group_id, left)

    # --- soft state

    def heard_from(self, shard: ShardState, member_id: str) -> None:
        session = self.sessions.get(member_id)
        if session is None:
            session = self.sessions[member_id] = Session(shard, self, member_id)
        session.heard(shard.share_settings(self.group_id).session_timeout_ms)

    def session_ended(self, shard: ShardState, member_id: str, out: Outcome) -> None:
        if member_id in self.members:
            remove_member(shard, self, member_id, "session expired", out)

    def forget(self, member_id: str) -> None:
        """The member is gone: nothing is expected of it any more."""
        session = self.sessions.pop(member_id, None)
        if session is not None:
            session.stop()

    def pulse(
        self, shard: ShardState, member_id: str, instance_id: str | None, generation_or_epoch: int
    ) -> MemberPulse | None:
        member, session = self.members.get(member_id), self.sessions.get(member_id)
        if member is None or session is None or generation_or_epoch != member.epoch:
            return None
        if not self.is_at_rest(shard, member):
            return None
        timeout_ms = shard.share_settings(self.group_id).session_timeout_ms
        return MemberPulse(shard, self, member_id, session, shard.share, timeout_ms)

    def commit_pulse(
        self, shard: ShardState, member_id: str, instance_id: str | None, generation_or_epoch: int
    ) -> None:
        return None  # nobody commits

    def is_at_rest(self, shard: ShardState, member: ShareMember) -> bool:
        """Whether a heartbeat of the member that says nothing new can change nothing."""
        return (
            self.epoch == self.assignment_epoch == member.epoch
            and self.topics_version == shard.topics.version
            and self.settled_changes == self.changes
        )


def _change(counts: dict[str, int], old: ShareMember | None, new: ShareMember | None) -> None:
    old_names, new_names = old.topic_names if old else (), new.topic_names if new else ()
    if old_names == new_names:
        return
    for name in old_names:
        counts[name] -= 1
        if not counts[name]:
            del counts[name]
    for name in new_names:
        counts[name] = counts.get(name, 0) + 1


Value = TypeVar("Value", bound=Message)


def _value(kind: type[Value], value: Message | None) -> Value | None:
    assert value is None or isinstance(value, kind), value
    return value


def find_share(shard: ShardState, group_id: str) -> ShareGroup | None:
    group = shard.groups.get(group_id)
    return group if type(group) is ShareGroup else None


def replay(shard: ShardState, key: Message, value: Message | None) -> None:
    """Replay one record. A group's first record creates it, and the tombstone of its epoch ends it."""
    group_id: str = key.group_id  # type: ignore[attr-defined]
    group = find_share(shard, group_id)
    if group is None:
        if value is None:
            return
        group = ShareGroup(group_id)
        shard.replace(group)
    if value is None and isinstance(key, ShareGroupMetadataKey):
        shard.end(group_id)
    else:
        group.replay(key, value)
