"""JoinGroup (11), v0-9: a consumer asks to be a member, or to stay one.

v1 adds the rebalance timeout (before, the session's was used); v2 the throttle time; v4 makes new members come twice,
with the id they got (KIP-394); v5 static members (KIP-345); v6 is flexible; v7 answers with the protocol type
(KIP-559); v8 a reason (KIP-800); v9 lets a returning static leader skip the assignment (KIP-814).
"""

from __future__ import annotations

from kohort.coordinator.classic.answers import join_error, join_response, refuse_join, refuse_sync
from kohort.coordinator.classic.delayed_join import (
    begin_session,
    expect_pending_join,
    join_key,
    prepare_rebalance,
    rebalance_or_go_on,
)
from kohort.coordinator.classic.group import ClassicGroup, empty_group_record, find_classic
from kohort.coordinator.classic.member import Member, Protocols
from kohort.coordinator.classic.session import session_key
from kohort.coordinator.classic.state import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE, STABLE
from kohort.coordinator.classic.sync_group import is_too_large
from kohort.coordinator.outcome import PARKED, AtomicRecords, Call, Outcome, Parked
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

FIRST_VERSION_WITH_REQUIRED_ID = 4
MAX_PROTOCOLS = 100  # of a member; clients have one to four
MIN_MEMBER_BYTES = 75  # of a member in the log: a random id of 37 bytes, an address, lengths and times
SPARE_IDS = 1_000  # ids that may be handed out beyond the members that there can be
MAX_ID_BYTES = 32_767  # the log and the answer have two bytes for the length of an id
FIRST_VERSION_WITH_SKIP_ASSIGNMENT = 9


def join_group(shard: ShardState, request: JoinGroupRequest, call: Call) -> JoinGroupResponse | Outcome | Parked:
    if refusal := refused(shard, request, call):
        return refusal
    group = find_classic(shard, request.group_id)
    if group is None:
        if request.member_id:
            return join_error(call.version, ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
        return _create_group(shard, request, call)
    out = Outcome()
    answer = _join(shard, group, request, call, out)
    if answer is not None:
        out.reply(call, answer)
    return out if out.replies or out.at_once or out.records else PARKED


def _create_group(shard: ShardState, request: JoinGroupRequest, call: Call) -> Outcome:
    """Create the group with its first member. A record says that the group exists; no answer waits for that record.

    An empty group of another kind makes room: its tombstones and the new group's record are one step.
    """
    before = shard.groups.get(request.group_id)
    group = ClassicGroup(request.group_id, shard.clock.wall)
    record = empty_group_record(group.group_id, shard.clock.wall)
    out = Outcome([record if before is None else AtomicRecords([*before.tombstones(), record])])
    shard.replace(group)
    answer = _join(shard, group, request, call, out)
    out.at_once, out.replies = out.replies, []
    if answer is not None:
        out.reply_at_once(call, answer)
    return out


def unavailable(shard: ShardState, request: JoinGroupRequest, call: Call, error: ErrorCode) -> JoinGroupResponse:
    return refused(shard, request, call) or join_error(call.version, error, "")


def failed(response: JoinGroupResponse, version: int, error: ErrorCode) -> JoinGroupResponse:
    return join_error(version, error, "")


def refused(shard: ShardState, request: JoinGroupRequest, call: Call) -> JoinGroupResponse | None:
    """Errors of the request itself: they do not depend on the group, nor on whether its shard is loaded."""
    config = shard.config
    if not request.group_id:
        return join_error(call.version, ErrorCode.INVALID_GROUP_ID, request.member_id)
    if not config.min_session_timeout_ms <= request.session_timeout_ms <= config.max_session_timeout_ms:
        return join_error(call.version, ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id)
    if not _can_be_kept(shard, request):
        return join_error(call.version, ErrorCode.UNKNOWN_SERVER_ERROR, request.member_id)
    return None


def _join(
    shard: ShardState, group: ClassicGroup, request: JoinGroupRequest, call: Call, out: Outcome
) -> JoinGroupResponse | None:
    """The answer, or None if the request waits for the join phase to end."""
    protocols = [(protocol.name, protocol.metadata) for protocol in request.protocols]
    if not _has_room(shard, group, request.member_id):
        member = group.members.get(request.member_id)
        if member is not None:
            group.remove(request.member_id)
            member.session.stop()
        group.pending_joins.pop(request.member_id, None)
        return join_error(call.version, ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    if not group.supports(request.protocol_type, protocols):
        return join_error(call.version, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
    if not request.member_id:
        return _join_as_new(shard, group, request, protocols, call, out)
    return _join_with_id(shard, group, request, protocols, call, out)


def _can_be_kept(shard: ShardState, request: JoinGroupRequest) -> bool:
    """Whether the protocols of the member are few and small enough to be kept in memory, as long as it is a member.

    The log keeps the metadata of one protocol. All protocols of a member together may have twice as many bytes as the
    log takes. Kafka keeps any number of protocols, and refuses the SyncGroup if the record becomes too large.
    """
    if len(request.protocols) > MAX_PROTOCOLS:
        return False
    size_bytes = 0
    for each in request.protocols:
        size_bytes += len(each.name) + len(each.metadata)
    return size_bytes <= 2 * shard.config.max_message_bytes


def _has_room(shard: ShardState, group: ClassicGroup, member_id: str) -> bool:
    """Whether the group has room for the sender. Ids that were handed out and not used yet do not count."""
    if group.state is EMPTY:
        return True
    member = group.members.get(member_id)
    max_size = _max_size(shard)
    has_room = len(group.members) < max_size
    if group.state is PREPARING_REBALANCE:
        parked = member is not None and member.awaiting_join is not None
        return parked or has_room or group.awaiting_join_count() < max_size
    return member is not None or has_room


def _max_size(shard: ShardState) -> int:
    """A group with more members could not be written to the log."""
    return min(shard.config.max_size, shard.config.max_message_bytes // MIN_MEMBER_BYTES)


def _join_as_new(
    shard: ShardState, group: ClassicGroup, request: JoinGroupRequest, protocols: Protocols, call: Call, out: Outcome
) -> JoinGroupResponse | None:
    instance_id = request.group_instance_id
    member_id = shard.new_member_id(call.client_id if instance_id is None else instance_id)
    if len(member_id.encode()) > MAX_ID_BYTES:
        return join_error(call.version, ErrorCode.UNKNOWN_SERVER_ERROR, "")
    if instance_id is not None:
        if instance_id in group.static_members:
            return _replace_static_member(shard, group, member_id, request, protocols, call, out)
        _add_member(shard, group, member_id, request, protocols, call, out)
        return None
    if call.version >= FIRST_VERSION_WITH_REQUIRED_ID:
        if len(group.pending_joins) >= _max_size(shard) + SPARE_IDS:
            return join_error(call.version, ErrorCode.GROUP_MAX_SIZE_REACHED, "")
        group.pending_joins[member_id] = None
        expect_pending_join(shard, group, member_id, request.session_timeout_ms)
        return join_error(call.version, ErrorCode.MEMBER_ID_REQUIRED, member_id)
    _add_member(shard, group, member_id, request, protocols, call, out)
    return None


def _join_with_id(
    shard: ShardState, group: ClassicGroup, request: JoinGroupRequest, protocols: Protocols, call: Call, out: Outcome
) -> JoinGroupResponse | None:
    member_id = request.member_id
    if member_id in group.pending_joins:
        if request.group_instance_id is not None:  # the id was handed out to a dynamic member, and a static one uses it
            return join_error(call.version, ErrorCode.UNKNOWN_SERVER_ERROR, "")
        _add_member(shard, group, member_id, request, protocols, call, out)
        return None
    if error := group.check_member(member_id, request.group_instance_id):
        return join_error(call.version, error, member_id)
    member = group.members[member_id]
    unchanged = member.protocols == tuple(protocols)
    is_leader = member_id == group.leader_id
    match group.state:
        case state if state is PREPARING_REBALANCE:
            _update(shard, group, member, request, protocols, call)
            rebalance_or_go_on(shard, group, "", "", out)
            return None
        case state if state is COMPLETING_REBALANCE:
            if unchanged:
                return join_response(group, member)
            cause = "metadata changed while the leader was assigning"
        case state if state is STABLE:
            if unchanged and not is_leader:
                return join_response(group, member)
            cause = "leader rejoined" if unchanged else "metadata changed"
        case _:
            return join_error(call.version, ErrorCode.UNKNOWN_MEMBER_ID, member_id)
    _update(shard, group, member, request, protocols, call)
    prepare_rebalance(shard, group, _with_reason(cause, request), member_id, out)
    return None


def _with_reason(cause: str, request: JoinGroupRequest) -> str:
    return f"{cause}: {request.reason}" if request.reason else cause


def _update(
    shard: ShardState, group: ClassicGroup, member: Member, request: JoinGroupRequest, protocols: Protocols, call: Call
) -> None:
    """Take over new metadata and timeouts. An older JoinGroup of this member that is still parked is never answered."""
    group.change_protocols(member, protocols)
    member.session_timeout_ms = request.session_timeout_ms
    member.rebalance_timeout_ms = _rebalance_timeout_ms(request, call)
    member.awaiting_join = call
    member.joined_at = shard.clock.now


def _rebalance_timeout_ms(request: JoinGroupRequest, call: Call) -> int:
    return request.session_timeout_ms if call.version == 0 else request.rebalance_timeout_ms


def _add_member(
    shard: ShardState, group: ClassicGroup, member_id: str, request: JoinGroupRequest, protocols: Protocols, call: Call,
    out: Outcome,
) -> None:  # fmt: skip
    member = Member(
        member_id, request.group_instance_id, call.client_id, call.client_host, request.session_timeout_ms,
        _rebalance_timeout_ms(request, call), protocols,
    )  # fmt: skip
    member.is_new = True
    if group.state is PREPARING_REBALANCE and group.previous_state is EMPTY:
        group.new_member_added = True
    if member_id in group.pending_joins:
        shard.purgatory.cancel(session_key(group.group_id, member_id))
    group.add(member, request.protocol_type)
    member.awaiting_join = call
    member.joined_at = shard.clock.now
    begin_session(shard, group, member).expect_first_join()
    rebalance_or_go_on(shard, group, _with_reason("member joined", request), member_id, out)


def _replace_static_member(
    shard: ShardState, group: ClassicGroup, member_id: str, request: JoinGroupRequest, protocols: Protocols, call: Call,
    out: Outcome,
) -> JoinGroupResponse | None:  # fmt: skip
    """The instance is back under a new id: it takes over what the old one had, often without a rebalance."""
    assert request.group_instance_id is not None
    old = group.members[group.static_members[request.group_instance_id]]
    _fence(old, out)
    leader_before = group.leader_id
    member = _take_over(group, old, member_id, request, protocols, call)
    begin_session(shard, group, member).heard()
    if group.state is STABLE and group.select_protocol() == group.protocol_name:
        record = group.to_record(None, group.state_timestamp, headers=False)
        # If the record is too large, the group rebalances, and SyncGroup tells the members so.
        if not is_too_large(record, shard.config.max_message_bytes):
            out.records.append(record)
            return _rejoin_without_rebalance(shard, group, member, leader_before, call)
    member.awaiting_join = call
    member.joined_at = shard.clock.now
    rebalance_or_go_on(shard, group, "static member replaced", member_id, out)
    return None


def _fence(old: Member, out: Outcome) -> None:
    refuse_join(old, ErrorCode.FENCED_INSTANCE_ID, out, old.member_id)
    refuse_sync(old, ErrorCode.FENCED_INSTANCE_ID, out)


def _take_over(
    group: ClassicGroup,
    old: Member,
    member_id: str,
    request: JoinGroupRequest,
    protocols: Protocols,
    call: Call,
) -> Member:
    old.session.stop()
    # Client id and host stay those of the instance's first member (measured on Kafka 4.3.1).
    member = Member(
        member_id, request.group_instance_id, old.client_id, old.client_host, request.session_timeout_ms,
        _rebalance_timeout_ms(request, call), protocols,
    )  # fmt: skip
    member.assignment = old.assignment
    group.replace(old, member)
    return member


def _rejoin_without_rebalance(
    shard: ShardState, group: ClassicGroup, member: Member, leader_before: str | None, call: Call
) -> JoinGroupResponse:
    response = join_response(group, member)
    if call.version >= FIRST_VERSION_WITH_SKIP_ASSIGNMENT:
        response.skip_assignment = member.member_id == group.leader_id
    else:
        # A leader that came back must not believe that it has to assign, so it is told the id that it had before.
        response.leader = leader_before or ""
        response.members = []
    assert not shard.purgatory.is_watched(join_key(group))
    return response
