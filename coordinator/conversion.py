"""Online migration: a classic group becomes a consumer group and the other way round, while its members go on.

Upgrade: a member of the newer protocol joins a classic group. All members become members of a consumer group, with
what they are assigned, in an epoch that is their generation. Those that speak the classic protocol go on to do so.
Downgrade: only classic members are left in a consumer group. Its epoch is their generation.

Either way the records that end the one group and make the other are one batch of the log. The setting
group.consumer.migration.policy says which way is allowed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kohort.coordinator.assignors.java_order import timeline_order
from kohort.coordinator.assignors.server_side import Target
from kohort.coordinator.classic.delayed_join import begin_session, prepare_rebalance, stop_waiting
from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.member import CONSUMER_PROTOCOL, Member
from kohort.coordinator.classic.state import STABLE
from kohort.coordinator.consumer.classic_sync import packed_assignment
from kohort.coordinator.consumer.consumer_group_heartbeat import Heartbeat
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.member import ClassicMetadata, ConsumerMember, sorted_names
from kohort.coordinator.consumer.member_update import Refusal
from kohort.coordinator.consumer.rebalance import MAX_TOLD, begin_rebalance
from kohort.coordinator.consumer.records import (
    current_assignment_record,
    group_epoch_record,
    member_record,
    target_epoch_record,
    target_record,
)
from kohort.coordinator.consumer.subscriptions import Subscriptions
from kohort.coordinator.outcome import AtomicRecords, Call, Headers, Outcome, Record
from kohort.coordinator.partitioner import java_hash
from kohort.coordinator.record_codec import batch_bytes
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kohort.protocol.subscription import read_assignment, read_subscription

UPGRADE = "upgrade to consumer group"
DOWNGRADE = "downgrade to classic group"
NOT_KNOWN = 0  # when the target of a group was computed: then the next one need not wait
RECORDS_OF_MEMBER = 3
MIN_RECORD_BYTES = 20  # without the ids of group and member


# --- classic to consumer


def upgrade(
    shard: ShardState, classic: ClassicGroup, request: ConsumerGroupHeartbeatRequest, call: Call
) -> ConsumerGroupHeartbeatResponse | Outcome:
    if (problem := _cannot_be_upgraded(shard, classic)) is not None:
        return _refused(classic, problem)
    group = ConsumerGroup(classic.group_id)
    headers = begin_rebalance(shard, group, UPGRADE, request.member_id or call.client_id)
    try:
        records = [*classic.tombstones(), *_upgraded(shard, classic, headers)]
    except MalformedMessage:
        return _refused(classic, "the embedded consumer protocol is malformed.")
    except CustomAssignor:
        return _refused(
            classic,
            "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
            "assignor before re-attempting the upgrade.",
        )
    for record in records[1:]:
        group.replay(record.key, record.value)

    def install(out: Outcome) -> None:
        stop_waiting(shard, classic, ErrorCode.REBALANCE_IN_PROGRESS, out)
        shard.replace(group)
        for member in group.members.values():
            group.heard_from(shard, member)

    heartbeat = Heartbeat(shard, group, request, call, records, install)
    # A static member that takes over brings nothing new. But others may have waited for a generation that will not
    # come, and no member may have a partition that was to change hands, or that was created since.
    heartbeat.must_rebalance = classic.state is not STABLE or not _is_shared_out(shard, group)
    return heartbeat.answer()


def _is_shared_out(shard: ShardState, group: ConsumerGroup) -> bool:
    """Whether all partitions of the subscribed topics are assigned."""
    wanted = sum(shard.topics.partition_count(name) for name in group.subscriptions.names)
    return wanted == sum(len(owned) for target in group.targets.values() for owned in target.values())


class CustomAssignor(Exception):
    """An assignment has data of its assignor, which a consumer group cannot keep."""


def _refused(classic: ClassicGroup, problem: str) -> ConsumerGroupHeartbeatResponse:
    message = f"Cannot upgrade classic group {classic.group_id} to consumer group because {problem}"
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, message).response()


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


def _upgraded(shard: ShardState, classic: ClassicGroup, headers: Headers) -> Iterator[Record]:
    """The records that make the consumer group, in Kafka's order."""
    group_id, epoch = classic.group_id, classic.generation
    protocol = _common_protocol(classic)
    members = [_upgraded_member(shard, each, protocol, epoch) for each in classic.members.values()]
    subscriptions = Subscriptions()
    for member in members:
        subscriptions.change(None, member)
        yield member_record(group_id, member)
    yield group_epoch_record(group_id, epoch, subscriptions.metadata_hash(shard), headers)
    for member in members:
        target = {topic_id: tuple(sorted(owned)) for topic_id, owned in member.assigned.items()}
        yield target_record(group_id, member.member_id, target)
    yield target_epoch_record(group_id, epoch, NOT_KNOWN)
    for member in members:
        yield current_assignment_record(group_id, member)


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


# --- consumer to classic


def downgrade(
    shard: ShardState,
    group: ConsumerGroup,
    gone: Sequence[str],
    joining: ConsumerMember | None,
    rebalances: bool,
    out: Outcome,
) -> bool:
    """Make a classic group of a consumer group, without the members that are gone. False: it would be too large.

    `joining` takes the place of the static member that is gone. Unless that changes nothing, the members rebalance.
    """
    trigger = joining.member_id if joining is not None else ", ".join(gone)
    try:
        classic = _downgraded(shard, group, gone, joining)
    except MalformedMessage:
        return False
    classic.cause, classic.trigger = DOWNGRADE, trigger[:MAX_TOLD]
    record = classic.to_record(None, shard.clock.wall, shard.config.audit_headers)
    records = [*group.tombstones(), record]
    if sum(map(batch_bytes, records)) > shard.config.max_message_bytes:
        return False
    for member_id in group.members:
        group.forget(member_id)
    shard.replace(classic)
    for member in classic.members.values():
        begin_session(shard, classic, member).heard()
    out.records.append(AtomicRecords(records))
    if rebalances:
        prepare_rebalance(shard, classic, DOWNGRADE, trigger, out)
    return True


def _downgraded(
    shard: ShardState, group: ConsumerGroup, gone: Sequence[str], joining: ConsumerMember | None
) -> ClassicGroup:
    """Members come in Kafka's order: the first of them is the leader."""
    classic = ClassicGroup(group.group_id, shard.clock.wall, STABLE)
    classic.generation = group.epoch
    left_out = frozenset(gone)
    targets: dict[str, Target] = {}
    for member_id in timeline_order(group.members, group.capacity, java_hash):
        if member_id not in left_out:
            classic.add(_downgraded_member(group.members[member_id]), CONSUMER_PROTOCOL)
            targets[member_id] = group.target_of(member_id)
    if joining is not None:
        classic.add(_downgraded_member(joining), CONSUMER_PROTOCOL)
        (replaced,) = gone
        targets[joining.member_id] = group.target_of(replaced)
    classic.protocol_name = classic.select_protocol()
    classic.learn_subscriptions()
    for member in classic.members.values():
        member.assignment = packed_assignment(shard, targets[member.member_id], member.metadata(classic.protocol_name))
    return classic


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
