"""Answers to JoinGroup and SyncGroup, also to members that have waited for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from kohort.protocol.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from kohort.coordinator.classic.group import ClassicGroup
    from kohort.coordinator.classic.member import Member
    from kohort.coordinator.outcome import Outcome

FIRST_VERSION_WITH_PROTOCOL_TYPE = 7


def join_error(version: int, error: ErrorCode, member_id: str) -> JoinGroupResponse:
    protocol_name = None if version >= FIRST_VERSION_WITH_PROTOCOL_TYPE else ""
    return JoinGroupResponse(0, error, -1, None, protocol_name, "", False, member_id, ())


def join_response(group: ClassicGroup, member: Member) -> JoinGroupResponse:
    """The current generation, with the member list for the leader."""
    members = []
    if member.member_id == group.leader_id:
        members = [
            JoinGroupResponseMember(each.member_id, each.instance_id, each.metadata(group.protocol_name))
            for each in group.members.values()
        ]
    return JoinGroupResponse(
        0, 0, group.generation, group.protocol_type, group.protocol_name, group.leader_id or "", False,
        member.member_id, members,
    )  # fmt: skip


def refuse_join(member: Member, error: ErrorCode, out: Outcome, member_id: str = "") -> None:
    """Tell a member whose JoinGroup is parked."""
    if member.awaiting_join is not None:
        out.reply(member.awaiting_join, join_error(member.awaiting_join.version, error, member_id))
        member.awaiting_join = None


def refuse_sync(member: Member, error: ErrorCode, out: Outcome) -> None:
    """Tell a member whose SyncGroup is parked."""
    if member.awaiting_sync is not None:
        out.reply(member.awaiting_sync, SyncGroupResponse(0, error))
        member.awaiting_sync = None
