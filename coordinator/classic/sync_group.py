"""SyncGroup (14), v0-5: the leader brings the assignment, everyone takes theirs.

v1 adds the throttle time; v3 static members; v4 is flexible; v5 carries protocol type and name both ways (KIP-559).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kohort.coordinator.api import Steps, in_slices
from kohort.coordinator.classic.answers import refuse_sync
from kohort.coordinator.classic.delayed_join import prepare_rebalance, sync_key
from kohort.coordinator.classic.events import rebalanced
from kohort.coordinator.classic.group import ClassicGroup, find_classic
from kohort.coordinator.classic.member import Member
from kohort.coordinator.classic.state import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE, STABLE
from kohort.coordinator.outcome import PARKED, Call, Outcome, Parked, Record
from kohort.coordinator.record_codec import batch_bytes
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.log_group_metadata import GroupMetadataValue
from kohort.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

MEMBER_BYTES = 24  # lengths and times of a member in the record
GROUP_BYTES = 200_000  # more than all the rest can have: the group's id, names, headers, the batch's header


def sort_out(shard: ShardState, request: SyncGroupRequest) -> Steps[list[SyncGroupRequestAssignment]]:
    """The assignments for members of the group; others are left out."""
    assignments: list[SyncGroupRequestAssignment] = []
    for some in in_slices(request.assignments):
        group = find_classic(shard, request.group_id)
        members = group.members if group is not None else {}
        assignments += [each for each in some if each.member_id in members]
        yield
    return assignments


def sync_group(
    shard: ShardState,
    request: SyncGroupRequest,
    call: Call,
    assignments: Sequence[SyncGroupRequestAssignment] | None = None,
) -> SyncGroupResponse | Outcome | Parked:
    """`assignments`: the result of `sort_out`, if that was called before."""
    if refusal := refused(request, call):
        return refusal
    group = find_classic(shard, request.group_id)
    if group is None or group.state is EMPTY:
        return SyncGroupResponse(0, ErrorCode.UNKNOWN_MEMBER_ID)
    if error := _problem(group, request):
        return SyncGroupResponse(0, error)
    member = group.members[request.member_id]
    if group.state is PREPARING_REBALANCE:
        return SyncGroupResponse(0, ErrorCode.REBALANCE_IN_PROGRESS)
    group.pending_syncs.pop(member.member_id, None)
    if not group.pending_syncs:
        shard.purgatory.cancel(sync_key(group))
    if group.state is STABLE:
        return _assigned(group, member)
    assert group.state is COMPLETING_REBALANCE
    member.awaiting_sync = call  # a SyncGroup of this member that was parked before is never answered, as in Kafka
    if member.member_id != group.leader_id:
        return PARKED
    return _assign(shard, group, request.assignments if assignments is None else assignments)


def refused(request: SyncGroupRequest, call: Call) -> SyncGroupResponse | None:
    """Errors of the request itself: they do not depend on the group, nor on whether its shard is loaded."""
    if call.version >= 5 and (request.protocol_type is None or request.protocol_name is None):
        return SyncGroupResponse(0, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    return None if request.group_id else SyncGroupResponse(0, ErrorCode.INVALID_GROUP_ID)


def unavailable(shard: ShardState, request: SyncGroupRequest, call: Call, error: ErrorCode) -> SyncGroupResponse:
    return refused(request, call) or SyncGroupResponse(0, error)


def failed(response: SyncGroupResponse, version: int, error: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(0, error)


def _problem(group: ClassicGroup, request: SyncGroupRequest) -> ErrorCode | None:
    if error := group.check_member(request.member_id, request.group_instance_id):
        return error
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if request.protocol_type is not None and request.protocol_type != group.protocol_type:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if request.protocol_name is not None and request.protocol_name != group.protocol_name:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return None


def _assign(shard: ShardState, group: ClassicGroup, brought: Iterable[SyncGroupRequestAssignment]) -> Outcome:
    """The leader has assigned: one record, and an answer to every member that waits for it."""
    members = group.members
    assignments = {each.member_id: each.assignment for each in brought if each.member_id in members}
    record = group.to_record(assignments, group.state_timestamp, shard.config.audit_headers)
    if is_too_large(record, shard.config.max_message_bytes):
        return _cannot_be_kept(shard, group)
    out = Outcome([record])
    out.events.append(rebalanced(group, assignments, shard.clock.now))
    for member in group.members.values():
        if member.awaiting_sync is not None:
            assignment = assignments.get(member.member_id, b"")
            answer = SyncGroupResponse(0, 0, group.protocol_type, group.protocol_name, assignment)
            out.reply(member.awaiting_sync, answer)
            member.awaiting_sync = None
            member.session.heard()
    return out


def is_too_large(record: Record, max_bytes: int) -> bool:
    """Whether the record is too large for the log. Only a record that may be near the limit is packed to measure it."""
    assert isinstance(record.value, GroupMetadataValue)
    members = record.value.members
    known_bytes = sum(len(m.subscription) + len(m.assignment) for m in members)
    if known_bytes > max_bytes:
        return True
    names = "".join([f"{m.member_id}{m.group_instance_id or ''}{m.client_id}{m.client_host}" for m in members])
    names_bytes = len(names) if names.isascii() else 4 * len(names)
    at_most = GROUP_BYTES + known_bytes + names_bytes + MEMBER_BYTES * len(members)
    return at_most > max_bytes and batch_bytes(record) > max_bytes


def _cannot_be_kept(shard: ShardState, group: ClassicGroup) -> Outcome:
    """The record is too large for the log: tell the members, and let them join again with something smaller."""
    out = Outcome()
    for member in group.members.values():
        if member.awaiting_sync is not None:
            refuse_sync(member, ErrorCode.UNKNOWN_SERVER_ERROR, out)
            member.session.heard()
    prepare_rebalance(shard, group, "assignment too large for the log", group.leader_id or "", out)
    return out


def _assigned(group: ClassicGroup, member: Member) -> SyncGroupResponse:
    return SyncGroupResponse(0, 0, group.protocol_type, group.protocol_name, member.assignment)
