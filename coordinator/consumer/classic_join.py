"""JoinGroup of a classic member in a consumer group: it is answered at once, without a leader.

The member is reconciled like any other: its generation is its member epoch. The answer to SyncGroup tells the member
which partitions it may keep. Its next JoinGroup tells that it has given up the others: its subscription names the
partitions that it owns. As in Kafka, nobody remembers the ids that were handed out: a JoinGroup may bring any id.
"""

from __future__ import annotations

from dataclasses import replace

from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.member import UNREVOKED, ClassicMetadata, ConsumerMember, Partitions, sorted_names
from kohort.coordinator.consumer.member_update import (
    MAX_TOPIC_NAMES,
    MemberUpdate,
    Refusal,
    known_member,
)
from kohort.coordinator.consumer.removal import FEW_MEMBERS, downgrade_later, may_downgrade
from kohort.coordinator.outcome import Call, InPieces, Outcome
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.messages.consumer_group_heartbeat import TopicPartitions
from kohort.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kohort.protocol.subscription import read_subscription

FIRST_VERSION_WITH_REQUIRED_ID = 4
FIRST_VERSION_WITH_PROTOCOL_TYPE = 7
NOT_SAID = -1


def join_group(
    shard: ShardState, group: ConsumerGroup, request: JoinGroupRequest, call: Call
) -> JoinGroupResponse | Outcome | InPieces:
    answer = ClassicJoin(shard, group, request, call).answer()
    if isinstance(answer, Outcome) or answer.error_code:
        return answer
    return InPieces(iter(()), call, answer)  # wait for records of earlier requests: the answer rests on them


class ClassicJoin(MemberUpdate[JoinGroupResponse]):
    ERROR_IF_CONVERTED = ErrorCode.REBALANCE_IN_PROGRESS  # it is a member there, and joins again under the same id

    def __init__(self, shard: ShardState, group: ConsumerGroup, request: JoinGroupRequest, call: Call) -> None:
        super().__init__(shard, group, call, [])
        self._request = request
        self._protocols = tuple((each.name, each.metadata) for each in request.protocols)
        self._member_id = request.member_id or shard.new_uuid()
        self._subscription: ConsumerProtocolSubscription

    # --- 1. the member

    def _find_member(self) -> Refusal | None:
        return self._cannot_join() or self._find() or self._read_subscription()

    def _cannot_join(self) -> Refusal | None:
        shard, group, request = self._shard, self._group, self._request
        if shard.config.consumer_migration_policy == "disabled":
            return Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "The migration of groups is disabled.")
        if refusal := self._is_full(self._member_id):
            return refusal
        if not group.supports(request.protocol_type, [name for name, _ in self._protocols]):
            return Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "The protocols of the member are not supported.")
        is_dynamic = request.group_instance_id is None
        if not request.member_id and is_dynamic and self._call.version >= FIRST_VERSION_WITH_REQUIRED_ID:
            return Refusal(ErrorCode.MEMBER_ID_REQUIRED, "")
        return None

    def _find(self) -> Refusal | None:
        group, instance_id = self._group, self._request.group_instance_id
        if instance_id is None or (not self._request.member_id and group.static_member(instance_id) is None):
            self._before = group.members.get(self._member_id) or ConsumerMember(self._member_id)
        elif self._request.member_id:
            member, refusal = known_member(group, self._member_id, instance_id)
            if member is None:
                return refusal
            self._before = member
        else:
            known = group.static_member(instance_id)
            assert known is not None
            self._replace(known, self._member_id)
        return None

    def _read_subscription(self) -> Refusal | None:
        """All protocols of a member have the same subscription: the first is read."""
        try:
            self._subscription = read_subscription(self._protocols[0][1])
        except MalformedMessage as problem:
            return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"The subscription cannot be read: {problem}")
        if len(self._subscription.topics) > MAX_TOPIC_NAMES:
            return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"At most {MAX_TOPIC_NAMES} topics are taken.")
        topics, self._names = self._shard.topics, self._subscription.topics
        self._owned = [
            TopicPartitions(topic_id, each.partitions)
            for each in self._subscription.owned_partitions
            if (topic_id := topics.topic_id(each.topic)) is not None
        ]
        return None

    # --- 2. what it says

    def _as_it_says(self) -> ConsumerMember:
        request, before, subscription = self._request, self._before, self._subscription
        timeout_ms = request.session_timeout_ms if self._call.version == 0 else request.rebalance_timeout_ms
        return replace(
            before,
            instance_id=before.instance_id if request.group_instance_id is None else request.group_instance_id,
            rack_id=subscription.rack_id or before.rack_id,
            rebalance_timeout_ms=before.rebalance_timeout_ms if timeout_ms == NOT_SAID else timeout_ms,
            topic_names=sorted_names(subscription.topics),
            topic_regex="",
            client_id=self._call.client_id,
            client_host=self._call.client_host,
            classic=ClassicMetadata(request.session_timeout_ms, self._protocols),
        )

    # --- 3. the target

    def _assign(self, member: ConsumerMember, subscription_changed: bool) -> JoinGroupResponse | Outcome:
        """Convert the group if a static member, the last one of the newer protocol, returns with the classic one."""
        group = self._group
        known = group.static_member(self._request.group_instance_id)
        if known is None or known.classic is not None or not may_downgrade(self._shard, group, [known.member_id], 1):
            return super()._assign(member, subscription_changed)
        if len(group.members) > FEW_MEMBERS:
            answer = super()._assign(member, subscription_changed)
            if isinstance(answer, Outcome):
                downgrade_later(self._shard, group, member.member_id, answer)
            return answer
        rebalances = group.assignment_epoch < self._epoch
        if not rebalances:
            self._target = group.target_of(known.member_id)
            member = self._reconcile(member, subscription_changed) or member
            # As in Kafka, other members are not told to join, even if they wait for partitions or have to give some up.
        out = Outcome()
        if not self._shard.downgrade(self._shard, group, [known.member_id], member, rebalances, out):
            return self._refused(Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, "The group is too large for a record."))
        out.reply(self._call, self._response(member, known.assigned))
        return out

    # --- the end

    def _watch(self, member: ConsumerMember) -> None:
        group = self._group
        group.heard_from(self._shard, member)
        group.expect_sync(self._shard, member)
        if member.state != UNREVOKED:
            group.expect_no_revocation(member.member_id)

    def _refused(self, refusal: Refusal) -> JoinGroupResponse:
        protocol_name = None if self._call.version >= FIRST_VERSION_WITH_PROTOCOL_TYPE else ""
        member_id = self._member_id if refusal.error is ErrorCode.MEMBER_ID_REQUIRED else ""
        return JoinGroupResponse(0, refusal.error, -1, None, protocol_name, "", False, member_id, ())

    def _response(self, member: ConsumerMember, assigned_before: Partitions) -> JoinGroupResponse:
        protocol_name = self._protocols[0][0]
        return JoinGroupResponse(
            0, 0, member.epoch, self._group.protocol_type, protocol_name, "", False, member.member_id, ()
        )

    def _complete(self, response: JoinGroupResponse, last: JoinGroupResponse) -> None:
        response.error_code, response.generation_id = last.error_code, last.generation_id
        response.protocol_type, response.protocol_name = last.protocol_type, last.protocol_name
