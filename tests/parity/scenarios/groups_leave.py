"""LeaveGroup: members go, or are sent away."""

from __future__ import annotations

from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.leave_group import LeaveGroupRequest
from tests.parity.story import Story, story

SEVERAL = (3, 4, 5)


@story(ApiKey.LEAVE_GROUP)
def the_last_member_leaves_an_empty_group(s: Story) -> None:
    (a,) = s.stable()
    a.leave()
    s.describe()
    s.list_groups()
    a.leave()


@story(ApiKey.LEAVE_GROUP)
def a_follower_leaves_and_the_others_come_together_again(s: Story) -> None:
    a, b = s.stable(2)
    b.leave()
    s.describe()
    a.heartbeat()
    a.join()
    a.sync([a])


@story(ApiKey.LEAVE_GROUP)
def the_leader_leaves_and_another_leads(s: Story) -> None:
    a, b = s.stable(2)
    a.leave()
    b.heartbeat()
    b.join()
    b.sync([b])
    s.describe()


@story(ApiKey.LEAVE_GROUP)
def strangers_cannot_leave(s: Story) -> None:
    stranger = s.member()
    stranger.leave(("stranger", None))
    s.member("").leave(("stranger", None))
    (a,) = s.stable()
    stranger.leave(("stranger", None))
    stranger.leave(("", None))
    a.heartbeat()


@story(ApiKey.LEAVE_GROUP, SEVERAL)
def several_leave_at_once_and_each_has_an_answer(s: Story) -> None:
    a, b, c = s.stable(3)
    a.leave((c.id, None), ("stranger", None), (b.id, None), (c.id, None), ("", None), ("", "nobody"))
    s.describe()
    a.heartbeat()


@story(ApiKey.LEAVE_GROUP, SEVERAL)
def all_leave_at_once(s: Story) -> None:
    a, b = s.stable(2)
    a.leave((b.id, None), (a.id, None), reason="we are done")
    s.describe()


@story(ApiKey.LEAVE_GROUP, SEVERAL)
def nobody_leaves(s: Story) -> None:
    s.ask(ApiKey.LEAVE_GROUP, LeaveGroupRequest(s.group, "", []))
    (a,) = s.stable()
    s.ask(ApiKey.LEAVE_GROUP, LeaveGroupRequest(s.group, "", []))
    s.ask(ApiKey.LEAVE_GROUP, LeaveGroupRequest("", "", []))
    a.heartbeat()


@story(ApiKey.LEAVE_GROUP, SEVERAL)
def a_dynamic_member_does_not_leave_by_an_instance(s: Story) -> None:
    (a,) = s.stable()
    a.leave((a.id, "made up"))
    a.leave((a.id, ""))
    a.heartbeat()


@story(ApiKey.LEAVE_GROUP)
def an_id_that_was_given_out_can_be_given_back(s: Story) -> None:
    b = s.member()
    b.join()
    b.leave()
    b.leave()
    b.join()
    s.describe()


@story(ApiKey.LEAVE_GROUP)
def the_last_one_missing_leaves_and_the_join_phase_ends(s: Story) -> None:
    a, b = s.stable(2)
    a.send_join()
    s.until("PreparingRebalance", 2)
    b.leave()
    a.take()


@story(ApiKey.LEAVE_GROUP)
def a_follower_leaves_while_the_leader_assigns(s: Story) -> None:
    a, b = s.completing(2)
    b.leave()
    s.describe()
    a.sync([a, b])
    a.join()


@story(ApiKey.LEAVE_GROUP)
def everyone_leaves_while_the_leader_assigns(s: Story) -> None:
    a, b = s.completing(2)
    b.leave()
    a.leave()
    s.describe()
    s.member().enter()


@story(ApiKey.LEAVE_GROUP)
def a_group_of_offsets_has_nobody_to_leave(s: Story) -> None:
    topic = s.peer.create()
    s.commit({(topic, 0): 1})
    s.member().leave(("stranger", None))
