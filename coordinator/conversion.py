"""Online migration: a classic group becomes a consumer group and the other way round, while its members go on.

Upgrade: a member of the newer protocol joins a classic group. All members become members of a consumer group, with
what they are assigned, in an epoch that is their generation. Those that speak the classic protocol go on to do so.
Downgrade: only classic members are left in a consumer group. Its epoch is their generation.

Either way the records that end the one group and make the other are one batch of the log. The setting
group.consumer.migration.policy says which way is allowed.

A group with many members is converted in steps, between the requests of others. The steps make the new group: each
record is packed, and replayed into a group object that nobody knows yet. In the last step the new group takes the place
of the old one. If the old one has changed meanwhile, the steps begin anew. So a conversion is one event for everybody:

    upgrade     the first heartbeat of the consumer waits for it
    downgrade   the last consumer is removed first, and is told so. The group has classic members only until the steps
                are done
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence

from kohort.coordinator.api import Steps, all_steps, in_slices
from kohort.coordinator.assignors.java_order import timeline_order_of, timeline_slot
from kohort.coordinator.assignors.server_side import NO_PARTITIONS
from kohort.coordinator.classic.delayed_join import begin_session, prepare_rebalance, stop_waiting
from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.member import CONSUMER_PROTOCOL, Member
from kohort.coordinator.classic.state import DEAD, STABLE
from kohort.coordinator.consumer.classic_sync import packed_assignment
from kohort.coordinator.consumer.consumer_group_heartbeat import Heartbeat
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.member import ClassicMetadata, ConsumerMember, sorted_names
from kohort.coordinator.consumer.member_update import TOO_LARGE, Refusal
from kohort.coordinator.consumer.records import (
    current_assignment_record,
    group_epoch_record,
    group_tombstones,
    member_record,
    target_epoch_record,
    target_record,
)
from kohort.coordinator.consumer.removal import FEW_MEMBERS, may_downgrade
from kohort.coordinator.consumer.subscriptions import Subscriptions
from kohort.coordinator.outcome import Call, InPieces, Outcome, PackedRecords, Record
from kohort.coordinator.partitioner import java_hash
from kohort.coordinator.pieces import in_pieces
from kohort.coordinator.rebalance import MAX_TOLD, begin_rebalance
from kohort.coordinator.record_codec import add_packed
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kohort.protocol.messages.log_group_metadata import GroupMetadataValue
from kohort.protocol.record_batch import BATCH_HEADER_BYTES
from kohort.protocol.subscription import read_assignment, read_subscription

UPGRADE = "upgrade to consumer group"
DOWNGRADE = "downgrade to classic group"
NOT_KNOWN = 0  # the time at which the target was computed: the next target need not wait for an interval
RECORDS_OF_MEMBER = 3
MIN_RECORD_BYTES = 20  # without the ids of group and member
MEMBERS_IN_STEP = 50
MAX_TRIES = 20  # a group that changes again and again is converted in one step after so many tries


# --- classic to consumer


class Upgrade:
    """A consumer group on the way from a classic one."""

    def __init__(
        self, shard: ShardState, classic: ClassicGroup, trigger: str, trigger_client: str, tries: int = 0
    ) -> None:
        self._shard = shard
        self._classic = classic
        self._before: object = None  # a picture of the group when the steps began
        self.tries = tries  # how often the steps were begun before, and the group changed
        self.problem: str | None = None  # why the group cannot be upgraded
        self.error = ErrorCode.GROUP_ID_NOT_FOUND
        self.records = PackedRecords()
        self.group = ConsumerGroup(classic.group_id)
        self._headers = begin_rebalance(shard, self.group, UPGRADE, trigger, trigger_client)

    def is_current(self, classic: ClassicGroup) -> bool:
        """Whether the classic group, and the topics, are as they were when the steps began."""
        return classic is self._classic and self._before == _picture_of_classic(self._shard, classic)

    def steps(self) -> Steps[None]:
        if self._shard.groups.get(self.group.group_id) is not self._classic:
            return  # something else has happened to the group before the first step
        self._before = _picture_of_classic(self._shard, self._classic)
        try:
            yield from self._convert()
        except MalformedMessage:
            self.problem = "the embedded consumer protocol is malformed."
        except CustomAssignor:
            self.problem = (
                "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
                "assignor before re-attempting the upgrade."
            )
        except TwoOwners:
            self.problem = "its leader has assigned a partition to two members."
            self.error = ErrorCode.UNKNOWN_SERVER_ERROR

    def _convert(self) -> Steps[None]:
        """The records that make the consumer group, in Kafka's order."""
        shard, classic, group_id, epoch = self._shard, self._classic, self.group.group_id, self._classic.generation
        # All may have left while somebody who was given a member id has not joined yet.
        protocol = _common_protocol(classic) if classic.members else ""
        subscriptions = Subscriptions()
        members: list[ConsumerMember] = []
        taken: dict[bytes, set[int]] = {}
        for tombstone in classic.tombstones():
            add_packed(self.records, tombstone)
        for some in in_slices(list(classic.members.values()), MEMBERS_IN_STEP):
            for each in some:
                member = _upgraded_member(shard, each, protocol, epoch)
                _take(member, taken)
                subscriptions.change(None, member)
                members.append(member)
                self._add(member_record(group_id, member))
            yield
        self._add(group_epoch_record(group_id, epoch, subscriptions.metadata_hash(shard), self._headers))
        for some_members in in_slices(members, MEMBERS_IN_STEP):
            for member in some_members:
                target = {topic_id: tuple(sorted(owned)) for topic_id, owned in member.assigned.items()}
                self._add(target_record(group_id, member.member_id, target))
            yield
        self._add(target_epoch_record(group_id, epoch, NOT_KNOWN))
        for some_members in in_slices(members, MEMBERS_IN_STEP):
            for member in some_members:
                self._add(current_assignment_record(group_id, member))
            yield

    def _add(self, record: Record) -> None:
        add_packed(self.records, record)
        self.group.replay(record.key, record.value)

    def install(self, out: Outcome) -> None:
        shard, group = self._shard, self.group
        stop_waiting(shard, self._classic, ErrorCode.REBALANCE_IN_PROGRESS, out)
        shard.replace(group)
        if len(group.members) <= FEW_MEMBERS:
            _begin_consumer_sessions(shard, group, group.members)

    def begin_sessions(self) -> Iterator[Outcome]:
        """Begin the sessions of a large group in pieces. Until then a member may be silent for longer."""
        for some in in_slices(list(self.group.members)):
            if self.group.is_abandoned:
                return
            _begin_consumer_sessions(self._shard, self.group, some)
            yield Outcome()


def upgrade(
    shard: ShardState,
    classic: ClassicGroup,
    request: ConsumerGroupHeartbeatRequest,
    call: Call,
    made: Upgrade | None = None,
) -> ConsumerGroupHeartbeatResponse | Outcome | Upgrade:
    """`made`: what was prepared for this request. Returns an Upgrade if its steps have to be taken first."""
    if made is None or not made.is_current(classic):
        if (problem := _cannot_be_upgraded(shard, classic)) is not None:
            return _refused(classic, problem)
        tries = made.tries + 1 if made is not None else 0
        client = request.instance_id or call.client_id
        made = Upgrade(shard, classic, request.member_id or call.client_id, client, tries)
        if len(classic.members) > FEW_MEMBERS and made.tries < MAX_TRIES:
            return made
        all_steps(made.steps())
    if made.problem is not None:
        return _refused(classic, made.problem, made.error)
    if _is_too_large(shard, made.records):
        return TOO_LARGE.response()
    group = made.group
    heartbeat = Heartbeat(shard, group, request, call, [], made.records, made.install)
    # A static member that takes over brings nothing new, so the epoch stays, and everybody keeps what it was last
    # assigned: as in Kafka, also if the group was in the middle of a rebalance. Only a group that was never assigned
    # anything, which Kafka 4.3.1 cannot upgrade, has no epoch yet that could stay.
    heartbeat.must_rebalance = classic.protocol_name is None
    answer = heartbeat.answer()
    if isinstance(answer, Outcome) and len(group.members) > FEW_MEMBERS:
        answer.jobs = [InPieces(made.begin_sessions()), *answer.jobs]
    return answer


def _picture_of_classic(shard: ShardState, classic: ClassicGroup) -> object:
    """What an upgrade depends on. Two pictures are equal if it would give the same group."""
    members = [
        (each, each.protocols, each.assignment, each.session_timeout_ms, each.rebalance_timeout_ms)
        for each in classic.members.values()
    ]
    return classic.state, classic.generation, classic.protocol_name, shard.topics.version, members


def _begin_consumer_sessions(shard: ShardState, group: ConsumerGroup, member_ids: Iterable[str]) -> None:
    for member_id in member_ids:
        member = group.members.get(member_id)
        if member is not None and member_id not in group.sessions:
            group.heard_from(shard, member)


def _is_too_large(shard: ShardState, records: PackedRecords) -> bool:
    return records.size_bytes + BATCH_HEADER_BYTES > shard.config.max_message_bytes


class CustomAssignor(Exception):
    """An assignment has data of its assignor, which a consumer group cannot keep."""


class TwoOwners(Exception):
    """A partition is assigned to two members. In a consumer group one that gives it up would free it for others."""


def _refused(
    classic: ClassicGroup, problem: str, error: ErrorCode = ErrorCode.GROUP_ID_NOT_FOUND
) -> ConsumerGroupHeartbeatResponse:
    message = f"Cannot upgrade classic group {classic.group_id} to consumer group because {problem}"
    return Refusal(error, message).response()


def _cannot_be_upgraded(shard: ShardState, classic: ClassicGroup) -> str | None:
    if not shard.config.upgrades_groups:
        return "online upgrade is disabled."
    if classic.protocol_type != CONSUMER_PROTOCOL:
        return "the group does not use the consumer embedded protocol."
    if len(classic.members) > shard.config.consumer_max_size:
        return "the group size exceeds the consumer group maximum size."
    least = sum(_least_bytes(classic, member) for member in classic.members.values())
    return "its records do not fit into one batch." if least > shard.config.max_message_bytes else None


def _least_bytes(classic: ClassicGroup, member: Member) -> int:
    """How many bytes of the log the member of a consumer group takes, at least."""
    key_bytes = len(classic.group_id) + len(member.member_id) + MIN_RECORD_BYTES
    return RECORDS_OF_MEMBER * key_bytes + sum(len(metadata) for _, metadata in member.protocols)


def _common_protocol(classic: ClassicGroup) -> str:
    """The protocol of the generation. In a join phase there may be none, or one that new members do not know."""
    chosen = classic.protocol_name
    is_common = chosen is not None and classic.known_by.get(chosen) == len(classic.members)
    return chosen if chosen is not None and is_common else classic.select_protocol()


def _upgraded_member(shard: ShardState, member: Member, protocol: str, epoch: int) -> ConsumerMember:
    """The member as it is in the consumer group: stable, with what it was last assigned."""
    subscription = read_subscription(member.metadata(protocol))
    assigned: dict[bytes, dict[int, int]] = {}
    if member.assignment:
        assignment = read_assignment(member.assignment)
        if assignment.user_data:
            raise CustomAssignor(member.member_id)
        for topic in assignment.assigned_partitions:
            if (topic_id := shard.topics.topic_id(topic.topic)) is not None:
                assigned.setdefault(topic_id, {}).update(dict.fromkeys(topic.partitions, epoch))
    return ConsumerMember(
        member.member_id,
        epoch,
        epoch,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id or None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        topic_names=sorted_names(subscription.topics),
        assigned=assigned,
        classic=ClassicMetadata(member.session_timeout_ms, member.protocols),
    )


def _take(member: ConsumerMember, taken: dict[bytes, set[int]]) -> None:
    for topic_id, owned in member.assigned.items():
        already = taken.setdefault(topic_id, set())
        if not already.isdisjoint(owned):
            raise TwoOwners(member.member_id)
        already.update(owned)


# --- consumer to classic


class Downgrade:
    """A classic group on the way from a consumer group, without the members that are gone.

    `joining` takes the place of the static member that is gone.
    """

    def __init__(
        self,
        shard: ShardState,
        group: ConsumerGroup,
        gone: Sequence[str],
        joining: ConsumerMember | None,
        trigger: str,
    ) -> None:
        self._shard = shard
        self._group = group
        self._gone = gone
        self._joining = joining
        self._trigger = trigger
        self._members = dict(group.members)
        self._targets = dict(group.targets)
        self._before = _picture_of_consumers(shard, group)
        self.is_possible = True
        self.records = PackedRecords()
        self.classic = ClassicGroup(group.group_id, shard.clock.wall, STABLE)

    def is_current(self) -> bool:
        """Whether the consumer group, and the topics, are as they were when the steps began."""
        return not self._group.is_abandoned and self._before == _picture_of_consumers(self._shard, self._group)

    def steps(self) -> Steps[None]:
        try:
            yield from self._convert()
        except MalformedMessage:
            self.is_possible = False
        self.is_possible &= not _is_too_large(self._shard, self.records)

    def _convert(self) -> Steps[None]:
        shard, group, classic = self._shard, self._group, self.classic
        tombstones = group_tombstones(group.group_id, list(self._members), list(group.subscriptions.resolved))
        for some in in_slices(tombstones, MEMBERS_IN_STEP):
            for tombstone in some:
                add_packed(self.records, tombstone)
            yield
        yield from self._add_members()
        classic.cause, classic.trigger = DOWNGRADE, self._trigger[:MAX_TOLD]
        record = classic.to_record(None, shard.clock.wall, shard.config.audit_headers)
        yield
        add_packed(self.records, record)
        yield
        assert isinstance(record.value, GroupMetadataValue)
        classic.replay(record.value)

    def _add_members(self) -> Steps[None]:
        """Members come in Kafka's order: the first of them is the leader."""
        shard, group, classic = self._shard, self._group, self.classic
        classic.generation = group.epoch
        left_out = frozenset(self._gone)
        capacity, slots = group.capacity, dict[str, int]()
        for some in in_slices(self._members):
            slots.update((member_id, timeline_slot(java_hash(member_id), capacity)) for member_id in some)
            yield
        for some in in_slices(timeline_order_of(slots)):
            for member_id in some:
                if member_id not in left_out:
                    self._add_member(self._members[member_id])
            yield
        if self._joining is not None:
            self._add_member(self._joining)
            (replaced,) = self._gone
            self._targets[self._joining.member_id] = group.target_of(replaced)
        classic.protocol_name = classic.select_protocol()
        yield
        for some_members in in_slices(list(classic.members.values()), MEMBERS_IN_STEP):
            for member in some_members:
                metadata = member.metadata(classic.protocol_name)
                member.assignment = packed_assignment(
                    shard, self._targets.get(member.member_id, NO_PARTITIONS), metadata
                )
            yield

    def _add_member(self, member: ConsumerMember) -> None:
        added = _downgraded_member(member)
        self.classic.add(added, CONSUMER_PROTOCOL)
        begin_session(self._shard, self.classic, added)

    def install(self, rebalances: bool, out: Outcome) -> None:
        """Put the classic group into the shard. `rebalances`: its members have to join again."""
        out.records.append(self.records)
        self._shard.replace(self.classic)
        if not self._is_large:
            self._begin_sessions(self._member_ids())
        if rebalances:
            prepare_rebalance(self._shard, self.classic, DOWNGRADE, self._trigger, out)

    @property
    def _is_large(self) -> bool:
        return len(self._group.members) > FEW_MEMBERS

    def _member_ids(self) -> list[str]:
        """Of both groups."""
        return list(dict.fromkeys((*self._group.members, *self.classic.members)))

    def begin_sessions(self) -> Iterator[Outcome]:
        """Begin the sessions of a large group in pieces. Until then a member may be silent for longer."""
        for some in in_slices(self._member_ids()):
            if self.classic.state is DEAD:
                return
            self._begin_sessions(some)
            yield Outcome()

    def _begin_sessions(self, member_ids: Iterable[str]) -> None:
        for member_id in member_ids:
            member = self.classic.members.get(member_id)
            self._group.forget(member_id)
            if member is not None:
                member.session.stop()  # the sessions of a member in both groups are watched under the same key
                member.session.heard()


def _picture_of_consumers(shard: ShardState, group: ConsumerGroup) -> object:
    """What a downgrade depends on. Two pictures are equal if it would give the same group."""
    resolved = list(group.subscriptions.resolved)
    return group.epoch, shard.topics.version, dict(group.members), dict(group.targets), resolved


def downgrade(
    shard: ShardState,
    group: ConsumerGroup,
    gone: Sequence[str],
    joining: ConsumerMember | None,
    rebalances: bool,
    out: Outcome,
) -> bool:
    """Make a classic group of a consumer group, in one step. False: it would be too large."""
    trigger = joining.member_id if joining is not None else ", ".join(gone)
    made = Downgrade(shard, group, gone, joining, trigger)
    all_steps(made.steps())
    if made.is_possible:
        made.install(rebalances, out)
    return made.is_possible


def downgrade_in_pieces(shard: ShardState, group: ConsumerGroup, trigger: str) -> Iterator[Outcome]:
    """Make a classic group of a large group in which only classic members are left."""
    try:
        made = yield from _prepare_downgrade(shard, group, trigger)
    finally:
        group.is_converting = False
    if made is not None and made.is_possible:
        out = Outcome()
        made.install(group.state_name != "Stable", out)
        yield out
        yield from made.begin_sessions()


def _prepare_downgrade(
    shard: ShardState, group: ConsumerGroup, trigger: str
) -> Generator[Outcome, None, Downgrade | None]:
    """None: there is nothing to do any more, or the records would not fit into one batch."""
    tries = 0
    while not group.is_abandoned and may_downgrade(shard, group, ()) and _least_tombstones(group) <= _limit(shard):
        made = Downgrade(shard, group, (), None, trigger)
        if tries < MAX_TRIES:
            yield from in_pieces(made.steps(), 1)
        else:
            all_steps(made.steps())
        if made.is_current():
            return made
        tries += 1
    return None


def _least_tombstones(group: ConsumerGroup) -> int:
    """How many bytes the tombstones of the members have, at least."""
    ids = sum(map(len, group.members)) + len(group.members) * (len(group.group_id) + MIN_RECORD_BYTES)
    return RECORDS_OF_MEMBER * ids


def _limit(shard: ShardState) -> int:
    return shard.config.max_message_bytes


def _downgraded_member(member: ConsumerMember) -> Member:
    assert member.classic is not None, member
    return Member(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.classic.session_timeout_ms,
        member.rebalance_timeout_ms,
        member.classic.protocols,
    )
