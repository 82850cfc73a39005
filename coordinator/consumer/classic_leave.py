"""LeaveGroup in a consumer group: classic members go, or an administrator sends members of any protocol away."""

from __future__ import annotations

from collections.abc import Iterator

from kohort.coordinator.api import Steps, in_slices
from kohort.coordinator.consumer.group import ConsumerGroup, find_consumer
from kohort.coordinator.consumer.member_update import known_member
from kohort.coordinator.consumer.removal import remove_members
from kohort.coordinator.outcome import Call, InPieces, Outcome
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse

FIRST_VERSION_WITH_SEVERAL = 3
MANY = 200  # members that leave at once: some 5 ms


def in_steps(
    shard: ShardState, request: LeaveGroupRequest, call: Call
) -> Steps[LeaveGroupResponse | Outcome | InPieces]:
    """First refuse those that are not members. Then all the others leave: at once, unless there are very many."""
    has_several = call.version >= FIRST_VERSION_WITH_SEVERAL
    results: list[MemberResponse] = []
    leaving: dict[str, list[MemberResponse]] = {}  # by member id; a member may be named twice
    reason = None
    for each in request.members if has_several else (MemberIdentity(request.member_id, None, None),):
        member_id, error = _find(find_consumer(shard, request.group_id), each)
        result = MemberResponse(each.member_id, each.group_instance_id, error)
        results.append(result)
        if member_id is not None:
            leaving.setdefault(member_id, []).append(result)
            reason = reason or each.reason
        yield
    response = LeaveGroupResponse(0, 0, results) if has_several else LeaveGroupResponse(0)
    cause = f"member left: {reason}" if reason else "member left"
    if len(leaving) > MANY:
        return InPieces(_leave_in_pieces(shard, request.group_id, leaving, cause), call, response)
    out = Outcome()
    _leave_together(shard, request.group_id, leaving, cause, out)
    if not has_several:
        response.error_code = results[0].error_code
    out.reply(call, response)
    return out


def _leave_in_pieces(
    shard: ShardState, group_id: str, leaving: dict[str, list[MemberResponse]], cause: str
) -> Iterator[Outcome]:
    """Kafka bumps the group epoch once for all of them; here it is bumped with each piece."""
    for some in in_slices(leaving, MANY):
        out = Outcome()
        _leave_together(shard, group_id, {member_id: leaving[member_id] for member_id in some}, cause, out)
        yield out


def _find(group: ConsumerGroup | None, leaving: MemberIdentity) -> tuple[str | None, ErrorCode]:
    """The id of the member, or why it cannot leave."""
    if group is None:
        return None, ErrorCode.UNKNOWN_MEMBER_ID
    member_id = leaving.member_id
    if not member_id and leaving.group_instance_id is not None:
        member_id = group.static_members.get(leaving.group_instance_id, "")  # an administrator knows no member ids
    member, refusal = known_member(group, member_id, leaving.group_instance_id)
    if member is None:
        return None, refusal.error if refusal is not None else ErrorCode.UNKNOWN_MEMBER_ID
    return member.member_id, ErrorCode.NONE


def _leave_together(
    shard: ShardState, group_id: str, leaving: dict[str, list[MemberResponse]], cause: str, out: Outcome
) -> None:
    group = find_consumer(shard, group_id)
    known = group.members if group is not None else {}
    for member_id, results in leaving.items():
        if member_id not in known:
            for result in results:
                result.error_code = ErrorCode.UNKNOWN_MEMBER_ID  # it has left meanwhile
    gone = [member_id for member_id in leaving if member_id in known]
    if group is not None and gone:
        remove_members(shard, group, gone, cause, out)
