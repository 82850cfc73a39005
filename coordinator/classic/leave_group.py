"""LeaveGroup (13), v0-5: members go, by themselves or sent by an administrator.

v1 adds the throttle time; v3 takes several, also by instance id (KIP-345); v4 is flexible; v5 a reason (KIP-800).
"""

from __future__ import annotations

from kohort.coordinator.api import Steps, all_steps
from kohort.coordinator.classic.delayed_join import MAX_NAMED, drop_member, rebalance_or_go_on
from kohort.coordinator.classic.group import ClassicGroup, find_classic
from kohort.coordinator.classic.session import session_key
from kohort.coordinator.classic.state import EMPTY
from kohort.coordinator.outcome import Call, Outcome
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse


def leave_group(shard: ShardState, request: LeaveGroupRequest, call: Call) -> LeaveGroupResponse | Outcome:
    return all_steps(in_steps(shard, request, call, None))


def in_steps(
    shard: ShardState, request: LeaveGroupRequest, call: Call, error: ErrorCode | None
) -> Steps[LeaveGroupResponse | Outcome]:
    """First refuse those that are not members. Then, in the last step, all the others leave at once."""
    if error is not None:
        return unavailable(shard, request, call, error)
    if not request.group_id:
        return LeaveGroupResponse(0, ErrorCode.INVALID_GROUP_ID)
    leaving = request.members if call.version >= 3 else (MemberIdentity(request.member_id, None, None),)
    results: list[MemberResponse] = []
    members: dict[tuple[str, str | None], tuple[MemberIdentity, MemberResponse]] = {}
    for each in leaving:
        problem = _problem(find_classic(shard, request.group_id), each)
        result = MemberResponse(each.member_id, each.group_instance_id, problem or 0)
        results.append(result)
        if problem is not ErrorCode.UNKNOWN_MEMBER_ID:
            first = members.setdefault((each.member_id, each.group_instance_id), (each, result))
            if first[1] is not result and problem is None:
                result.error_code = ErrorCode.UNKNOWN_MEMBER_ID  # named twice: it leaves with the first one
        yield
    out = Outcome()
    _leave_together(shard, request.group_id, list(members.values()), out)
    out.reply(call, _response(results, call.version))
    return out


def _leave_together(
    shard: ShardState, group_id: str, leaving: list[tuple[MemberIdentity, MemberResponse]], out: Outcome
) -> None:
    group = find_classic(shard, group_id)
    for each, result in leaving:
        result.error_code = _problem(group, each) or 0  # it may have left since, or was also named by its instance id
        if group is not None and not result.error_code:
            _leave(shard, group, each, out)
    gone = [each for each, result in leaving if not result.error_code]
    if group is not None and gone and group.state is not EMPTY:
        reason = next((each.reason for each in gone if each.reason), None)
        cause = f"member left: {reason}" if reason else "member left"
        names = ", ".join(each.member_id or each.group_instance_id or "" for each in gone[:MAX_NAMED])
        rebalance_or_go_on(shard, group, cause, names, out)


def unavailable(shard: ShardState, request: LeaveGroupRequest, call: Call, error: ErrorCode) -> LeaveGroupResponse:
    return LeaveGroupResponse(0, error if request.group_id else ErrorCode.INVALID_GROUP_ID)


def failed(response: LeaveGroupResponse, version: int, error: ErrorCode) -> LeaveGroupResponse:
    return LeaveGroupResponse(0, error)


def _response(results: list[MemberResponse], version: int) -> LeaveGroupResponse:
    if version >= 3:
        return LeaveGroupResponse(0, 0, results)
    return LeaveGroupResponse(0, results[0].error_code, ())


def _problem(group: ClassicGroup | None, leaving: MemberIdentity) -> ErrorCode | None:
    """Why the member cannot leave."""
    member_id, instance_id = leaving.member_id, leaving.group_instance_id
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not member_id and instance_id is not None:
        return None if instance_id in group.static_members else ErrorCode.UNKNOWN_MEMBER_ID
    return None if member_id in group.pending_joins else group.check_member(member_id, instance_id)


def _leave(shard: ShardState, group: ClassicGroup, leaving: MemberIdentity, out: Outcome) -> None:
    member_id, instance_id = leaving.member_id, leaving.group_instance_id
    if not member_id and instance_id is not None:
        drop_member(group, group.members[group.static_members[instance_id]], out)
    elif member_id in group.pending_joins:
        del group.pending_joins[member_id]
        shard.purgatory.cancel(session_key(group.group_id, member_id))
    else:
        drop_member(group, group.members[member_id], out)
