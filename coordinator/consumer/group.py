"""A consumer group (KIP-848): what its records say, who is on time, and which rebalance is going on.

Hard state is what `replay` installs: epochs, members, targets, resolved regular expressions. Members are immutable, so
whoever holds a member object and finds the same object in `members` knows that nothing has happened to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from kohort.coordinator.assignors.java_order import timeline_capacity
from kohort.coordinator.assignors.server_side import NO_PARTITIONS, Target, Targets, TopicId
from kohort.coordinator.consumer.member import (
    NOTHING,
    STABLE,
    STATE_NAMES,
    UNREVOKED,
    ConsumerMember,
    Partitions,
)
from kohort.coordinator.consumer.records import group_tombstones
from kohort.coordinator.consumer.removal import downgrade_later, may_downgrade, remove_members
from kohort.coordinator.consumer.subscriptions import ResolvedRegex, Subscriptions
from kohort.coordinator.consumer.timers import (
    JOIN,
    SYNC,
    ClassicPulse,
    ClassicTimeout,
    CommitPulse,
    RebalanceTimeout,
)
from kohort.coordinator.group import CONSUMER, Committer, Group
from kohort.coordinator.member_pulse import MemberPulse
from kohort.coordinator.member_session import Session
from kohort.coordinator.outcome import Outcome, Record
from kohort.coordinator.rebalance import Rebalance
from kohort.coordinator.shard_clock import NEVER
from kohort.protocol.consumer_group_record import pack_name
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.log_consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
)
from kohort.protocol.messages.log_consumer_group_member_metadata import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)
from kohort.protocol.messages.log_consumer_group_metadata import ConsumerGroupMetadataKey, ConsumerGroupMetadataValue
from kohort.protocol.messages.log_consumer_group_partition_metadata import ConsumerGroupPartitionMetadataKey
from kohort.protocol.messages.log_consumer_group_regular_expression import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from kohort.protocol.messages.log_consumer_group_target_assignment_member import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
)
from kohort.protocol.messages.log_consumer_group_target_assignment_metadata import (
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from kohort.protocol.wire import Message

if TYPE_CHECKING:
    from kohort.coordinator.shard_state import ShardState
    from kohort.protocol.messages.offset_commit import OffsetCommitRequest
    from kohort.protocol.messages.offset_fetch import OffsetFetchRequestGroup

FIRST_EPOCH = 1  # of a group that was just created, and of its empty target
NO_ASSIGNMENT = -1  # assignment epoch after the tombstone of a target's epoch
FIRST_COMMIT_VERSION = 9  # of OffsetCommit that members of such a group must speak
SPARE_INSTANCE_IDS = 100  # that no member has any more
CAPACITY_AT_FIRST = 2  # of the map in which Kafka keeps members


class ConsumerGroup(Group):
    __slots__ = (
        "_holders",
        "_reconciled",
        "_states",
        "assignment_epoch",
        "assignment_timestamp",
        "assignors_capacity",
        "capacity",
        "changes",
        "classic_member_count",
        "classic_protocols",
        "classic_timeouts",
        "epoch",
        "has_old_metadata_record",
        "is_abandoned",
        "is_assigning",
        "is_converting",
        "is_resolving",
        "members",
        "metadata_hash",
        "packed_name",
        "rebalance",
        "rebalance_timeouts",
        "regexes_version",
        "server_assignors",
        "sessions",
        "static_members",
        "subscriptions",
        "targets",
        "topics_version",
    )

    type: str = CONSUMER
    protocol_type: str | None = "consumer"

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.packed_name = pack_name(group_id)  # as it stands in the keys of its records
        self.epoch = FIRST_EPOCH
        self.changes = 0  # rises with every record about the epoch, so that fast paths see it
        self.metadata_hash = 0
        self.assignment_epoch = FIRST_EPOCH
        self.assignment_timestamp = 0  # wall time; 0: not known
        self.members: dict[str, ConsumerMember] = {}
        self.capacity = CAPACITY_AT_FIRST  # decides in which order Kafka goes through members
        self.static_members: dict[str, str] = {}  # instance id: member id
        self.targets: dict[str, Target] = {}
        self.subscriptions = Subscriptions()
        self.server_assignors: Counter[str] = Counter()  # assignor: count of members that ask for it
        self.assignors_capacity = CAPACITY_AT_FIRST  # decides in which order Kafka goes through assignors
        self.classic_member_count = 0
        self.classic_protocols: Counter[str] = Counter()  # protocol: count of classic members that know it
        self.has_old_metadata_record = False  # a record of type 4, which Kafka wrote before 4.1
        self._holders: dict[TopicId, dict[int, int]] = {}  # partition: epoch of the member that holds it
        self._reconciled: Counter[int] = Counter()  # epoch: count of members that are stable in it
        self._states: Counter[int] = Counter()  # count of members in each state
        # Soft state.
        self.sessions: dict[str, Session] = {}
        self.rebalance_timeouts: dict[str, RebalanceTimeout] = {}
        self.classic_timeouts: dict[tuple[str, str], ClassicTimeout] = {}  # by (JOIN or SYNC, member id)
        self.rebalance: Rebalance | None = None  # the one in progress
        self.topics_version = -1  # of the topics for which the hash was last looked at
        self.regexes_version = -1  # of the topics for which regular expressions were last resolved
        self.is_resolving = False  # regular expressions are being resolved
        self.is_assigning = False  # a target assignment is being computed in steps
        self.is_converting = False  # a classic group is being made of this one in steps
        self.is_abandoned = False  # this object is no longer the group

    # --- state

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        return "Stable" if self.all_reconciled() else "Reconciling"

    def all_reconciled(self) -> bool:
        return self._reconciled[self.assignment_epoch] == len(self.members)

    def will_be_stable(self, old: ConsumerMember | None, new: ConsumerMember, epoch: int) -> bool:
        """Whether all members are reconciled to `epoch` once `new` has taken the place of `old`."""
        reconciled = self._reconciled[epoch] + new.is_reconciled_to(epoch)
        reconciled -= old is not None and old.is_reconciled_to(epoch)
        return reconciled == len(self.members) + (old is None)

    @property
    def member_count(self) -> int:
        return len(self.members)

    def member_states(self) -> dict[str, int]:
        """How many members are in each state."""
        return {STATE_NAMES.get(state, "unknown"): count for state, count in self._states.items()}

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = self.static_members.get(instance_id) if instance_id is not None else None
        return self.members.get(member_id) if member_id is not None else None

    def target_of(self, member_id: str) -> Target:
        return self.targets.get(member_id, NO_PARTITIONS)

    def supports(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """Whether a classic member with these protocols can be in the group: all others like it must know one."""
        known_by_all = self.classic_member_count
        is_consumer = protocol_type == self.protocol_type
        return is_consumer and any(self.classic_protocols[name] == known_by_all for name in protocols)

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Whether a partition of the member's target is still held by another member."""
        return any(
            partition not in member.assigned.get(topic_id, ()) and self.is_held(topic_id, partition)
            for topic_id, partitions in self.target_of(member.member_id).items()
            for partition in partitions
        )

    def is_held(self, topic_id: TopicId, partition: int) -> bool:
        """Whether a member has the partition, or has not said yet that it has given it up."""
        holders = self._holders.get(topic_id)
        return holders is not None and partition in holders

    def free_partitions(self, topic_id: TopicId, partitions: Sequence[int]) -> Sequence[int]:
        """Those of the partitions that nobody holds."""
        holders = self._holders.get(topic_id)
        return partitions if not holders else [each for each in partitions if each not in holders]

    def may_assign(self, shard: ShardState) -> bool:
        """A target is computed at most once in an interval, so that members that join together share one."""
        if self.is_assigning:
            return False
        age_ms = shard.clock.wall - self.assignment_timestamp  # negative if the clock was set back
        interval_ms = shard.consumer_settings(self.group_id).assignment_interval_ms
        return self.assignment_timestamp == 0 or not 0 <= age_ms < interval_ms

    # --- replay: live or at restart, the only writer of hard state

    def replay(self, key: Message, value: Message | None) -> None:
        match key:  # the most frequent first
            case ConsumerGroupCurrentMemberAssignmentKey():
                self._replay_current(key.member_id, _value(ConsumerGroupCurrentMemberAssignmentValue, value))
            case ConsumerGroupTargetAssignmentMemberKey():
                self._replay_target(key.member_id, _value(ConsumerGroupTargetAssignmentMemberValue, value))
            case ConsumerGroupMetadataKey():
                assert isinstance(value, ConsumerGroupMetadataValue), "its tombstone ends the group: see shard.py"
                self.enter_epoch(value.epoch, value.metadata_hash)
            case ConsumerGroupMemberMetadataKey():
                self._replay_member(key.member_id, _value(ConsumerGroupMemberMetadataValue, value))
            case ConsumerGroupTargetAssignmentMetadataKey():
                self._replay_target_epoch(_value(ConsumerGroupTargetAssignmentMetadataValue, value))
            case ConsumerGroupRegularExpressionKey():
                self._replay_regex(key.regular_expression, _value(ConsumerGroupRegularExpressionValue, value))
            case ConsumerGroupPartitionMetadataKey():
                self.has_old_metadata_record = value is not None

    def _replay_target_epoch(self, value: ConsumerGroupTargetAssignmentMetadataValue | None) -> None:
        self.assignment_epoch = NO_ASSIGNMENT if value is None else value.assignment_epoch
        self.assignment_timestamp = 0 if value is None else value.assignment_timestamp

    def _replay_member(self, member_id: str, value: ConsumerGroupMemberMetadataValue | None) -> None:
        before = self.members.get(member_id)
        if value is not None:
            self._install(before, (before or ConsumerMember(member_id)).with_metadata(value))
        elif before is not None:
            self._install(before, None)

    def _replay_current(self, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue | None) -> None:
        before = self.members.get(member_id)
        if value is not None:
            self._install(before, (before or ConsumerMember(member_id)).with_assignment(value))
        elif before is not None:
            self._install(before, before.without_assignment())

    def _replay_target(self, member_id: str, value: ConsumerGroupTargetAssignmentMemberValue | None) -> None:
        if value is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = {topic.topic_id: tuple(topic.partitions) for topic in value.topic_partitions}

    def _replay_regex(self, regex: str, value: ConsumerGroupRegularExpressionValue | None) -> None:
        resolved = None if value is None else ResolvedRegex(tuple(value.topics), value.version, value.timestamp)
        self.subscriptions.resolve(regex, resolved)

    def take_member(self, described: ConsumerMember | None, moved: ConsumerMember | None) -> None:
        """As the replay of a member's records: `described` is what the first makes of it, and `moved` the last."""
        if described is not None:
            before = self.members.get(described.member_id)
            if moved is None or before is not None or described.server_assignor is not None:
                self._install(before, described)
            else:
                self._install_new(moved)
                return
        if moved is not None:
            self._install(self.members.get(moved.member_id), moved)

    def take_moved(self, old: ConsumerMember, new: ConsumerMember) -> None:
        """As the replay of the record of a member that has nothing new but its assignment."""
        if old.assigned:
            self._release(old.assigned, old.epoch, new.assigned)
        if old.pending_revocation:
            self._release(old.pending_revocation, old.epoch)
        if new.assigned:
            self._hold(new.assigned, new.epoch)
        if new.pending_revocation:
            self._hold(new.pending_revocation, new.epoch)
        if new.server_assignor is None and new.classic is None:
            self._count_moved(old, new)
        else:
            self._count(old, -1)
            self._count(new, 1)
        self.capacity = timeline_capacity(self.capacity, len(self.members) + 1)
        self.members[new.member_id] = new
        if new.instance_id is not None:
            self.static_members[new.instance_id] = new.member_id

    def _count_moved(self, old: ConsumerMember, new: ConsumerMember) -> None:
        """As _count of both, for a member without an assignor of its own that speaks KIP-848."""
        before, after = old.state, new.state
        if before != after:
            _add(self._states, before, -1)
            self._states[after] += 1
        if before == STABLE:
            _add(self._reconciled, old.epoch, -1)
        if after == STABLE:
            self._reconciled[new.epoch] += 1

    def enter_epoch(self, epoch: int, metadata_hash: int) -> None:
        self.epoch, self.metadata_hash = epoch, metadata_hash
        self.changes += 1

    def take_joined(self, member: ConsumerMember, epoch: int) -> None:
        """As the replay of the records of a usual member that joins: it is described, bumps the epoch, and moves on."""
        self._install_new(member)
        self.enter_epoch(epoch, self.metadata_hash)

    def _install_new(self, member: ConsumerMember) -> None:
        """Install the member once, and let Kafka's map grow as if it was installed twice."""
        self._install(None, member)
        self.capacity = timeline_capacity(self.capacity, len(self.members) + 1)

    def take_target(self, member_id: str, target: Target) -> None:
        """As the replay of its record."""
        self.targets[member_id] = {topic_id: tuple(partitions) for topic_id, partitions in target.items()}

    def take_targets(self, targets: Targets, epoch: int, wall_ms: int) -> None:
        """As the replay of their records."""
        for member_id, target in targets.items():
            self.take_target(member_id, target)
        self.assignment_epoch, self.assignment_timestamp = epoch, wall_ms

    def _install(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        """Put `new` where `old` was, and keep everything that is derived from members."""
        if old is None or new is None or old.topic_names is not new.topic_names or old.topic_regex != new.topic_regex:
            self.subscriptions.change(old, new)
        if old is not None:
            if old.assigned:
                self._release(old.assigned, old.epoch, NOTHING if new is None else new.assigned)
            if old.pending_revocation:
                self._release(old.pending_revocation, old.epoch)
            self._count(old, -1)
        if new is not None:
            if new.assigned:
                self._hold(new.assigned, new.epoch)
            if new.pending_revocation:
                self._hold(new.pending_revocation, new.epoch)
            self._count(new, 1)
            # Kafka's map makes room for one more key even if it has the member already.
            self.capacity = timeline_capacity(self.capacity, len(self.members) + 1)
            self.members[new.member_id] = new
            if new.instance_id is not None:
                self.static_members[new.instance_id] = new.member_id
                if len(self.static_members) > 2 * len(self.members) + SPARE_INSTANCE_IDS:
                    self._forget_old_instance_ids()
        elif old is not None:
            del self.members[old.member_id]
            if old.instance_id is not None and self.static_members.get(old.instance_id) == old.member_id:
                del self.static_members[old.instance_id]

    def _forget_old_instance_ids(self) -> None:
        """As in Kafka, a group knows a member by all instance ids that it has had, but they must not become many."""
        known = [member for member in self.members.values() if member.instance_id is not None]
        self.static_members = {member.instance_id: member.member_id for member in known if member.instance_id}

    def _count(self, member: ConsumerMember, by: int) -> None:
        _add(self._states, member.state, by)
        if member.state == STABLE:
            _add(self._reconciled, member.epoch, by)
        if member.server_assignor is not None:
            if self.server_assignors[member.server_assignor] + by:  # removing does not make Kafka's map grow
                self.assignors_capacity = timeline_capacity(self.assignors_capacity, len(self.server_assignors) + 1)
            _add(self.server_assignors, member.server_assignor, by)
        if member.classic is not None:
            self.classic_member_count += by
            for name, _ in member.classic.protocols:
                _add(self.classic_protocols, name, by)

    def _hold(self, partitions: Partitions, epoch: int) -> None:
        for topic_id, owned in partitions.items():
            held = dict.fromkeys(owned, epoch)
            if holders := self._holders.get(topic_id):
                holders.update(held)
            else:
                self._holders[topic_id] = held

    def _release(self, partitions: Partitions, epoch: int, kept: Partitions = NOTHING) -> None:
        """Free the partitions, except those that another member has got in a later epoch.

        Topics that are the same in `kept` are left out: the caller is going to hold all of them in another epoch.
        """
        for topic_id, owned in partitions.items():
            if kept.get(topic_id) is owned:
                continue
            holders = self._holders.get(topic_id, {})
            for partition in owned:
                if holders.get(partition) == epoch:
                    del holders[partition]
            if not holders:
                self._holders.pop(topic_id, None)

    # --- as every group (see coordinator/group.py)

    def check_commit(self, shard: ShardState, request: OffsetCommitRequest, version: int) -> ErrorCode | None:
        epoch = request.generation_id_or_member_epoch
        if epoch < 0 and not self.members:
            return None
        member = self.members.get(request.member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if member.classic is None and version < FIRST_COMMIT_VERSION:
            return ErrorCode.UNSUPPORTED_VERSION
        return self._stale(member) if epoch > member.epoch else None

    def check_txn_commit(self, sender: Committer) -> ErrorCode | None:
        if sender.is_anonymous or (sender.generation_or_epoch < 0 and not self.members):
            return None
        member = self.members.get(sender.member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return self._stale(member) if sender.generation_or_epoch > member.epoch else None

    def check_commit_to(self, sender: Committer, topic_id: bytes, partition: int) -> ErrorCode | None:
        """A member may be an epoch behind, as long as it had the partition in that epoch already."""
        member = self.members.get(sender.member_id)
        epoch = sender.generation_or_epoch
        if member is None or epoch == member.epoch:
            return None
        since = member.owned_since(topic_id, partition)
        return self._stale(member) if since is None or epoch < since else None

    def check_fetch(self, group: OffsetFetchRequestGroup) -> ErrorCode | None:
        if group.member_id is None and group.member_epoch < 0:
            return None
        member = self.members.get(group.member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return self._stale(member) if group.member_epoch != member.epoch else None

    @staticmethod
    def _stale(member: ConsumerMember) -> ErrorCode:
        return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION

    def check_delete(self) -> ErrorCode | None:
        return ErrorCode.NON_EMPTY_GROUP if self.members else None

    def check_offset_delete(self) -> ErrorCode | None:
        return None

    @property
    def can_be_replaced(self) -> bool:
        return not self.members

    def is_subscribed_to(self, topic: str) -> bool:
        return self.subscriptions.includes(topic)

    def may_expire(self, topic: str) -> bool:
        return not self.subscriptions.includes(topic)

    @property
    def offsets_unused_since(self) -> int | None:
        return None

    @property
    def ends_without_offsets(self) -> bool:
        return not self.members

    def tombstones(self) -> list[Record]:
        return list(group_tombstones(self.group_id, list(self.members), list(self.subscriptions.resolved)))

    def on_loaded(self, shard: ShardState, out: Outcome) -> Iterable[None]:
        """Members get a whole session to report, and a whole rebalance timeout to give up partitions."""
        for member in self.members.values():
            self.heard_from(shard, member)
            if member.state == UNREVOKED:
                self.expect_revocation(shard, member)
            yield
        if may_downgrade(shard, self, ()):
            downgrade_later(shard, self, "", out)  # the broker may have ended before a large group was converted

    def abandon(self, error: ErrorCode, out: Outcome) -> None:
        """No request of a consumer group's member is ever parked."""
        self.is_abandoned = True

    # --- soft state

    def heard_from(self, shard: ShardState, member: ConsumerMember) -> None:
        timeout_ms = (
            shard.consumer_settings(self.group_id).session_timeout_ms
            if member.classic is None
            else member.classic.session_timeout_ms
        )
        self.hear(shard, member.member_id, timeout_ms)

    def hear(self, shard: ShardState, member_id: str, timeout_ms: int) -> None:
        session = self.sessions.get(member_id)
        if session is None:
            session = self.sessions[member_id] = Session(shard, self, member_id)
        session.heard(timeout_ms)

    def session_ended(self, shard: ShardState, member_id: str, out: Outcome) -> None:
        if member_id in self.members:
            remove_members(shard, self, [member_id], "session expired", out)

    def expect_revocation(self, shard: ShardState, member: ConsumerMember) -> None:
        self.rebalance_timeouts[member.member_id] = RebalanceTimeout(shard, self, member)

    def expect_no_revocation(self, member_id: str) -> None:
        timeout = self.rebalance_timeouts.pop(member_id, None)
        if timeout is not None:
            timeout.stop()

    def expect_join(self, shard: ShardState, member: ConsumerMember) -> None:
        """A classic member was told to join again. Its timeout runs from the first time that it was told."""
        if (JOIN, member.member_id) not in self.classic_timeouts:
            self.classic_timeouts[JOIN, member.member_id] = ClassicTimeout(shard, self, member, JOIN)

    def expect_sync(self, shard: ShardState, member: ConsumerMember) -> None:
        """A classic member has joined, and has to ask for its assignment."""
        self.joined(member.member_id)
        self.classic_timeouts[SYNC, member.member_id] = ClassicTimeout(shard, self, member, SYNC)

    def joined(self, member_id: str) -> None:
        self._stop(JOIN, member_id)

    def synced(self, member_id: str) -> None:
        self._stop(SYNC, member_id)

    def _stop(self, what: str, member_id: str) -> None:
        timeout = self.classic_timeouts.pop((what, member_id), None)
        if timeout is not None:
            timeout.stop()

    def forget(self, member_id: str) -> None:
        """The member is gone: nothing is expected of it any more."""
        self.expect_no_revocation(member_id)
        self.joined(member_id)
        self.synced(member_id)
        session = self.sessions.pop(member_id, None)
        if session is not None:
            session.stop()

    def pulse(
        self, shard: ShardState, member_id: str, instance_id: str | None, generation_or_epoch: int
    ) -> MemberPulse | ClassicPulse | None:
        """The fast path for heartbeats. A classic member sends Heartbeat, any other member ConsumerGroupHeartbeat."""
        member, session = self.members.get(member_id), self.sessions.get(member_id)
        if member is None or session is None or generation_or_epoch != member.epoch:
            return None
        if instance_id is not None and instance_id != member.instance_id:
            return None
        if member.classic is not None:
            return ClassicPulse(shard, self, member, session) if member.state == STABLE else None
        if not self.is_at_rest(shard, member):
            return None
        due = self.regexes_are_due_at(shard)
        until = NEVER if due is None else shard.clock.steady_ms + due - shard.clock.wall
        timeout_ms = shard.consumer_settings(self.group_id).session_timeout_ms
        return MemberPulse(shard, self, member_id, session, shard.consumer, timeout_ms, until)

    def commit_pulse(
        self, shard: ShardState, member_id: str, instance_id: str | None, generation_or_epoch: int
    ) -> CommitPulse | None:
        member = self.members.get(member_id)
        is_allowed = member is not None and generation_or_epoch == member.epoch
        return CommitPulse(self, member) if member is not None and is_allowed else None

    def is_at_rest(self, shard: ShardState, member: ConsumerMember) -> bool:
        """Whether a heartbeat of the member that says nothing new can change nothing."""
        return (
            self.epoch == self.assignment_epoch == member.epoch
            and member.state == STABLE
            and self.topics_version == shard.topics.version
            and (not self.subscriptions.regexes or self._is_resolved(shard))
        )

    def _is_resolved(self, shard: ShardState) -> bool:
        """Whether all regular expressions are resolved, and with all topics that there are."""
        known = len(self.subscriptions.regexes) == len(self.subscriptions.resolved)
        return known and self.regexes_version >= shard.topics.created_version and not self.is_resolving

    def regexes_are_due_at(self, shard: ShardState) -> int | None:
        """Wall time at which the topics are looked through anew. None: there are no regular expressions."""
        last = next((each.timestamp for each in self.subscriptions.resolved.values()), None)
        return None if last is None else last + shard.config.consumer_regex_refresh_interval_ms


Key = TypeVar("Key")
Value = TypeVar("Value", bound=Message)


def _add(counts: Counter[Key], key: Key, by: int) -> None:
    """A key whose count is 0 is not kept: epochs come and go."""
    count = counts.get(key, 0) + by
    if count:
        counts[key] = count
    else:
        counts.pop(key, None)


def _value(kind: type[Value], value: Message | None) -> Value | None:
    assert value is None or isinstance(value, kind), value
    return value


def find_consumer(shard: ShardState, group_id: str) -> ConsumerGroup | None:
    group = shard.groups.get(group_id)
    # Every SyncGroup of a classic group asks. isinstance() of an abstract class's child takes ten times as long.
    return group if type(group) is ConsumerGroup else None


def replay(shard: ShardState, key: Message, value: Message | None) -> None:
    """Replay one record. A group's first record creates it, and the tombstone of its epoch ends it."""
    group_id: str = key.group_id  # type: ignore[attr-defined]
    group = find_consumer(shard, group_id)
    if group is None:
        if value is None:
            return
        group = ConsumerGroup(group_id)
        shard.replace(group)
    if value is None and isinstance(key, ConsumerGroupMetadataKey):
        shard.end(group_id)
    else:
        group.replay(key, value)
