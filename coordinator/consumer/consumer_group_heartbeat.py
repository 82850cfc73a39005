"""ConsumerGroupHeartbeat (68), v0-1: a member joins, is alive, reports what it has, and leaves (KIP-848).

v1 adds subscriptions by regular expression, and wants members to choose their own ids (KIP-1082).

A field that is null, or -1, is as it was in the member's last heartbeat. What a member says goes through the steps of
member_update.py, and so does the JoinGroup of a classic member.
"""

from __future__ import annotations

from dataclasses import replace

from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    NOTHING,
    STATIC_LEAVE_EPOCH,
    UNREVOKED,
    ConsumerMember,
    Partitions,
    sorted_names,
)
from kohort.coordinator.consumer.member_update import MAX_TOPIC_NAMES, Install, MemberUpdate, Refusal, known_member
from kohort.coordinator.consumer.reconcile import Owned
from kohort.coordinator.consumer.records import (
    current_assignment_record,
)
from kohort.coordinator.consumer.removal import remove_members
from kohort.coordinator.consumer.usual import assignment_of, is_blank, says_nothing
from kohort.coordinator.outcome import Call, Outcome, PackedRecords, Record
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

FIRST_VERSION_WITH_OWN_ID = 1

Answer = ConsumerGroupHeartbeatResponse | Outcome


def consumer_group_heartbeat(
    shard: ShardState, group: ConsumerGroup | None, request: ConsumerGroupHeartbeatRequest, call: Call
) -> Answer:
    """`group`: the consumer group, if it exists. If it does not, the first member that joins creates it."""
    if request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
        return leave(shard, group, request, call)
    if group is None:
        if request.member_epoch != JOIN_EPOCH:
            return group_not_found(request.group_id).response()
        group = ConsumerGroup(request.group_id)
    return Heartbeat(shard, group, request, call, []).answer()


def group_not_found(group_id: str) -> Refusal:
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")


def refused(shard: ShardState, request: ConsumerGroupHeartbeatRequest, call: Call) -> Refusal | None:
    """Errors of the request itself: they do not depend on the group, nor on whether its shard is loaded."""
    if not shard.config.consumer_enabled:
        return Refusal(ErrorCode.UNSUPPORTED_VERSION, "The consumer group protocol is switched off.")
    epoch = request.member_epoch
    if problem := _blank(request, call.version) or _problem_of_epoch(request, epoch) or _too_many(request):
        return Refusal(ErrorCode.INVALID_REQUEST, problem)
    assignors = shard.config.consumer_assignors
    if request.server_assignor is not None and request.server_assignor not in assignors:
        known = ", ".join(assignors)
        message = f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {known}."
        return Refusal(ErrorCode.UNSUPPORTED_ASSIGNOR, message)
    return None


def _blank(request: ConsumerGroupHeartbeatRequest, version: int) -> str | None:
    epoch = request.member_epoch
    needs_id = version >= FIRST_VERSION_WITH_OWN_ID or epoch > 0 or epoch == LEAVE_EPOCH
    if needs_id and is_blank(request.member_id):
        return "MemberId can't be empty."
    if is_blank(request.group_id):
        return "GroupId can't be empty."
    if request.instance_id is not None and is_blank(request.instance_id):
        return "InstanceId can't be empty."
    if request.rack_id is not None and is_blank(request.rack_id):
        return "RackId can't be empty."
    return None


def _problem_of_epoch(request: ConsumerGroupHeartbeatRequest, epoch: int) -> str | None:
    if epoch == JOIN_EPOCH:
        if request.rebalance_timeout_ms == -1:
            return "RebalanceTimeoutMs must be provided in first request."
        if request.topic_partitions is None or len(request.topic_partitions):
            return "TopicPartitions must be empty when (re-)joining."
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            return "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
    if epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        return "InstanceId can't be null."
    return "MemberEpoch is invalid." if epoch < STATIC_LEAVE_EPOCH else None


def _too_many(request: ConsumerGroupHeartbeatRequest) -> str | None:
    """Kafka takes what fits into a batch of its log: with short names 100,000 topics."""
    names = request.subscribed_topic_names
    if names is None or len(names) <= MAX_TOPIC_NAMES:
        return None
    return (
        f"SubscribedTopicNames has {len(names)} names; at most {MAX_TOPIC_NAMES} are taken. Use SubscribedTopicRegex."
    )


# --- leaving


def leave(shard: ShardState, group: ConsumerGroup | None, request: ConsumerGroupHeartbeatRequest, call: Call) -> Answer:
    if group is None:
        return group_not_found(request.group_id).response()
    member, refusal = known_member(group, request.member_id, request.instance_id)
    if member is None:
        assert refusal is not None
        return refusal.response()
    out = Outcome()
    if request.instance_id is not None and request.member_epoch == STATIC_LEAVE_EPOCH:
        # The member keeps its partitions: it comes back, or its session ends.
        leaving = replace(
            member, epoch=STATIC_LEAVE_EPOCH, pending_revocation=NOTHING, assigned=_since_epoch_0(member.assigned)
        )
        out.records.append(current_assignment_record(group.group_id, leaving))
        epoch = STATIC_LEAVE_EPOCH
    else:
        remove_members(shard, group, [member.member_id], "member left", out)
        epoch = request.member_epoch
    out.reply(call, ConsumerGroupHeartbeatResponse(0, 0, None, member.member_id, epoch, 0))
    return out


def _since_epoch_0(partitions: Partitions) -> Partitions:
    return {topic_id: dict.fromkeys(owned, 0) for topic_id, owned in partitions.items()}


# --- joining and heartbeats


class Heartbeat(MemberUpdate[ConsumerGroupHeartbeatResponse]):
    def __init__(
        self,
        shard: ShardState,
        group: ConsumerGroup,
        request: ConsumerGroupHeartbeatRequest,
        call: Call,
        records: list[Record],
        converted: PackedRecords | None = None,
        install: Install | None = None,
    ) -> None:
        super().__init__(shard, group, call, records, converted, install)
        self._request = request
        self._owned = request.topic_partitions
        self._names = request.subscribed_topic_names

    def _find_member(self) -> Refusal | None:
        group, request = self._group, self._request
        if refusal := self._is_full(request.member_id):
            return refusal
        if request.member_epoch == JOIN_EPOCH:
            return self._join()
        member, refusal = known_member(group, request.member_id, request.instance_id)
        if member is None:
            return refusal
        self._before = member
        return _check_epoch(member, request.member_epoch, request.topic_partitions)

    def _join(self) -> Refusal | None:
        group, request = self._group, self._request
        member_id = request.member_id or self._shard.new_uuid()
        known = group.static_member(request.instance_id)
        if known is None:
            self._before = group.members.get(member_id) or ConsumerMember(member_id)
            return None
        if known.classic is None and known.epoch != STATIC_LEAVE_EPOCH:
            message = f"Static member {member_id} with instance id {request.instance_id} cannot join the group "
            owner = f"because the instance id is owned by {known.member_id} member."
            return Refusal(ErrorCode.UNRELEASED_INSTANCE_ID, message + owner)
        self._replace(known, member_id)
        return None

    def _as_it_says(self) -> ConsumerMember:
        request, before, call = self._request, self._before, self._call
        names = request.subscribed_topic_names
        if before.classic is None and says_nothing(request, before, call):  # a classic one changes its protocol
            return before
        return before.described(
            before.instance_id if request.instance_id is None else request.instance_id,
            before.rack_id if request.rack_id is None else request.rack_id,
            before.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms,
            call.client_id,
            call.client_host,
            before.topic_names if names is None else sorted_names(names),
            before.topic_regex if request.subscribed_topic_regex is None else request.subscribed_topic_regex,
            before.server_assignor if request.server_assignor is None else request.server_assignor,
        )

    def _watch(self, member: ConsumerMember) -> None:
        """Start the member's session anew. If it is told now to give up partitions, its time for that begins, too."""
        group = self._group
        group.heard_from(self._shard, member)
        if self._before.classic is not None:  # the member has changed its protocol, and kept its id
            group.joined(member.member_id)
            group.synced(member.member_id)
        if self._changes.moved is not None:
            if member.state == UNREVOKED:
                group.expect_revocation(self._shard, member)
            else:
                group.expect_no_revocation(member.member_id)

    def _response(self, member: ConsumerMember, assigned_before: Partitions) -> ConsumerGroupHeartbeatResponse:
        """Name the assignment if it has changed, if the member joins, or if the member sends every field."""
        request = self._request
        says_everything = (
            request.rebalance_timeout_ms != -1
            and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
            and request.topic_partitions is not None
        )
        is_told = request.member_epoch == JOIN_EPOCH or says_everything or member.assigned != assigned_before
        return ConsumerGroupHeartbeatResponse(
            0,
            0,
            None,
            member.member_id,
            member.epoch,
            self._shard.consumer_settings(self._group.group_id).heartbeat_interval_ms,
            assignment_of(member.assigned) if is_told else None,
        )

    def _refused(self, refusal: Refusal) -> ConsumerGroupHeartbeatResponse:
        return refusal.response()

    def _complete(self, response: ConsumerGroupHeartbeatResponse, last: ConsumerGroupHeartbeatResponse) -> None:
        response.error_code, response.error_message = last.error_code, last.error_message
        response.member_id, response.member_epoch = last.member_id, last.member_epoch
        response.heartbeat_interval_ms, response.assignment = last.heartbeat_interval_ms, last.assignment


def _check_epoch(member: ConsumerMember, epoch: int, owned: Owned) -> Refusal | None:
    """A member may be one epoch behind: the answer that told it the new epoch may have been lost."""
    if epoch == member.epoch:
        return None
    size = "greater" if epoch > member.epoch else "smaller"
    if size == "smaller" and epoch == member.previous_epoch and _is_part(owned, member.assigned):
        return None
    message = (
        f"The consumer group member has a {size} member epoch ({epoch}) than the one known by the group coordinator "
        f"({member.epoch}). The member must abandon all its partitions and rejoin."
    )
    return Refusal(ErrorCode.FENCED_MEMBER_EPOCH, message)


def _is_part(owned: Owned, assigned: Partitions) -> bool:
    if owned is None:
        return False
    return all(
        topic.topic_id in assigned and all(each in assigned[topic.topic_id] for each in topic.partitions)
        for topic in owned
    )


def unavailable(
    shard: ShardState, request: ConsumerGroupHeartbeatRequest, call: Call, error: ErrorCode
) -> ConsumerGroupHeartbeatResponse:
    refusal = refused(shard, request, call)
    return refusal.response() if refusal is not None else ConsumerGroupHeartbeatResponse(0, error)


def failed(response: ConsumerGroupHeartbeatResponse, version: int, error: ErrorCode) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(0, error)
