"""DescribeGroups (15), v0-6: state, members and assignments of classic groups.

v1 adds the throttle time; v3 authorized operations (KIP-430); v4 instance ids; v5 is flexible; v6 says
GROUP_ID_NOT_FOUND instead of showing an unknown group as Dead (KIP-1043).
"""

from __future__ import annotations

from kohort.coordinator.classic.state import STABLE
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember

NOT_ASKED = -2147483648
FIRST_VERSION_WITH_NOT_FOUND = 6


def describe_group(shard: ShardState, group_id: str, version: int) -> DescribedGroup:
    group = shard.groups.get(group_id)
    if group is None:
        error, text = 0, None
        if version >= FIRST_VERSION_WITH_NOT_FOUND:
            error, text = ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found."
        return DescribedGroup(error, text, group_id, "Dead", "", "", (), NOT_ASKED)
    # Until a protocol is settled, what members say belongs to none.
    is_stable = group.state is STABLE
    protocol = group.protocol_name if is_stable else None
    members = [
        DescribedGroupMember(
            member.member_id, member.instance_id, member.client_id, member.client_host,
            member.metadata(protocol) if is_stable else b"", member.assignment,
        )
        for member in group.members.values()
    ]  # fmt: skip
    return DescribedGroup(
        0, None, group_id, group.state.value, group.protocol_type or "", protocol or "", members, NOT_ASKED
    )
