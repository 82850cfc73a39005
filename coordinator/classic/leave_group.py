"""LeaveGroup (13), v0-5: members go, by themselves or sent by an administrator.

v1 adds the throttle time; v3 takes several, also by instance id (KIP-345); v4 is flexible; v5 a reason (KIP-800).
"""

from __future__ import annotations

from kohort.coordinator.classic.delayed_join import MAX_NAMED, drop_member, rebalance_or_go_on
from kohort.coordinator.classic.group import ClassicGroup, find_classic
from kohort.coordinator.classic.session import session_key
from kohort.coordinator.classic.state import EMPTY
from kohort.coordinator.outcome import Call, Outcome
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse


def leave_group(shard: ShardState, request: LeaveGroupRequest, call: Call) -> LeaveGroupResponse | Outcome:
    if not request.group_id:
        return LeaveGroupResponse(0, ErrorCode.INVALID_GROUP_ID)
    leaving = list(request.members) if call.version >= 3 else [MemberIdentity(request.member_id, None, None)]
    group = find_classic(shard, request.group_id)
    out = Outcome()
    if group is None:
        results = [
            MemberResponse(each.member_id, each.group_instance_id, ErrorCode.UNKNOWN_MEMBER_ID) for each in leaving
        ]
    else:
        results = [_leave(shard, group, each, out) for each in leaving]
        gone = [result for result in results if not result.error_code]
        if gone and group.state is not EMPTY:
            reason = next((each.reason for each in leaving if each.reason), None)
            cause = f"member left: {reason}" if reason else "member left"
            names = ", ".join(result.member_id or result.group_instance_id or "" for result in gone[:MAX_NAMED])
            rebalance_or_go_on(shard, group, cause, names, out)
    out.reply(call, _response(results, call.version))
    return out


def unavailable(shard: ShardState, request: LeaveGroupRequest, call: Call, error: ErrorCode) -> LeaveGroupResponse:
    return LeaveGroupResponse(0, error if request.group_id else ErrorCode.INVALID_GROUP_ID)


def failed(response: LeaveGroupResponse, version: int, error: ErrorCode) -> LeaveGroupResponse:
    return LeaveGroupResponse(0, error)


def _response(results: list[MemberResponse], version: int) -> LeaveGroupResponse:
    if version >= 3:
        return LeaveGroupResponse(0, 0, results)
    return LeaveGroupResponse(0, results[0].error_code, ())


def _leave(shard: ShardState, group: ClassicGroup, leaving: MemberIdentity, out: Outcome) -> MemberResponse:
    member_id, instance_id = leaving.member_id, leaving.group_instance_id
    result = MemberResponse(member_id, instance_id, 0)
    if not member_id and instance_id is not None:
        known = group.static_members.get(instance_id)
        if known is None:
            result.error_code = ErrorCode.UNKNOWN_MEMBER_ID
        else:
            drop_member(group, group.members[known], out)
    elif member_id in group.pending_joins:
        del group.pending_joins[member_id]
        shard.purgatory.cancel(session_key(group.group_id, member_id))
    elif error := group.check_member(member_id, instance_id):
        result.error_code = error
    else:
        drop_member(group, group.members[member_id], out)
    return result
