"""The heartbeats that come by the dozen while a group converges, decided without all the steps of member_update.py.

There are two kinds. A new member joins, and another heartbeat will compute the target; or a member that says nothing
new about itself comes nearer to its target, or has nothing to do. What is unusual in any way is left to
member_update.py. The outcome is the same: a test plays random groups in both ways, and compares their answers and logs.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kohort.coordinator.assignors.server_side import NO_PARTITIONS
from kohort.coordinator.consumer.changes import (
    MOST_BYTES_OF_A_START,
    fits,
    packed_assignment,
    packed_epoch,
    packed_member,
    packed_names,
)
from kohort.coordinator.consumer.member import (
    JOIN_EPOCH,
    NOTHING,
    STABLE,
    UNRELEASED,
    UNREVOKED,
    ConsumerMember,
    Partitions,
    sorted_names,
)
from kohort.coordinator.consumer.reconcile import Reconciliation, first_share
from kohort.coordinator.outcome import Outcome, StepOutcome, StepRecords
from kohort.coordinator.rebalance import Rebalance, client_of, end_rebalance
from kohort.protocol.consumer_group_record import pack_name
from kohort.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from kohort.coordinator.assignors.server_side import TopicId
    from kohort.coordinator.consumer.group import ConsumerGroup
    from kohort.coordinator.outcome import Call
    from kohort.coordinator.shard_state import ShardState

Answer = ConsumerGroupHeartbeatResponse | Outcome | StepOutcome

FEW_TOPICS = 200  # in a subscription
MAX_KEPT_NAMES = 200  # bytes: ids that are longer are packed again for each record
JAVA_BLANKS = "".join(map(chr, range(33)))  # what String.trim takes away: fewer characters than Python's strip


def usual_answer(
    shard: ShardState, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, call: Call
) -> Answer | None:
    """None: the heartbeat is not usual."""
    if (
        not shard.config.consumer_enabled
        or group.topics_version != shard.topics.version
        or group.subscriptions.regexes  # they are resolved anew from time to time
        or group.subscriptions.resolved
        or request.instance_id is not None
    ):
        return None
    member, epoch = group.members.get(request.member_id), request.member_epoch
    if member is None:
        return _joined(shard, group, request, call) if epoch == JOIN_EPOCH else None
    if epoch != member.epoch or epoch <= 0 or member.classic is not None or not says_nothing(request, member, call):
        return None
    return _went_on(shard, group, member, request, call)


def says_nothing(request: ConsumerGroupHeartbeatRequest, member: ConsumerMember, call: Call) -> bool:
    """Whether the member describes itself as before, by leaving everything out."""
    return (
        request.subscribed_topic_names is None
        and request.rebalance_timeout_ms == -1
        and request.subscribed_topic_regex is None
        and request.instance_id is None
        and request.rack_id is None
        and request.server_assignor is None
        and call.client_id == member.client_id
        and call.client_host == member.client_host
    )


def is_blank(text: str) -> bool:
    return not text.strip(JAVA_BLANKS)


def _joined(
    shard: ShardState, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, call: Call
) -> Answer | None:
    """A member that nobody knows joins a group that wants its topics already."""
    names, member_id, known = request.subscribed_topic_names, request.member_id, group.subscriptions.names
    epoch, now = group.epoch + 1, group.assignment_epoch
    if (
        not names
        or len(names) > FEW_TOPICS
        or request.topic_partitions is None
        or len(request.topic_partitions)
        or request.rebalance_timeout_ms == -1
        or is_blank(member_id)
        or (request.rack_id is not None and is_blank(request.rack_id))
        or request.subscribed_topic_regex
        or request.server_assignor is not None
        or not 0 < now < epoch
        or len(group.members) >= shard.config.consumer_max_size
        or group.has_old_metadata_record
        or member_id in group.targets
        or group.may_assign(shard)
        or not known.keys() >= {*names}
    ):
        return None
    names_in_keys = group.packed_name + pack_name(member_id)
    member = ConsumerMember(
        member_id, now, JOIN_EPOCH, STABLE, None, request.rack_id, request.rebalance_timeout_ms,
        call.client_id, call.client_host, sorted_names(names), "", None, NOTHING, NOTHING, None,
        names_in_keys if len(names_in_keys) <= MAX_KEPT_NAMES else b"",
    )  # fmt: skip
    cause = "member joined"
    rebalance = group.rebalance or Rebalance(shard.clock, cause, member_id, client_of(member))
    why = (rebalance, cause, member_id) if shard.config.audit_headers else None
    fields = [
        packed_member(names_in_keys, member),
        packed_epoch(group, epoch, group.metadata_hash, why),
        packed_assignment(names_in_keys, member),
    ]
    if not fits(fields, shard.config.max_message_bytes):
        return None
    group.rebalance = rebalance
    settings = shard.consumer_settings(group.group_id)
    group.hear(shard, member_id, settings.session_timeout_ms)
    group.expect_no_revocation(member_id)
    response = ConsumerGroupHeartbeatResponse(
        0, 0, None, member_id, now, settings.heartbeat_interval_ms, Assignment([])
    )
    return StepOutcome(StepRecords(fields, partial(group.take_joined, member, epoch)), (call, response))


def _went_on(
    shard: ShardState, group: ConsumerGroup, member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, call: Call
) -> Answer | None:
    """A member that says nothing new about itself comes nearer to its target, if it can."""
    epoch = group.assignment_epoch
    if group.epoch > epoch and group.may_assign(shard):
        return None
    moved = member if member.is_reconciled_to(epoch) else _nearer(shard, group, member, request)
    if moved is None:
        return None
    settings = shard.consumer_settings(group.group_id)
    response = ConsumerGroupHeartbeatResponse(0, 0, None, member.member_id, moved.epoch, settings.heartbeat_interval_ms)
    if moved is member or moved.is_where(member):
        group.hear(shard, member.member_id, settings.session_timeout_ms)
        return response
    packed = packed_assignment(packed_names(group, moved), moved)
    if len(packed) + MOST_BYTES_OF_A_START > shard.config.max_message_bytes:
        return None
    group.hear(shard, member.member_id, settings.session_timeout_ms)
    if moved.state == UNREVOKED:
        group.expect_revocation(shard, moved)
    else:
        group.expect_no_revocation(member.member_id)
    if moved.assigned != member.assigned:
        response.assignment = assignment_of(moved.assigned)
    made = StepOutcome(StepRecords([packed], partial(group.take_moved, member, moved)), (call, response))
    if group.epoch == epoch and moved.state == STABLE and group.will_be_stable(member, moved, epoch):
        event = end_rebalance(shard, group, epoch, len(group.members), moved)
        if event is not None:
            out = made.outcome()
            out.events.append(event)
            return out
    return made


def _nearer(
    shard: ShardState, group: ConsumerGroup, member: ConsumerMember, request: ConsumerGroupHeartbeatRequest
) -> ConsumerMember | None:
    target = group.targets.get(member.member_id, NO_PARTITIONS)
    wants = wanted_ids(shard, member.topic_names)
    if not member.assigned and not member.pending_revocation and member.state in (STABLE, UNRELEASED):
        return first_share(member, group.assignment_epoch, target, wants, group.free_partitions)
    owned = request.topic_partitions
    reconciliation = Reconciliation(member, group.assignment_epoch, target, wants, group.is_held, owned)
    return reconciliation.next(subscription_changed=False)


def wanted_ids(shard: ShardState, names: Collection[str]) -> Collection[TopicId | None]:
    """The ids of these topics; None for one that does not exist."""
    topic_id = shard.topics.topic_id
    if len(names) == 1:
        (name,) = names
        return (topic_id(name),)
    return {topic_id(name) for name in names}


def assignment_of(partitions: Partitions) -> Assignment:
    return Assignment([TopicPartitions(topic_id, sorted(owned)) for topic_id, owned in partitions.items()])
