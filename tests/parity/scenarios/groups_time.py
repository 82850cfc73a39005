"""What happens to groups when time passes: late members, silent members, first waits. No time is measured."""

from __future__ import annotations

from kohort.protocol.api_keys import ApiKey
from tests.group_requests import subscription
from tests.parity.story import Story, story

SHORT_MS = 1_000
SOME, STATIC = (1, 4, 9), (5, 9)  # versions: time passes the same way in all of them
HURRIED = "hurried"  # first wait 400 ms, sessions of 100 ms allowed, two members at most


# --- the rebalance timeout, which has no lower bound (in version 0 it is the session's)


@story(ApiKey.JOIN_GROUP, SOME)
def who_does_not_join_again_in_time_is_gone(s: Story) -> None:
    a, b = s.stable(2, rebalance_ms=SHORT_MS)
    a.join(rebalance_ms=SHORT_MS)
    b.heartbeat()


@story(ApiKey.JOIN_GROUP, SOME)
def a_leader_that_does_not_join_again_in_time_is_followed_by_another(s: Story) -> None:
    a, b = s.stable(2, rebalance_ms=SHORT_MS)
    c = s.member()
    c.send_enter(rebalance_ms=SHORT_MS)
    s.until("PreparingRebalance", 3)
    b.leave()
    c.take()
    a.heartbeat()


@story(ApiKey.JOIN_GROUP, SOME)
def who_does_not_sync_in_time_is_gone(s: Story) -> None:
    a, b = s.stable(2, rebalance_ms=SHORT_MS)
    a.send_join(rebalance_ms=SHORT_MS)
    s.until("PreparingRebalance", 2)
    b.join(rebalance_ms=SHORT_MS)
    a.take()
    a.sync([a, b])
    s.until("PreparingRebalance", 1)
    a.join(rebalance_ms=SHORT_MS)
    b.heartbeat()


@story(ApiKey.JOIN_GROUP, SOME)
def a_leader_that_does_not_sync_in_time_is_gone(s: Story) -> None:
    a, b = s.completing(2, rebalance_ms=SHORT_MS)
    b.sync()
    b.join(rebalance_ms=SHORT_MS)
    a.heartbeat()


@story(ApiKey.JOIN_GROUP, SOME)
def the_only_member_does_not_sync_in_time(s: Story) -> None:
    (a,) = s.completing(rebalance_ms=SHORT_MS)
    s.until("Empty")
    a.heartbeat()
    s.describe()


@story(ApiKey.JOIN_GROUP, STATIC)
def a_silent_static_member_is_kept_when_the_join_phase_ends(s: Story) -> None:
    a, b = s.member(instance="one"), s.member(instance="two")
    a.join(rebalance_ms=SHORT_MS)
    a.sync([a])
    b.send_join(rebalance_ms=SHORT_MS)
    s.until("PreparingRebalance", 2)
    a.join(rebalance_ms=SHORT_MS)
    b.take()
    b.send_sync()
    a.sync([a, b])
    b.take()
    a.join(rebalance_ms=SHORT_MS)
    a.sync([a, b])


@story(ApiKey.JOIN_GROUP, STATIC)
def a_silent_static_leader_is_followed_by_another(s: Story) -> None:
    a, b = s.member(instance="one"), s.member()
    a.join(rebalance_ms=SHORT_MS)
    a.sync([a])
    b.send_enter(rebalance_ms=SHORT_MS)
    b.take()


# --- sessions


@story(ApiKey.HEARTBEAT, pair=HURRIED)
def a_member_that_is_not_heard_from_is_gone(s: Story) -> None:
    (a,) = s.stable(session_ms=SHORT_MS)
    s.until("Empty")
    a.heartbeat()
    s.describe()


@story(ApiKey.HEARTBEAT, pair=HURRIED)
def the_others_learn_that_a_member_is_gone(s: Story) -> None:
    a = s.member()
    b = s.member()
    a.enter()
    a.sync([a])
    b.send_enter(session_ms=SHORT_MS)
    s.until("PreparingRebalance", 2)
    a.join()
    b.take()
    a.sync([a, b])
    s.until("PreparingRebalance", 1)
    a.heartbeat()
    b.heartbeat()
    a.join()


@story(ApiKey.JOIN_GROUP, (4, 9), pair=HURRIED)
def an_id_that_was_given_out_expires(s: Story) -> None:
    (a,) = s.stable()
    b = s.member()
    b.join(session_ms=SHORT_MS)
    a.join()
    b.join(session_ms=SHORT_MS)


@story(ApiKey.JOIN_GROUP, STATIC, pair=HURRIED)
def a_static_member_that_is_not_heard_from_is_gone(s: Story) -> None:
    a = s.member(instance="one")
    a.join(session_ms=SHORT_MS)
    a.sync([a])
    s.until("Empty")
    a.heartbeat()
    s.describe()


@story(ApiKey.JOIN_GROUP, SOME, pair=HURRIED)
def a_member_that_waits_for_the_others_is_not_silent(s: Story) -> None:
    a, b = s.member(), s.member()
    a.enter(session_ms=SHORT_MS, rebalance_ms=2 * SHORT_MS)
    a.sync([a])
    b.send_enter(rebalance_ms=2 * SHORT_MS)
    s.until("PreparingRebalance", 2)
    a.join(session_ms=SHORT_MS, rebalance_ms=2 * SHORT_MS)
    b.take()
    a.join((("range", subscription("u")),), session_ms=SHORT_MS, rebalance_ms=2 * SHORT_MS)
    b.heartbeat()


# --- the first wait


@story(ApiKey.JOIN_GROUP, pair=HURRIED)
def members_that_come_during_the_first_wait_share_the_first_generation(s: Story) -> None:
    a, b = s.member(), s.member()
    a.send_enter()
    s.until("PreparingRebalance", 1)
    s.describe()
    b.send_enter()
    b.take()
    a.take()
    b.send_sync()
    a.sync([a, b])
    b.take()


@story(ApiKey.JOIN_GROUP, pair=HURRIED)
def everyone_leaves_during_the_first_wait(s: Story) -> None:
    a, b = s.member(), s.member()
    a.send_enter()
    s.until("PreparingRebalance", 1)
    found = s.describe()
    b.leave((found.groups[0].members[0].member_id, None))
    a.take()
    s.until("Empty")
    s.describe()
    b.enter()


# --- group.max.size


@story(ApiKey.JOIN_GROUP, pair=HURRIED)
def a_full_group_takes_nobody_more(s: Story) -> None:
    a, b, c = s.member(), s.member(), s.member()
    a.send_enter()
    s.until("PreparingRebalance", 1)
    b.send_enter()
    s.until("PreparingRebalance", 2)
    c.enter()
    a.take()
    b.take()
    c.enter()
    b.send_sync()
    a.sync([a, b])
    b.take()
    c.enter()
    b.join()
    s.describe()


@story(ApiKey.JOIN_GROUP, range(5, 10), pair=HURRIED)
def a_static_member_of_a_full_group_does_not_come_back_as_another(s: Story) -> None:
    a, b = s.member(instance="one"), s.member(instance="two")
    a.send_join()
    s.until("PreparingRebalance", 1)
    b.send_join()
    b.take()
    a.take()
    b.send_sync()
    a.sync([a, b])
    b.take()
    s.member(instance="two").join()
    s.member(instance="three").join()
