"""A classic group: its members, and what the log last said about it.

Hard state (what `replay` installs): generation, protocol type and name, leader, members with their assignments, and the
time it entered its state. Everything about a join phase in progress is soft.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kohort.coordinator.classic.answers import join_error
from kohort.coordinator.classic.delayed_join import begin_session, prepare_rebalance
from kohort.coordinator.classic.events import MAX_TOLD, WithoutOwner
from kohort.coordinator.classic.member import CONSUMER_PROTOCOL, Member, Protocols
from kohort.coordinator.classic.protocol_vote import choose_protocol
from kohort.coordinator.classic.session import ClassicPulse
from kohort.coordinator.classic.state import (
    ALLOWED_FROM,
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
    ClassicGroupState,
)
from kohort.coordinator.group import CLASSIC, Committer, Group
from kohort.coordinator.outcome import Outcome, Record
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.log_records import GROUP_METADATA
from kohort.protocol.messages.log_group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from kohort.protocol.messages.sync_group import SyncGroupResponse
from kohort.protocol.subscription import SubscribedTopics

if TYPE_CHECKING:
    from kohort.coordinator.shard_clock import ShardClock
    from kohort.coordinator.shard_state import ShardState
    from kohort.protocol.messages.offset_commit import OffsetCommitRequest

MAX_SUBSCRIBED = 50_000  # topics, of all members together, that are read: some 10 ms


class ClassicGroup(Group):
    __slots__ = (
        "_subscribed_topics",
        "_subscriptions",
        "cause",
        "committed_assignments",
        "coordinator_since",
        "generation",
        "join_phase_started",
        "join_phase_started_wall",
        "known_by",
        "leader_id",
        "members",
        "new_member_added",
        "pending_joins",
        "pending_syncs",
        "previous_state",
        "protocol_name",
        "protocol_type",
        "state",
        "state_timestamp",
        "static_members",
        "trigger",
        "without_owner",
    )

    type: str = CLASSIC
    protocol_type: str | None

    def __init__(self, group_id: str, wall_ms: int = -1, state: ClassicGroupState = EMPTY) -> None:
        super().__init__(group_id)
        self.state = state
        self.previous_state = EMPTY
        self.state_timestamp = wall_ms
        self.generation = 0
        self.protocol_type = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: OrderedDict[str, Member] = OrderedDict()  # a plain dict is slow to find its first key
        self.known_by: dict[str, int] = {}  # protocol: count of members
        self.static_members: dict[str, str] = {}  # instance id: member id
        self.pending_joins: dict[str, None] = {}  # ids handed out, not yet joined; a dict keeps their order
        self.pending_syncs: dict[str, None] = {}  # members whose SyncGroup has not come
        self.new_member_added = False  # during the first wait of a new group
        self._subscriptions: list[bytes] | None = None  # metadata of this generation that was not read yet
        self._subscribed_topics: frozenset[str] | None = None  # None: unknown
        self.join_phase_started = 0  # shard time
        self.join_phase_started_wall = wall_ms
        self.committed_assignments: dict[str, bytes] = {}  # by owner (see events.py), of the last generation written
        self.without_owner: WithoutOwner = {}  # partitions that nobody has, with their last owners: for events.py
        self.coordinator_since = 0  # wall time at which the log was loaded, when the join phase began
        self.cause = ""  # why the current join phase began; `trigger`: the member that caused it
        self.trigger = ""

    # --- state

    def transition_to(self, target: ClassicGroupState, wall_ms: int) -> None:
        assert self.state in ALLOWED_FROM[target], (self.group_id, self.state, target)
        self.previous_state = self.state
        self.state = target
        self.state_timestamp = wall_ms

    def begin_join_phase(self, clock: ShardClock, cause: str, trigger: str) -> None:
        self.transition_to(PREPARING_REBALANCE, clock.wall)
        self.join_phase_started, self.join_phase_started_wall = clock.now, clock.wall
        self.cause, self.trigger = cause, trigger
        self.coordinator_since = clock.loaded_wall

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def member_count(self) -> int:
        return len(self.members)

    @property
    def is_simple(self) -> bool:
        """Whether the group has offsets only, and never had a member."""
        return self.protocol_type is None

    # --- members

    def add(self, member: Member, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        self.members[member.member_id] = member
        self._count(member.protocols, 1)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.pending_joins.pop(member.member_id, None)

    def remove(self, member_id: str) -> Member | None:
        self.pending_joins.pop(member_id, None)
        self.pending_syncs.pop(member_id, None)
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        self._count(member.protocols, -1)
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
            del self.static_members[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        return member

    def replace(self, old: Member, new: Member) -> None:
        """Put `new` where `old` stood: the leader sees members in this order."""
        assert new.instance_id is not None
        self.members = OrderedDict(
            ((new.member_id, new) if known == old.member_id else (known, each)) for known, each in self.members.items()
        )
        self._count(old.protocols, -1)
        self._count(new.protocols, 1)
        self.static_members[new.instance_id] = new.member_id
        if self.leader_id == old.member_id:
            self.leader_id = new.member_id
        if old.member_id in self.pending_syncs:
            del self.pending_syncs[old.member_id]
            self.pending_syncs[new.member_id] = None

    def awaiting_join_count(self) -> int:
        return sum(1 for member in self.members.values() if member.awaiting_join is not None)

    def all_have_joined(self) -> bool:
        # Members mostly rejoin in the order in which they joined: the last one is the likeliest to be missing.
        return not self.pending_joins and all(m.awaiting_join is not None for m in reversed(self.members.values()))

    def max_rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode | None:
        """An error if the sender is not the member that it claims to be."""
        if instance_id is not None:
            known = self.static_members.get(instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return None if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    # --- protocols

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether somebody with these protocols can be a member, or remain one."""
        if self.state is EMPTY:
            return bool(protocol_type) and bool(protocols)
        if protocol_type != (self.protocol_type or ""):
            return False
        # A group without members supports every protocol: 0 of 0 members know it.
        return any(self.known_by.get(name, 0) == len(self.members) for name, _ in protocols)

    def change_protocols(self, member: Member, protocols: Protocols) -> None:
        self._count(member.protocols, -1)
        member.protocols = tuple(protocols)
        self._count(protocols, 1)

    def _count(self, protocols: Protocols, by: int) -> None:
        """Count how many members know each protocol, so that a join need not look at all of them."""
        names = (protocols[0][0],) if len(protocols) == 1 else {name for name, _ in protocols}
        for name in names:
            count = self.known_by.get(name, 0) + by
            if count:
                self.known_by[name] = count
            else:
                del self.known_by[name]

    def select_protocol(self) -> str:
        return choose_protocol(list(self.members.values()), self.known_by)

    def learn_subscriptions(self) -> None:
        """Keep the metadata of this generation. It is read when somebody asks for its topics, which is rare."""
        is_readable = self.protocol_type == CONSUMER_PROTOCOL
        self._subscribed_topics = None
        self._subscriptions = (
            [member.metadata(self.protocol_name) for member in self.members.values()] if is_readable else None
        )

    @property
    def subscribed_topics(self) -> frozenset[str] | None:
        """Topics that the members consume, from their metadata; None if that cannot be read, or takes too long."""
        if self._subscriptions is not None:
            self._subscribed_topics = _topics_of(self._subscriptions)
            self._subscriptions = None
        return self._subscribed_topics

    # --- as every group (see coordinator/group.py)

    def check_commit(self, shard: ShardState, request: OffsetCommitRequest, version: int) -> ErrorCode | None:
        generation = request.generation_id_or_member_epoch
        if generation < 0 and self.state is EMPTY:
            return None
        if generation < 0 and not request.member_id and request.group_instance_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID  # the sender claims to be no member, and the group has members
        if error := self.check_member(request.member_id, request.group_instance_id):
            return error
        if generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if self.state is COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        self.members[request.member_id].session.heard()
        return None

    def check_txn_commit(self, sender: Committer) -> ErrorCode | None:
        """The members may be in the middle of a rebalance."""
        if sender.is_anonymous or (sender.generation_or_epoch < 0 and self.state is EMPTY):
            return None
        if error := self.check_member(sender.member_id, sender.instance_id):
            return error
        return None if sender.generation_or_epoch == self.generation else ErrorCode.ILLEGAL_GENERATION

    def check_delete(self) -> ErrorCode | None:
        return None if self.state is EMPTY else ErrorCode.NON_EMPTY_GROUP

    def check_offset_delete(self) -> ErrorCode | None:
        is_in_use = self.state is not EMPTY and self.protocol_type != CONSUMER_PROTOCOL
        return ErrorCode.NON_EMPTY_GROUP if is_in_use else None

    @property
    def can_be_replaced(self) -> bool:
        return False

    def is_subscribed_to(self, topic: str) -> bool:
        return self.state is not EMPTY and (self.subscribed_topics is None or topic in self.subscribed_topics)

    def may_expire(self, topic: str) -> bool:
        if self.state is EMPTY:
            return True
        return self.state is STABLE and self.protocol_type == CONSUMER_PROTOCOL and not self.is_subscribed_to(topic)

    @property
    def offsets_unused_since(self) -> int | None:
        is_known = self.state is EMPTY and not self.is_simple and self.state_timestamp >= 0
        return self.state_timestamp if is_known else None

    @property
    def ends_without_offsets(self) -> bool:
        return self.state is EMPTY

    def tombstones(self) -> list[Record]:
        return [Record(GROUP_METADATA, GroupMetadataKey(self.group_id), None)]

    def on_loaded(self, shard: ShardState, out: Outcome) -> Iterable[None]:
        """Each member has a whole session timeout to send its first heartbeat."""
        for member in self.members.values():
            begin_session(shard, self, member).heard()
            yield
        if len(self.members) > shard.config.max_size:
            prepare_rebalance(shard, self, "over capacity", "", out)

    def abandon(self, error: ErrorCode, out: Outcome) -> None:
        for member in self.members.values():
            if (join := member.awaiting_join) is not None:
                out.reply_at_once(join, join_error(join.version, error, ""))
            if (sync := member.awaiting_sync) is not None:
                out.reply_at_once(sync, SyncGroupResponse(0, error))
            member.awaiting_join = member.awaiting_sync = None
        self.transition_to(DEAD, self.state_timestamp)

    def pulse(
        self, shard: ShardState, member_id: str, instance_id: str | None, generation_or_epoch: int
    ) -> ClassicPulse | None:
        member = self.members.get(member_id)
        if self.state is not STABLE or generation_or_epoch != self.generation or member is None:
            return None
        return ClassicPulse(shard, self, member) if instance_id == member.instance_id else None

    # --- records

    def to_record(self, assignments: dict[str, bytes] | None, since: int, headers: bool) -> Record:
        """The group as it will be when this record is replayed. `assignments` None: those in force.

        `since` is the wall time at which the group entered its present state. Kafka writes an assignment before the
        group becomes Stable, so the `since` of an assignment is the end of the join phase.
        """
        members = [
            MemberMetadata(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.session_timeout_ms,
                member.metadata(self.protocol_name),
                member.assignment if assignments is None else assignments.get(member.member_id, b""),
            )
            for member in self.members.values()
        ]
        value = GroupMetadataValue(
            self.protocol_type or "", self.generation, self.protocol_name, self.leader_id, since, members
        )
        return Record(GROUP_METADATA, GroupMetadataKey(self.group_id), value, self._audit_headers() if headers else ())

    def _audit_headers(self) -> tuple[tuple[bytes, bytes | None], ...]:
        """Why and when the rebalance began, which Kafka's records do not say. Kafka skips record headers."""
        if not self.cause:
            return ()
        headers = (
            (b"kohort.coordinator.start.ms", b"%d" % self.coordinator_since),
            (b"kohort.join.start.ms", b"%d" % self.join_phase_started_wall),
            (b"kohort.cause", self.cause.encode()),
            (b"kohort.trigger", self.trigger.encode()),
        )
        last = max(self.members.values(), key=lambda member: member.joined_at, default=None)
        if last is None or last.joined_at < self.join_phase_started:
            return headers
        joined_ms = self.join_phase_started_wall + last.joined_at - self.join_phase_started
        return (
            *headers,
            (b"kohort.last.joined", last.member_id[:MAX_TOLD].encode()),
            (b"kohort.last.joined.ms", b"%d" % joined_ms),
        )

    @classmethod
    def restored(cls, group_id: str, value: GroupMetadataValue) -> ClassicGroup:
        """The group that a record of the log describes, as it is loaded."""
        group = cls(group_id, state=STABLE if value.members else EMPTY)
        group._learn(value)
        return group

    def replay(self, value: GroupMetadataValue) -> None:
        """Install a generation that was just decided.

        The empty record of a group that was just created is replayed after its first member has joined. That record
        says nothing new, and the join phase must go on.
        """
        if not value.members and self.members and self.state is PREPARING_REBALANCE:
            return
        target = STABLE if value.members else EMPTY
        if self.state is not target:
            self.transition_to(target, value.current_state_timestamp)
        self._learn(value)

    def _learn(self, value: GroupMetadataValue) -> None:
        """Live or at restart, this is the only writer of hard state."""
        self.generation = value.generation
        self.protocol_type = value.protocol_type or None
        self.protocol_name = value.protocol
        self.leader_id = value.leader
        self.state_timestamp = value.current_state_timestamp
        self._install(value.members)
        self.committed_assignments = {
            each.group_instance_id or each.member_id: each.assignment for each in value.members
        }
        if not value.members:
            self.without_owner = {}
        self.learn_subscriptions()

    def _install(self, saved_members: Iterable[MemberMetadata]) -> None:
        """Take the members from the record. A known member stays the same object and keeps its soft state."""
        before, self.members = self.members, OrderedDict()
        changed = len(before)
        for saved in saved_members:
            chosen = (self.protocol_name or "", saved.subscription)
            member = before.get(saved.member_id)
            if member is None or chosen not in member.protocols:
                rebalance_timeout_ms = (
                    saved.rebalance_timeout if saved.rebalance_timeout >= 0 else saved.session_timeout
                )
                member = Member(
                    saved.member_id, saved.group_instance_id, saved.client_id, saved.client_host,
                    saved.session_timeout, rebalance_timeout_ms, [chosen],
                )  # fmt: skip
            else:
                changed -= 1
            member.assignment = saved.assignment
            self.members[saved.member_id] = member
        if changed or len(before) != len(self.members):  # usually the members are the same, and counted
            self._count_all()

    def _count_all(self) -> None:
        self.static_members = {}
        self.known_by.clear()
        for member in self.members.values():
            if member.instance_id is not None:
                self.static_members[member.instance_id] = member.member_id
            self._count(member.protocols, 1)


def _topics_of(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    topics: set[str] = set()
    read = 0
    reader = SubscribedTopics()
    before: Sequence[str] | None = None
    for metadata in subscriptions:
        try:
            subscribed = reader.read(metadata)
        except MalformedMessage:
            return None
        if subscribed is not before:
            before = subscribed
            read += len(subscribed)
            if read > MAX_SUBSCRIBED:
                return None
            topics.update(subscribed)
    return frozenset(topics)


def empty_group_record(group_id: str, wall_ms: int) -> Record:
    """The first record of a group. It says that the group exists."""
    return ClassicGroup(group_id).to_record({}, wall_ms, headers=False)


def find_classic(shard: ShardState, group_id: str) -> ClassicGroup | None:
    group = shard.groups.get(group_id)
    return group if isinstance(group, ClassicGroup) else None
