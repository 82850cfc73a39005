"""Members of a group of KIP-848: epochs, reconciliation, lost answers, fencing, leaving."""

from __future__ import annotations

from kohort.protocol.api_keys import ApiKey
from tests.parity.consumer_story import ConsumerStory, consumer_story
from tests.parity.story import REBALANCE_MS

BOTH = (0, 1)


@consumer_story(versions=BOTH)
def the_first_member_gets_everything(s: ConsumerStory) -> None:
    topic = s.topic()
    a = s.consumer("a")
    a.start(topic)
    s.describe_consumers()
    a.beat()
    a.beat(owned={topic: [0, 1, 2]})
    s.describe_consumers()


@consumer_story(versions=BOTH)
def a_second_member_waits_until_the_first_has_revoked(s: ConsumerStory) -> None:
    topic = s.topic()
    a, b = s.consumer("a"), s.consumer("b")
    a.start(topic)
    b.start(topic)
    s.describe_consumers()
    a.beat()
    s.describe_consumers()
    a.beat()
    b.beat()
    a.beat(owned=a.assigned)
    s.describe_consumers()
    a.beat()
    b.beat()
    b.beat(owned=b.assigned)
    s.describe_consumers()


@consumer_story()
def a_member_without_topics_joins_when_a_target_is_due(s: ConsumerStory) -> None:
    topic = s.topic(partitions=4)
    a, b = s.consumers(topic, "a", "b")
    b.leave_group()
    c = s.consumer("c")
    c.start()
    s.describe_consumers()
    a.beat(owned=a.assigned)
    c.beat(owned={})
    s.describe_consumers()


@consumer_story()
def a_member_that_still_owns_what_it_must_revoke_does_not_advance(s: ConsumerStory) -> None:
    topic = s.topic()
    a, b = s.consumer("a"), s.consumer("b")
    a.start(topic)
    b.start(topic)
    a.beat(owned={topic: [0, 1, 2]})
    a.beat(owned={topic: [0, 1, 2]})
    s.describe_consumers()
    a.beat(owned={topic: [1]})
    s.describe_consumers()
    a.beat()
    b.beat()
    s.describe_consumers()


@consumer_story()
def a_member_that_has_revoked_before_it_was_told_advances_at_once(s: ConsumerStory) -> None:
    topic = s.topic()
    a, b = s.consumer("a"), s.consumer("b")
    a.start(topic)
    b.start(topic)
    a.beat(owned={})
    s.describe_consumers()
    b.beat()
    a.beat(owned=a.assigned)


@consumer_story()
def three_members_share_seven_partitions(s: ConsumerStory) -> None:
    topic = s.topic(partitions=7)
    a, b, c = s.consumers(topic, "a", "b", "c")
    s.describe_consumers()
    b.leave_group()
    s.describe_consumers()
    s.reconcile(a, c)
    s.describe_consumers()


@consumer_story()
def ten_members_come_at_once(s: ConsumerStory) -> None:
    topic = s.topic(partitions=24)
    members = [s.consumer(f"member {number}") for number in range(10)]
    for member in members:
        member.start(topic)
    s.describe_consumers()
    s.reconcile(*members)
    s.describe_consumers()
    for member in members[::3]:
        member.leave_group()
    s.reconcile(*(member for member in members if member.epoch > 0))
    s.describe_consumers()


@consumer_story()
def there_are_more_members_than_partitions(s: ConsumerStory) -> None:
    topic = s.topic(partitions=2)
    members = s.consumers(topic, "a", "b", "c", "d")
    s.describe_consumers()
    next(member for member in members if member.assigned).leave_group()
    s.reconcile(*(member for member in members if member.epoch > 0))
    s.describe_consumers()


@consumer_story()
def a_member_whose_partitions_are_not_free_waits_for_them(s: ConsumerStory) -> None:
    topic = s.topic(partitions=4)
    a, b = s.consumers(topic, "a", "b")
    c = s.consumer("c")
    c.start(topic)
    c.beat(owned={})
    c.beat()
    s.describe_consumers()
    b.reconcile()
    b.reconcile()
    c.beat()
    a.reconcile()
    a.reconcile()
    c.beat()
    s.describe_consumers()


@consumer_story()
def a_full_request_is_answered_with_the_assignment(s: ConsumerStory) -> None:
    topic = s.topic()
    (a,) = s.consumers(topic, "a")
    a.beat(owned=a.assigned)
    a.beat_fully(topic)
    a.beat(rebalance_ms=1000, owned=a.assigned)
    a.beat(topics=[topic], owned=a.assigned)
    a.beat(topics=[topic], rebalance_ms=1000)
    s.describe_consumers()


@consumer_story(versions=BOTH)
def an_answer_that_was_lost_is_given_again(s: ConsumerStory) -> None:
    topic = s.topic()
    a, b = s.consumer("a"), s.consumer("b")
    a.start(topic)
    b.start(topic)
    a.beat()
    a.beat(owned=a.assigned)
    a.beat(epoch=2, owned=a.assigned)
    a.beat(epoch=2, owned={})
    a.beat(epoch=2, owned={topic: a.assigned[topic][:1]})
    a.beat(epoch=2, owned={topic: []})
    s.describe_consumers()


@consumer_story()
def a_member_that_waited_for_partitions_is_told_once_or_if_it_says_everything(s: ConsumerStory) -> None:
    """It gets them without a new epoch: if that answer is lost, only a full request asks for it again."""
    topic = s.topic(partitions=4)
    a, b = s.consumer("a"), s.consumer("b")
    a.start(topic)
    b.start(topic)
    a.reconcile()
    a.reconcile()
    before = dict(b.assigned)
    b.beat()
    b.beat()
    b.beat(owned=before)
    b.beat(topics=[topic], owned=before)
    b.beat(rebalance_ms=REBALANCE_MS, owned=before)
    b.beat(topics=[topic], rebalance_ms=REBALANCE_MS)
    s.describe_consumers()
    b.beat(topics=[topic], rebalance_ms=REBALANCE_MS, owned=before)
    b.beat(owned=b.assigned)
    s.describe_consumers()


@consumer_story()
def a_member_that_must_revoke_is_told_once_or_if_it_says_everything(s: ConsumerStory) -> None:
    topic = s.topic(partitions=4)
    a, b = s.consumer("a"), s.consumer("b")
    a.start(topic)
    before = dict(a.assigned)
    b.start(topic)
    a.beat()
    a.beat()
    a.beat(owned=before)
    s.describe_consumers()
    a.beat(topics=[topic], rebalance_ms=REBALANCE_MS, owned=before)
    a.beat(owned=a.assigned)
    b.beat()
    s.describe_consumers()


@consumer_story()
def a_member_that_owns_more_than_it_may_is_fenced_with_its_last_epoch(s: ConsumerStory) -> None:
    topic, other = s.topic(), s.topic("-other")
    a, b = s.consumer("a"), s.consumer("b")
    a.start(topic)
    b.start(topic)
    a.beat()
    a.beat(owned=a.assigned)
    a.beat(epoch=2)
    a.beat(epoch=2, owned={topic: [0, 1, 2]})
    a.beat(epoch=2, owned={**a.assigned, other: [0]})
    a.beat(epoch=1, owned=a.assigned)
    a.beat(epoch=4, owned=a.assigned)
    a.beat(epoch=99)
    a.beat()
    s.describe_consumers()


@consumer_story()
def the_first_answer_was_lost(s: ConsumerStory) -> None:
    """The member joins again with the id that it chose: it is there already."""
    topic = s.topic()
    a = s.consumer("a")
    a.start(topic)
    a.start(topic)
    s.describe_consumers()
    a.beat(epoch=1, owned={})
    a.beat()


@consumer_story()
def a_member_that_joins_again_keeps_its_assignment(s: ConsumerStory) -> None:
    topic = s.topic()
    a, b = s.consumers(topic, "a", "b")
    a.start(topic)
    s.describe_consumers()
    b.beat()
    a.beat()


@consumer_story()
def a_member_that_joins_again_while_it_revokes_has_revoked(s: ConsumerStory) -> None:
    topic = s.topic()
    a, b = s.consumer("a"), s.consumer("b")
    a.start(topic)
    b.start(topic)
    a.beat()
    a.start(topic)
    s.describe_consumers()
    b.beat()
    s.describe_consumers()


@consumer_story(versions=BOTH)
def a_stranger_is_unknown(s: ConsumerStory) -> None:
    topic = s.topic()
    (a,) = s.consumers(topic, "a")
    for epoch in (1, 2, 99, -1):
        s.consumer("stranger").beat(epoch=epoch, owned={})
    a.beat(member_id="A")
    s.describe_consumers()


@consumer_story(versions=BOTH)
def the_last_member_leaves(s: ConsumerStory) -> None:
    topic = s.topic()
    (a,) = s.consumers(topic, "a")
    a.leave_group()
    s.describe_consumers()
    a.beat(epoch=2)
    a.leave_group()
    b = s.consumer("b")
    b.start(topic)
    s.describe_consumers()


@consumer_story()
def a_member_that_left_comes_back(s: ConsumerStory) -> None:
    topic = s.topic()
    a, b = s.consumers(topic, "a", "b")
    a.leave_group()
    a.start(topic)
    s.describe_consumers()
    s.reconcile(a, b)
    s.describe_consumers()


@consumer_story()
def everything_a_leaving_member_says_besides_is_ignored(s: ConsumerStory) -> None:
    topic = s.topic()
    a, b = s.consumers(topic, "a", "b")
    a.beat(epoch=-1, owned={topic: [0, 1, 2]}, topics=["other"], rack="r", rebalance_ms=5)
    b.beat()
    s.describe_consumers()


@consumer_story()
def the_partitions_of_a_member_that_left_while_it_revoked_are_free(s: ConsumerStory) -> None:
    topic = s.topic()
    a, b = s.consumer("a"), s.consumer("b")
    a.start(topic)
    b.start(topic)
    a.beat()
    a.leave_group()
    b.beat()
    s.describe_consumers()


@consumer_story(versions=BOTH)
def another_subscription_starts_a_new_epoch(s: ConsumerStory) -> None:
    topic, other = s.topic(), s.topic("-other", 2)
    a, b = s.consumers(topic, "a", "b")
    a.beat(topics=[topic, other], owned=a.assigned)
    s.describe_consumers()
    s.reconcile(a, b)
    s.describe_consumers()


@consumer_story()
def the_same_subscription_in_another_order_is_no_news(s: ConsumerStory) -> None:
    topic, other = s.topic(), s.topic("-other", 2)
    a = s.consumer("a")
    a.start(topic, other)
    a.beat(topics=[other, topic])
    a.beat(topics=[other, topic, other])
    s.describe_consumers()


@consumer_story()
def a_member_unsubscribes_from_a_topic_that_it_still_owns(s: ConsumerStory) -> None:
    topic, other = s.topic(), s.topic("-other", 2)
    a = s.consumer("a")
    a.start(topic, other)
    a.beat(topics=[other], owned={topic: [0, 1, 2], other: [0, 1]})
    s.describe_consumers()
    a.beat(owned={other: [0, 1]})
    s.describe_consumers()


@consumer_story()
def a_member_unsubscribes_from_a_topic_that_it_has_revoked(s: ConsumerStory) -> None:
    topic, other = s.topic(), s.topic("-other", 2)
    a = s.consumer("a")
    a.start(topic, other)
    a.beat(topics=[other], owned={other: [0, 1]})
    s.describe_consumers()
    a.beat(topics=[], owned={})
    s.describe_consumers()
    a.beat(topics=[topic])
    s.describe_consumers()


@consumer_story()
def members_with_different_subscriptions_share_what_both_want(s: ConsumerStory) -> None:
    topic, other = s.topic(partitions=4), s.topic("-other", 2)
    a, b = s.consumer("a"), s.consumer("b")
    a.start(topic)
    b.start(topic, other)
    s.describe_consumers()
    s.reconcile(a, b)
    s.describe_consumers()


@consumer_story()
def another_rack_or_client_id_is_no_news(s: ConsumerStory) -> None:
    topic = s.topic()
    (a,) = s.consumers(topic, "a")
    a.beat(rack="north")
    s.describe_consumers()
    a.client_id = "another"
    a.beat()
    a.beat(rack="south", rebalance_ms=7)
    s.describe_consumers()


@consumer_story(versions=BOTH)
def members_ask_for_an_assignor(s: ConsumerStory) -> None:
    topic = s.topic(partitions=7)
    a, b, c = s.consumer("a"), s.consumer("b"), s.consumer("c")
    a.start(topic, assignor="range")
    s.describe_consumers()
    b.start(topic, assignor="range")
    c.start(topic, assignor="uniform")
    s.reconcile(a, b, c)
    s.describe_consumers()
    a.beat(assignor="uniform")
    s.describe_consumers()
    c.leave_group()
    s.reconcile(a, b)
    s.describe_consumers()


@consumer_story()
def the_assignor_of_most_members_is_taken(s: ConsumerStory) -> None:
    topic, other = s.topic(partitions=5), s.topic("-other", 5)
    a, b, c = s.consumer("a"), s.consumer("b"), s.consumer("c")
    a.start(topic, other)
    b.start(topic, other, assignor="range")
    s.reconcile(a, b)
    s.describe_consumers()
    c.start(topic, other, assignor="range")
    s.reconcile(a, b, c)
    s.describe_consumers()


@consumer_story()
def range_puts_static_members_first(s: ConsumerStory) -> None:
    topic = s.topic(partitions=7)
    a, b, c = s.consumer("a"), s.consumer("b", instance="two"), s.consumer("c", instance="one")
    for member in (a, b, c):
        member.start(topic, assignor="range")
    s.reconcile(a, b, c)
    s.describe_consumers()


@consumer_story()
def subscriptions_change_while_a_member_revokes(s: ConsumerStory) -> None:
    topic, other = s.topic(), s.topic("-other", 1)
    a, b = s.consumer("a"), s.consumer("b")
    a.start(topic)
    b.start(topic)
    a.beat()
    a.beat(topics=[topic, other])
    s.describe_consumers()
    a.beat(topics=[other])
    s.describe_consumers()
    a.beat(owned={})
    s.reconcile(a, b)
    s.describe_consumers()


@consumer_story()
def the_others_change_while_a_member_revokes(s: ConsumerStory) -> None:
    topic = s.topic(partitions=6)
    a, b, c = s.consumer("a"), s.consumer("b"), s.consumer("c")
    a.start(topic)
    b.start(topic)
    a.beat()
    c.start(topic)
    a.beat()
    s.describe_consumers()
    b.leave_group()
    a.beat(owned={topic: [0, 1, 2]})
    s.describe_consumers()
    s.reconcile(a, c)
    s.describe_consumers()


@consumer_story()
def a_member_owns_partitions_that_it_never_had(s: ConsumerStory) -> None:
    topic, other = s.topic(), s.topic("-other", 2)
    a, b = s.consumers(topic, "a", "b")
    a.beat(owned={topic: [0, 1, 2], other: [0, 7]})
    b.beat(owned={other: [99]})
    s.describe_consumers()


@consumer_story(ApiKey.CONSUMER_GROUP_DESCRIBE, None)
def groups_are_described_in_one_request(s: ConsumerStory) -> None:
    topic = s.topic()
    s.consumers(topic, "a", "b")
    other = s.consumer("c", f"{s.group}-other", instance="one")
    other.start(topic, rack="north")
    s.describe_consumers(s.group, f"{s.group}-other", f"{s.group}-none", "", s.group)
    s.describe_consumers(s.group, operations=True)


@consumer_story(ApiKey.CONSUMER_GROUP_DESCRIBE, None)
def groups_of_another_type_are_not_described(s: ConsumerStory) -> None:
    s.stable()
    s.describe_consumers()
    s.commit({(s.topic(), 0): 5}, f"{s.group}-offsets")
    s.describe_consumers(f"{s.group}-offsets", operations=True)


@consumer_story(ApiKey.CONSUMER_GROUP_DESCRIBE, None)
def members_of_several_states_are_described(s: ConsumerStory) -> None:
    topic = s.topic(partitions=9)
    a, b = s.consumers(topic, "a", "b")
    c = s.consumer("c", instance="three")
    c.start(topic, rack="r")
    s.describe_consumers()
    a.beat()
    s.describe_consumers()
    a.beat(owned=a.assigned)
    s.describe_consumers()
    c.leave_group(-2)
    s.describe_consumers()
    b.leave_group()
    s.describe_consumers()
