"""Groups that change their protocol while members are there (online upgrade and downgrade), in all policies.

Ids of members that joined a classic group are random. Who gets an odd partition depends on ids: there is none.
"""

from __future__ import annotations

from kohort.protocol.api_keys import ApiKey
from tests.group_requests import assignment_bytes
from tests.parity.consumer_story import (
    LEAVE_FOR_NOW,
    Consumer,
    ConsumerStory,
    classic_group,
    classic_protocols,
    consumer_story,
    rejoin,
)
from tests.parity.pairs import DOWNGRADE, FEW_CONSUMERS, UPGRADE
from tests.parity.story import Member

SHORT_MS = 1_000


def upgraded(s: ConsumerStory, topic: str) -> tuple[Member, Consumer]:
    """A classic member and a new one, with two of four partitions each."""
    (a,) = classic_group(s, topic, [[0, 1, 2, 3]])
    b = s.consumer("b")
    b.start(topic)
    a.heartbeat()
    rejoin(a, topic, [0, 1, 2, 3])
    rejoin(a, topic, [0, 1])
    s.reconcile(b)
    return a, b


# --- upgrade


@consumer_story()
def a_consumer_joins_a_classic_group(s: ConsumerStory) -> None:
    topic = s.topic(partitions=4)
    (a,) = classic_group(s, topic, [[0, 1, 2, 3]])
    b = s.consumer("b")
    b.start(topic)
    s.describe_consumers()
    s.describe()
    s.list_groups()
    a.heartbeat()
    rejoin(a, topic, [0, 1, 2, 3])
    s.describe_consumers()
    a.heartbeat()
    rejoin(a, topic, [0, 1])
    a.heartbeat()
    b.beat()
    s.describe_consumers()


@consumer_story()
def a_classic_group_of_two_is_rolled_over(s: ConsumerStory) -> None:
    topic = s.topic(partitions=6)
    a, b = classic_group(s, topic, [[0, 1, 2], [3, 4, 5]])
    c = s.consumer("c")
    c.start(topic)
    s.describe_consumers()
    for member, owned in ((a, [0, 1, 2]), (b, [3, 4, 5])):
        member.heartbeat()
        rejoin(member, topic, owned)
        rejoin(member, topic, owned[:2])
        member.heartbeat()
    s.reconcile(c)
    s.describe_consumers()
    a.leave()
    s.describe_consumers()
    b.heartbeat()
    b.leave()
    s.describe_consumers()
    s.reconcile(c)
    s.describe_consumers()
    s.list_groups()


@consumer_story()
def Kafka_stumbles_over_a_partition_that_a_classic_leader_gave_to_two_members(s: ConsumerStory) -> None:
    topic = s.topic(partitions=4)
    a, b = classic_group(s, topic, [[0, 1, 2], [2, 3]])
    s.consumer("c").start(topic)
    s.describe()
    s.describe_consumers()
    a.heartbeat()
    b.heartbeat()


@consumer_story()
def Kafka_stumbles_over_a_partition_that_a_classic_leader_gave_although_it_does_not_exist(s: ConsumerStory) -> None:
    topic = s.topic(partitions=4)
    (a,) = classic_group(s, topic, [[0, 1, 2, 3, 99]])
    b = s.consumer("b")
    b.start(topic)
    s.describe_consumers()
    a.heartbeat()
    rejoin(a, topic, [0, 1, 2, 3, 99])
    s.describe_consumers()
    a.heartbeat()
    rejoin(a, topic, [0, 1])
    s.reconcile(b)
    s.describe_consumers()


@consumer_story()
def a_consumer_joins_while_classic_members_wait_for_others(s: ConsumerStory) -> None:
    topic = s.topic(partitions=6)
    a, b = classic_group(s, topic, [[0, 1, 2], [3, 4, 5]])
    a.send_join(classic_protocols(topic, owned={topic: [0, 1, 2]}))
    s.until("PreparingRebalance", 2)
    c = s.consumer("c")
    c.start(topic)
    a.take()
    s.describe_consumers()
    b.heartbeat()
    rejoin(a, topic, [0, 1, 2])
    rejoin(b, topic, [3, 4, 5])
    s.describe_consumers()


@consumer_story()
def a_consumer_joins_while_a_classic_leader_assigns(s: ConsumerStory) -> None:
    topic = s.topic(partitions=6)
    a, b = classic_group(s, topic, [[0, 1, 2], [3, 4, 5]])
    a.send_join(classic_protocols(topic))
    s.until("PreparingRebalance", 2)
    b.join(classic_protocols(topic))
    a.take()
    b.send_sync()
    s.describe()
    s.consumer("c").start(topic)
    b.take()
    s.describe_consumers()
    a.sync(assignments={a.id: assignment_bytes({topic: [0, 1, 2, 3, 4, 5]})})
    a.heartbeat()


@consumer_story()
def a_consumer_joins_a_classic_group_whose_only_member_has_not_synced(s: ConsumerStory) -> None:
    topic, other = s.topic(), s.topic("-other")
    (a,) = s.completing(protocols=classic_protocols(topic))
    s.consumer("b").start(other)
    s.describe_consumers()
    a.sync()
    a.heartbeat()


@consumer_story()
def an_empty_classic_group_becomes_a_consumer_group(s: ConsumerStory) -> None:
    topic = s.topic()
    (a,) = classic_group(s, topic, [[0, 1, 2]])
    a.commit({(topic, 0): 7})
    a.leave()
    b = s.consumer("b")
    b.start(topic)
    s.describe_consumers()
    s.list_groups()
    s.fetch({topic: [0]})
    a.heartbeat()
    b.beat()


@consumer_story()
def only_a_member_that_joins_changes_a_classic_group(s: ConsumerStory) -> None:
    topic = s.topic()
    (a,) = classic_group(s, topic, [[0, 1, 2]])
    b = s.consumer("b")
    for epoch in (1, 2, -1):
        b.beat(epoch=epoch)
    b.instance = "two"
    b.beat(epoch=-2)
    s.describe_consumers()
    a.heartbeat()


@consumer_story()
def a_group_of_another_protocol_type_is_not_changed(s: ConsumerStory) -> None:
    topic = s.topic()
    (a,) = s.stable(protocol_type="connect")
    s.consumer("b").start(topic)
    a.heartbeat()
    s.describe()


@consumer_story()
def a_classic_group_whose_subscription_cannot_be_read_is_not_changed(s: ConsumerStory) -> None:
    topic = s.topic()
    a = s.member()
    a.enter([("range", b"\0\1\0")])
    a.sync([a], assignments={a.id: assignment_bytes({topic: [0]})})
    s.consumer("b").start(topic)
    a.heartbeat()
    s.describe()


@consumer_story()
def a_classic_group_whose_assignment_cannot_be_read_is_not_changed(s: ConsumerStory) -> None:
    topic = s.topic()
    a = s.member()
    a.enter(classic_protocols(topic))
    a.sync(assignments={a.id: b"\0"})
    s.consumer("b").start(topic)
    a.heartbeat()
    s.describe()


@consumer_story()
def a_classic_group_whose_assignor_adds_data_is_not_changed(s: ConsumerStory) -> None:
    topic = s.topic()
    a = s.member()
    a.enter(classic_protocols(topic))
    a.sync(assignments={a.id: assignment_bytes({topic: [0]}, b"data")})
    s.consumer("b").start(topic)
    a.heartbeat()
    s.describe()


@consumer_story()
def empty_data_of_an_assignor_is_none(s: ConsumerStory) -> None:
    topic = s.topic(partitions=4)
    a = s.member()
    a.enter(classic_protocols(topic))
    a.sync(assignments={a.id: assignment_bytes({topic: [0, 1, 2, 3], "unknown": [0]}, b"")})
    s.consumer("b").start(topic)
    s.describe_consumers()


@consumer_story()
def a_static_classic_member_comes_back_with_the_new_protocol(s: ConsumerStory) -> None:
    topic = s.topic(partitions=4)
    a, b = s.member(instance="one"), s.consumer("b", instance="one")
    a.join(classic_protocols(topic))
    a.sync(assignments={a.id: assignment_bytes({topic: [0, 1, 2, 3]})})
    b.start(topic)
    s.describe_consumers()
    a.heartbeat()
    b.beat()


def static_classic_pair(s: ConsumerStory, topic: str) -> tuple[Member, Member]:
    """A stable classic group of two static members, with two of four partitions each."""
    a, b = s.member(instance="one"), s.member(instance="two")
    a.join(classic_protocols(topic))
    a.sync(assignments={a.id: assignment_bytes({topic: [0, 1, 2, 3]})})
    b.send_join(classic_protocols(topic))
    s.until("PreparingRebalance", 2)
    a.join(classic_protocols(topic))
    b.take()
    b.send_sync()
    a.sync(assignments={a.id: assignment_bytes({topic: [0, 1]}), b.id: assignment_bytes({topic: [2, 3]})})
    b.take()
    return a, b


@consumer_story()
def one_of_two_static_classic_members_comes_back_with_the_new_protocol(s: ConsumerStory) -> None:
    topic = s.topic(partitions=4)
    a, b = static_classic_pair(s, topic)
    c = s.consumer("c", instance="two")
    c.start(topic)
    s.describe_consumers()
    a.heartbeat()
    b.heartbeat()
    rejoin(a, topic, [0, 1])
    a.heartbeat()
    s.describe_consumers()


@consumer_story()
def a_static_member_upgrades_a_group_in_which_a_member_waits(s: ConsumerStory) -> None:
    """The third one joins for a generation that does not come, and gets nothing."""
    topic = s.topic(partitions=4)
    a, _ = static_classic_pair(s, topic)
    late = s.member(instance="three")
    late.send_join(classic_protocols(topic))
    s.until("PreparingRebalance", 3)
    c = s.consumer("c", instance="two")
    c.start(topic)
    late.take()
    s.describe_consumers()
    late.join(classic_protocols(topic))
    late.sync()
    a.heartbeat()
    s.describe_consumers()


@consumer_story()
def a_consumer_without_topics_upgrades_a_group_in_which_a_member_waits(s: ConsumerStory) -> None:
    """It brings nothing new, so the epoch stays."""
    topic = s.topic(partitions=4)
    a, _ = static_classic_pair(s, topic)
    late = s.member(instance="three")
    late.send_join(classic_protocols(topic))
    s.until("PreparingRebalance", 3)
    c = s.consumer("c")
    c.start()
    late.take()
    s.describe_consumers()
    late.join(classic_protocols(topic))
    late.sync()
    a.heartbeat()
    c.beat()
    s.describe_consumers()


@consumer_story()
def a_consumer_without_topics_upgrades_a_group_that_its_last_consumer_has_left(s: ConsumerStory) -> None:
    """The group has become a classic one in a join phase, and its members have not joined yet."""
    topic = s.topic(partitions=4)
    a, b = upgraded(s, topic)
    b.leave_group()
    s.describe()
    c = s.consumer("c")
    c.start()
    s.describe_consumers()
    a.heartbeat()
    rejoin(a, topic, [0, 1])
    s.describe_consumers()


@consumer_story()
def a_static_member_upgrades_a_group_whose_topic_has_grown(s: ConsumerStory) -> None:
    """The partitions that the classic leader has not seen are nobody's."""
    topic = s.topic(partitions=4)
    a, _ = static_classic_pair(s, topic)
    s.grow(topic, 6)
    c = s.consumer("c", instance="two")
    c.start(topic)
    s.describe_consumers()
    a.heartbeat()
    rejoin(a, topic, [0, 1])
    c.beat()
    s.describe_consumers()


@consumer_story()
def a_consumer_joins_a_classic_group_of_which_only_an_id_is_left(s: ConsumerStory) -> None:
    topic = s.topic(partitions=4)
    (a,) = classic_group(s, topic, [[0, 1, 2, 3]])
    late = s.member()
    late.join(classic_protocols(topic))
    a.leave()  # now the group rebalances, but that lasts 0 ms: who looks may find it Empty already
    b = s.consumer("b")
    b.start(topic)
    s.describe_consumers()
    a.heartbeat()
    rejoin(late, topic)
    s.reconcile(b)
    rejoin(late, topic)
    s.describe_consumers()


@consumer_story(ApiKey.OFFSET_COMMIT, (9,))
def offsets_are_kept_over_a_change_of_the_protocol(s: ConsumerStory) -> None:
    topic = s.topic(partitions=4)
    (a,) = classic_group(s, topic, [[0, 1, 2, 3]])
    a.commit({(topic, 0): 7, (topic, 3): 8})
    b = s.consumer("b")
    b.start(topic)
    a.commit({(topic, 0): 9})
    a.commit({(topic, 0): 10}, generation=a.generation + 1)
    b.commit_as({(topic, 3): 11})
    s.fetch({topic: [0, 3]})
    b.leave_group()
    s.until("PreparingRebalance", 1)
    a.commit({(topic, 0): 12})
    s.fetch({topic: [0, 3]})


@consumer_story()
def a_classic_member_goes_on_with_the_new_protocol_and_says_nothing_else(s: ConsumerStory) -> None:
    """The same member id, and its generation as the epoch."""
    topic = s.topic(partitions=4)
    (b,) = s.consumers(topic, "b")
    c = s.member()
    c.id = "c"
    c.join(classic_protocols(topic))
    s.reconcile(b)
    rejoin(c, topic)
    s.describe_consumers()
    d = s.consumer("c")
    d.beat(epoch=c.generation)
    s.describe_consumers()
    c.heartbeat()
    d.beat()
    s.describe_consumers()


@consumer_story()
def a_classic_member_with_an_id_comes_to_an_empty_consumer_group(s: ConsumerStory) -> None:
    topic = s.topic(partitions=4)
    (a,) = s.consumers(topic, "a")
    a.leave_group()
    c = s.member()
    c.id = "c"
    c.join(classic_protocols(topic))
    s.describe_consumers()
    b = s.consumer("b")
    b.start(topic)
    s.describe_consumers()


# --- downgrade


@consumer_story()
def the_last_consumer_leaves_classic_members_behind(s: ConsumerStory) -> None:
    topic = s.topic(partitions=4)
    a, b = upgraded(s, topic)
    b.leave_group()
    s.describe()
    s.describe_consumers()
    s.list_groups()
    b.beat(epoch=3)
    a.heartbeat()
    a.join(classic_protocols(topic, owned={topic: [0, 1]}, generation=a.generation))
    a.sync(assignments={a.id: assignment_bytes({topic: [0, 1, 2, 3]})})
    s.describe()


@consumer_story()
def the_last_consumer_is_sent_away_from_classic_members(s: ConsumerStory) -> None:
    topic = s.topic(partitions=4)
    a, _ = upgraded(s, topic)
    a.leave(("b", None))
    s.describe()
    a.heartbeat()


@consumer_story()
def the_last_consumer_is_silent(s: ConsumerStory) -> None:
    topic = s.topic(partitions=4)
    s.set_group(consumer_session_timeout_ms=f"{SHORT_MS}", consumer_heartbeat_interval_ms="200")
    a, _ = upgraded(s, topic)
    s.until("PreparingRebalance", 1)
    s.describe()
    a.heartbeat()


@consumer_story()
def the_last_consumer_leaves_while_a_classic_member_revokes(s: ConsumerStory) -> None:
    topic = s.topic(partitions=4)
    (a,) = classic_group(s, topic, [[0, 1, 2, 3]])
    b = s.consumer("b")
    b.start(topic)
    rejoin(a, topic, [0, 1, 2, 3])
    b.leave_group()
    s.describe()
    a.heartbeat()


@consumer_story()
def the_last_consumer_is_replaced_by_a_classic_member(s: ConsumerStory) -> None:
    topic = s.topic(partitions=4)
    a, b = s.consumer("a", instance="one"), s.member()
    a.start(topic)
    b.join(classic_protocols(topic), member_id="b")
    b.sync()
    s.reconcile(a)
    rejoin(b, topic)
    s.describe_consumers()
    again = s.member(instance="one")
    again.join(classic_protocols(topic))
    s.describe()
    again.sync()
    b.heartbeat()
    again.heartbeat()


@consumer_story()
def a_static_member_downgrades_a_group_in_which_a_member_waits(s: ConsumerStory) -> None:
    """The static member that had the partitions starts again; nobody tells the other one that they are its own."""
    topic = s.topic(partitions=4)
    a, b = s.consumer("a", instance="one"), s.member()
    a.start(topic)
    b.join(classic_protocols(topic), member_id="b")
    b.sync()
    b.heartbeat()
    s.describe_consumers()
    again = s.member(instance="one")
    again.join(classic_protocols(topic))
    s.describe()
    again.sync()
    b.heartbeat()
    again.heartbeat()
    b.sync()


@consumer_story()
def a_static_member_downgrades_a_group_in_which_a_member_revokes(s: ConsumerStory) -> None:
    """The static member that is to have partitions starts again, and has them before the other one gives them up."""
    topic = s.topic(partitions=4)
    b = s.member()
    a = s.consumer("a", instance="one")
    b.enter(classic_protocols(topic))
    b.sync([b], assignments={b.id: assignment_bytes({topic: [0, 1, 2, 3]})})
    a.start(topic)
    rejoin(b, topic, [0, 1, 2, 3])
    s.describe_consumers()
    again = s.member(instance="one")
    again.join(classic_protocols(topic))
    s.describe()
    again.sync()
    b.heartbeat()
    again.heartbeat()


@consumer_story()
def the_last_consumer_is_replaced_by_a_classic_member_with_another_subscription(s: ConsumerStory) -> None:
    topic, other = s.topic(partitions=4), s.topic("-other", 1)
    a, b = s.consumer("a", instance="one"), s.member()
    a.start(topic)
    b.join(classic_protocols(topic), member_id="b")
    b.sync()
    s.reconcile(a)
    rejoin(b, topic)
    a.leave_group(LEAVE_FOR_NOW)
    again = s.member(instance="one")
    again.join(classic_protocols(topic, other))
    s.describe()
    b.heartbeat()


@consumer_story()
def the_only_consumer_is_replaced_by_a_classic_member(s: ConsumerStory) -> None:
    topic = s.topic()
    a = s.consumer("a", instance="one")
    a.start(topic)
    again = s.member(instance="one")
    again.join(classic_protocols(topic))
    s.describe()
    again.sync()
    again.heartbeat()
    a.beat()


@consumer_story()
def an_empty_consumer_group_becomes_a_classic_group(s: ConsumerStory) -> None:
    topic = s.topic()
    (a,) = s.consumers(topic, "a")
    a.commit_as({(topic, 0): 7})
    a.leave_group()
    b = s.member()
    b.enter(classic_protocols(topic))
    b.sync([b])
    s.describe()
    s.describe_consumers()
    s.list_groups()
    s.fetch({topic: [0]})
    a.beat(epoch=2)


@consumer_story()
def a_known_id_does_not_make_a_classic_group_of_an_empty_consumer_group(s: ConsumerStory) -> None:
    topic = s.topic()
    (a,) = s.consumers(topic, "a")
    a.leave_group()
    s.member().join(classic_protocols(topic), member_id="a")
    s.list_groups()
    s.describe_consumers()


@consumer_story()
def a_group_goes_to_the_new_protocol_and_back_and_again(s: ConsumerStory) -> None:
    topic = s.topic(partitions=4)
    a, b = upgraded(s, topic)
    b.leave_group()
    a.join(classic_protocols(topic))
    a.sync(assignments={a.id: assignment_bytes({topic: [0, 1, 2, 3]})})
    b.start(topic)
    s.describe_consumers()
    rejoin(a, topic, [0, 1, 2, 3])
    rejoin(a, topic, [0, 1])
    s.reconcile(b)
    a.leave()
    s.reconcile(b)
    s.describe_consumers()


# --- policies


@consumer_story(pair=FEW_CONSUMERS)
def without_a_policy_consumers_do_not_join_classic_groups(s: ConsumerStory) -> None:
    topic = s.topic()
    (a,) = classic_group(s, topic, [[0, 1, 2]])
    s.consumer("b").start(topic)
    a.heartbeat()
    a.leave()
    s.consumer("b").start(topic)
    s.describe_consumers()


@consumer_story(pair=FEW_CONSUMERS)
def without_a_policy_classic_members_do_not_join_consumer_groups(s: ConsumerStory) -> None:
    topic = s.topic()
    (a,) = s.consumers(topic, "a")
    b = s.member()
    b.join(classic_protocols(topic))
    b.join(classic_protocols(topic), member_id="b")
    s.member(instance="one").join(classic_protocols(topic))
    a.leave_group()
    b.enter(classic_protocols(topic))
    s.describe()


@consumer_story(pair=UPGRADE)
def the_policy_upgrade_lets_consumers_join_classic_groups(s: ConsumerStory) -> None:
    topic = s.topic(partitions=4)
    a, b = upgraded(s, topic)
    s.describe_consumers()
    b.leave_group()
    s.describe_consumers()
    s.describe()
    a.heartbeat()
    rejoin(a, topic, [0, 1])
    s.describe_consumers()


@consumer_story(pair=UPGRADE)
def a_classic_group_that_is_too_large_is_not_upgraded(s: ConsumerStory) -> None:
    topic = s.topic(partitions=6)
    a, b, c = classic_group(s, topic, [[0, 1], [2, 3], [4, 5]])
    d = s.consumer("d")
    d.start(topic)
    c.leave()
    d.start(topic)
    s.describe()
    a.heartbeat()
    b.heartbeat()


@consumer_story(pair=UPGRADE)
def the_policy_upgrade_keeps_a_group_whose_consumers_are_gone(s: ConsumerStory) -> None:
    topic = s.topic(partitions=4)
    a = s.consumer("a", instance="one")
    a.start(topic)
    again = s.member(instance="one")
    again.join(classic_protocols(topic))
    s.describe_consumers()
    again.sync()
    again.leave()
    s.describe_consumers()


@consumer_story(pair=DOWNGRADE)
def the_policy_downgrade_does_not_let_consumers_join_classic_groups(s: ConsumerStory) -> None:
    topic = s.topic()
    (a,) = classic_group(s, topic, [[0, 1, 2]])
    s.consumer("b").start(topic)
    a.heartbeat()
    s.describe()


@consumer_story(pair=DOWNGRADE)
def the_policy_downgrade_lets_classic_members_join_and_take_over(s: ConsumerStory) -> None:
    topic = s.topic(partitions=4)
    (a,) = s.consumers(topic, "a")
    b = s.member()
    b.join(classic_protocols(topic), member_id="b")
    b.sync()
    s.reconcile(a)
    rejoin(b, topic)
    a.leave_group()
    s.describe()
    b.heartbeat()
    s.describe_consumers()


@consumer_story(pair=DOWNGRADE)
def a_consumer_group_that_is_too_large_is_not_downgraded(s: ConsumerStory) -> None:
    topic = s.topic(partitions=4)
    (a,) = s.consumers(topic, "a")
    for name in ("b", "c", "d"):
        member = s.member()
        member.join(classic_protocols(topic), member_id=name)
        member.sync()
    a.leave_group()
    s.describe_consumers()
    member.leave()
    s.describe_consumers()
    s.describe()
