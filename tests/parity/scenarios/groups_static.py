"""Static members: instances that come back, and those who are not them any more."""

from __future__ import annotations

from kohort.protocol.api_keys import ApiKey
from tests.group_requests import subscription
from tests.parity.story import BOTH, RANGE, Member, Story, story

JOINS = range(5, 10)
REVERSED = tuple(reversed(BOTH))


def static_pair(s: Story) -> tuple[Member, Member]:
    """Stable: a static leader `one` and a static follower `two`."""
    a, b = s.member(instance="one"), s.member(instance="two")
    a.join()
    a.sync([a])
    b.send_join()
    s.until("PreparingRebalance", 2)
    a.join()
    b.take()
    b.send_sync()
    a.sync([a, b])
    b.take()
    return a, b


@story(ApiKey.JOIN_GROUP, JOINS)
def a_static_member_joins_in_one_step(s: Story) -> None:
    a = s.member(instance="one")
    a.join()
    a.sync([a])
    s.describe()


@story(ApiKey.JOIN_GROUP, JOINS)
def two_static_members_share_a_group(s: Story) -> None:
    a, b = static_pair(s)
    a.heartbeat()
    b.heartbeat()
    s.describe()


@story(ApiKey.JOIN_GROUP, JOINS)
def a_static_follower_comes_back_without_a_rebalance(s: Story) -> None:
    a, _ = static_pair(s)
    again = s.member(instance="two")
    again.join()
    again.sync()
    a.heartbeat()
    s.describe()


@story(ApiKey.JOIN_GROUP, JOINS)
def a_static_leader_comes_back_without_a_rebalance(s: Story) -> None:
    _, b = static_pair(s)
    again = s.member(instance="one")
    again.join()
    again.sync()
    b.heartbeat()
    s.describe()


@story(ApiKey.JOIN_GROUP, JOINS)
def a_lonely_static_leader_comes_back_again_and_again(s: Story) -> None:
    a = s.member(instance="one")
    a.join()
    a.sync([a])
    for _ in range(3):
        again = s.member(instance="one")
        again.join()
        again.sync()
        again.heartbeat()


@story(ApiKey.JOIN_GROUP, JOINS)
def a_static_leader_that_came_back_and_joins_again_starts_a_new_generation(s: Story) -> None:
    _, b = static_pair(s)
    again = s.member(instance="one")
    again.join()
    again.send_join()
    s.until("PreparingRebalance", 2)
    b.join()
    again.take()


@story(ApiKey.JOIN_GROUP, JOINS)
def other_metadata_of_a_static_member_that_comes_back_is_no_news(s: Story) -> None:
    a, _ = static_pair(s)
    again = s.member(instance="two")
    again.join((("range", subscription("u")), ("roundrobin", subscription("u"))))
    again.sync()
    a.heartbeat()
    s.describe()


@story(ApiKey.JOIN_GROUP, JOINS)
def a_static_member_that_comes_back_with_another_favourite_starts_a_rebalance(s: Story) -> None:
    a = s.member(instance="one")
    a.join()
    a.sync([a])
    again = s.member(instance="one")
    again.join(REVERSED)
    again.sync([again])
    s.describe()


@story(ApiKey.JOIN_GROUP, JOINS)
def a_static_member_that_comes_back_without_the_common_protocol_is_refused(s: Story) -> None:
    static_pair(s)
    s.member(instance="two").join((("sticky", b""),))
    s.describe()


@story(ApiKey.JOIN_GROUP, JOINS)
def a_static_member_that_comes_back_while_the_leader_assigns_starts_over(s: Story) -> None:
    a, b = static_pair(s)
    a.send_join()
    s.until("PreparingRebalance", 2)
    b.join()
    a.take()
    b.send_sync()
    s.describe()
    again = s.member(instance="two")
    again.send_join()
    s.until("PreparingRebalance", 2)
    b.take()
    a.join()
    again.take()


@story(ApiKey.JOIN_GROUP, JOINS)
def a_static_member_that_comes_back_while_all_join_takes_over_the_waiting_join(s: Story) -> None:
    a, b = static_pair(s)
    a.send_join()
    s.until("PreparingRebalance", 2)
    again = s.member(instance="one")
    again.send_join()
    a.take()
    b.join()
    again.take()


@story(ApiKey.JOIN_GROUP, JOINS)
def a_static_member_that_left_and_comes_back_is_new(s: Story) -> None:
    a, b = static_pair(s)
    b.leave(("", "two"))
    again = s.member(instance="two")
    again.send_join()
    s.until("PreparingRebalance", 2)
    a.join()
    again.take()


@story(ApiKey.JOIN_GROUP, JOINS)
def an_instance_with_the_wrong_id_is_fenced_when_it_joins(s: Story) -> None:
    a, b = static_pair(s)
    again = s.member(instance="two")
    again.join()
    b.join()
    a.join(member_id=b.id, instance="one")
    a.join(member_id="stranger", instance="one")
    a.join(member_id=a.id, instance="unheard of")
    a.join(member_id="stranger", instance="unheard of")
    plain = s.member()
    plain.join(member_id=b.id)
    plain.join(member_id=again.id)


@story(ApiKey.JOIN_GROUP, JOINS)
def an_instance_id_may_be_empty(s: Story) -> None:
    a = s.member(instance="")
    a.join(RANGE)
    a.sync([a])
    s.describe()


@story(ApiKey.JOIN_GROUP, JOINS)
def static_and_dynamic_members_share_a_group(s: Story) -> None:
    a = s.member(instance="one")
    a.join()
    a.sync([a])
    b = s.member()
    b.send_enter()
    s.until("PreparingRebalance", 2)
    a.join()
    b.take()
    s.describe()


def old_and_new(s: Story) -> tuple[Member, Member, Member]:
    """The leader, an instance that was replaced, and its replacement."""
    a, b = static_pair(s)
    again = s.member(instance="two")
    again.join()
    return a, b, again


@story(ApiKey.HEARTBEAT, (3, 4))
def an_instance_that_was_replaced_is_fenced_at_its_heartbeat(s: Story) -> None:
    a, b, again = old_and_new(s)
    b.heartbeat()
    b.heartbeat(generation=99)
    again.heartbeat()
    a.heartbeat(instance="unheard of")
    a.heartbeat(instance="two")
    a.heartbeat(member_id="stranger")


@story(ApiKey.HEARTBEAT, (0, 1, 2))
def the_old_id_of_an_instance_is_unknown_to_old_heartbeats(s: Story) -> None:
    a, b, again = old_and_new(s)
    for member in (a, b, again):
        member.heartbeat()


@story(ApiKey.SYNC_GROUP, (3, 4, 5))
def an_instance_that_was_replaced_is_fenced_at_its_sync(s: Story) -> None:
    a, b, again = old_and_new(s)
    b.sync()
    b.sync(generation=99)
    again.sync()
    a.sync(instance="unheard of")
    a.sync(instance="two")


@story(ApiKey.SYNC_GROUP, (0, 1, 2))
def the_old_id_of_an_instance_is_unknown_to_old_syncs(s: Story) -> None:
    a, b, again = old_and_new(s)
    for member in (a, b, again):
        member.sync()


@story(ApiKey.OFFSET_COMMIT, range(7, 11))
def an_instance_that_was_replaced_is_fenced_at_its_commit(s: Story) -> None:
    topic = s.peer.create()
    a, b, again = old_and_new(s)
    b.commit({(topic, 0): 1})
    again.commit({(topic, 0): 2})
    a.commit({(topic, 0): 3}, instance="unheard of")
    a.commit({(topic, 0): 4}, instance="two")
    b.commit({(topic, 0): 5}, generation=-1)
    b.commit({(topic, 0): 6}, generation=-1, member_id="", instance="two")
    s.fetch({topic: [0]})


@story(ApiKey.OFFSET_COMMIT, range(2, 7))
def the_old_id_of_an_instance_is_unknown_to_old_commits(s: Story) -> None:
    topic = s.peer.create()
    _, b, again = old_and_new(s)
    b.commit({(topic, 0): 1})
    again.commit({(topic, 0): 2})
    s.fetch({topic: [0]})


@story(ApiKey.LEAVE_GROUP, (3, 4, 5))
def an_instance_that_was_replaced_cannot_leave(s: Story) -> None:
    _, b, again = old_and_new(s)
    b.leave()
    b.leave((b.id, None))
    b.leave((again.id, "unheard of"), (b.id, "two"), (again.id, "two"))
    s.describe()


@story(ApiKey.LEAVE_GROUP, (3, 4, 5))
def instances_are_sent_away_by_name(s: Story) -> None:
    a, _ = static_pair(s)
    a.leave(("", "two"), ("", "unheard of"), ("", None))
    a.heartbeat()
    s.describe()
    a.leave(("", "one"))
    s.describe()
