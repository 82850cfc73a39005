"""Static members of a group of KIP-848: leaving for now, coming back, being replaced, being fenced."""

from __future__ import annotations

from tests.parity.consumer_story import LEAVE_FOR_NOW, Consumer, ConsumerStory, consumer_story
from tests.parity.story import REBALANCE_MS


def static_pair(s: ConsumerStory, topic: str) -> tuple[Consumer, Consumer]:
    """The instances `one` and `two`, each with its partitions."""
    a, b = s.consumer("a", instance="one"), s.consumer("b", instance="two")
    a.start(topic)
    b.start(topic)
    s.reconcile(a, b)
    return a, b


@consumer_story()
def two_static_members_share_a_consumer_group(s: ConsumerStory) -> None:
    a, b = static_pair(s, s.topic(partitions=4))
    a.beat()
    b.beat(owned=b.assigned)
    s.describe_consumers()


@consumer_story()
def an_instance_that_left_for_now_comes_back_to_its_partitions(s: ConsumerStory) -> None:
    topic = s.topic(partitions=4)
    a, b = static_pair(s, topic)
    b.leave_group(LEAVE_FOR_NOW)
    s.describe_consumers()
    a.beat()
    again = s.consumer("b again", instance="two")
    again.start(topic)
    s.describe_consumers()
    a.beat()
    again.beat(owned=again.assigned)


@consumer_story()
def an_instance_comes_back_with_its_old_id(s: ConsumerStory) -> None:
    topic = s.topic(partitions=4)
    a, b = static_pair(s, topic)
    b.leave_group(LEAVE_FOR_NOW)
    b.start(topic)
    s.describe_consumers()
    a.beat()
    b.beat()


@consumer_story()
def an_instance_comes_back_with_another_subscription(s: ConsumerStory) -> None:
    topic, other = s.topic(partitions=4), s.topic("-other", 2)
    a, b = static_pair(s, topic)
    b.leave_group(LEAVE_FOR_NOW)
    again = s.consumer("b again", instance="two")
    again.start(topic, other)
    s.describe_consumers()
    s.reconcile(a, again)
    s.describe_consumers()


@consumer_story()
def an_instance_comes_back_after_a_rebalance_of_the_others(s: ConsumerStory) -> None:
    topic = s.topic(partitions=6)
    a, b = static_pair(s, topic)
    b.leave_group(LEAVE_FOR_NOW)
    c = s.consumer("c")
    c.start(topic)
    s.reconcile(a, c)
    s.describe_consumers()
    again = s.consumer("b again", instance="two")
    again.start(topic)
    s.describe_consumers()
    s.reconcile(a, again, c)
    s.describe_consumers()


@consumer_story()
def an_instance_that_is_still_there_cannot_be_taken(s: ConsumerStory) -> None:
    topic = s.topic()
    a, _ = static_pair(s, topic)
    s.consumer("thief", instance="one").start(topic)
    a.start(topic)
    a.beat()
    s.describe_consumers()


@consumer_story()
def an_instance_with_another_id_is_fenced(s: ConsumerStory) -> None:
    topic = s.topic()
    a, b = static_pair(s, topic)
    stranger = s.consumer("stranger", instance="one")
    stranger.beat(epoch=a.epoch)
    stranger.leave_group()
    stranger.leave_group(LEAVE_FOR_NOW)
    b.instance = "one"
    b.beat()
    b.leave_group()
    s.describe_consumers()


@consumer_story()
def an_instance_that_nobody_knows_is_unknown(s: ConsumerStory) -> None:
    topic = s.topic()
    a, _ = static_pair(s, topic)
    a.instance = "three"
    a.beat()
    a.leave_group()
    a.leave_group(LEAVE_FOR_NOW)
    s.describe_consumers()


@consumer_story()
def a_static_member_may_forget_its_instance_id(s: ConsumerStory) -> None:
    topic = s.topic()
    a, _ = static_pair(s, topic)
    a.instance = None
    a.beat()
    a.beat(owned=a.assigned)
    s.describe_consumers()
    a.leave_group()
    s.describe_consumers()


@consumer_story()
def a_replaced_member_is_fenced(s: ConsumerStory) -> None:
    topic = s.topic(partitions=4)
    _, b = static_pair(s, topic)
    epoch = b.epoch
    b.leave_group(LEAVE_FOR_NOW)
    again = s.consumer("b again", instance="two")
    again.start(topic)
    b.beat(epoch=epoch)
    b.leave_group()
    b.instance = None
    b.beat(epoch=epoch)
    s.describe_consumers()


@consumer_story()
def a_member_that_left_for_now_is_fenced_if_it_goes_on(s: ConsumerStory) -> None:
    topic = s.topic(partitions=4)
    _, b = static_pair(s, topic)
    epoch = b.epoch
    b.leave_group(LEAVE_FOR_NOW)
    b.beat(epoch=epoch)
    b.beat(epoch=epoch, owned=b.assigned)
    b.beat(epoch=epoch - 1, owned={})
    b.leave_group(LEAVE_FOR_NOW)
    s.describe_consumers()


@consumer_story()
def a_static_member_leaves_for_good(s: ConsumerStory) -> None:
    topic = s.topic(partitions=4)
    a, b = static_pair(s, topic)
    b.leave_group(LEAVE_FOR_NOW)
    b.leave_group()
    s.describe_consumers()
    s.reconcile(a)
    again = s.consumer("b again", instance="two")
    again.start(topic)
    s.describe_consumers()


@consumer_story()
def a_static_member_leaves_for_now_while_it_revokes(s: ConsumerStory) -> None:
    topic = s.topic(partitions=4)
    a, b = s.consumer("a", instance="one"), s.consumer("b", instance="two")
    a.start(topic)
    b.start(topic)
    a.beat()
    s.describe_consumers()
    a.leave_group(LEAVE_FOR_NOW)
    s.describe_consumers()
    b.beat()
    again = s.consumer("a again", instance="one")
    again.start(topic)
    s.reconcile(again, b)
    s.describe_consumers()


@consumer_story()
def a_dynamic_member_becomes_static(s: ConsumerStory) -> None:
    topic = s.topic()
    (a,) = s.consumers(topic, "a")
    a.instance = "one"
    a.beat()
    a.start(topic)
    s.describe_consumers()
    a.beat()


@consumer_story()
def a_static_member_joins_with_another_instance_id(s: ConsumerStory) -> None:
    topic = s.topic()
    a, _ = static_pair(s, topic)
    a.instance = "three"
    a.start(topic)
    s.describe_consumers()
    a.instance = "one"
    a.beat()
    a.start(topic)
    s.describe_consumers()


@consumer_story()
def an_instance_is_replaced_under_the_id_of_another_member(s: ConsumerStory) -> None:
    topic = s.topic(partitions=4)
    a, b = static_pair(s, topic)
    b.leave_group(LEAVE_FOR_NOW)
    a.instance = "two"
    a.start(topic)
    s.describe_consumers()
    a.beat()
    s.describe_consumers()


@consumer_story()
def a_static_member_whose_answers_were_lost_says_everything(s: ConsumerStory) -> None:
    topic = s.topic(partitions=4)
    a, b = s.consumer("a", instance="one"), s.consumer("b", instance="two")
    a.start(topic)
    before, epoch = dict(a.assigned), a.epoch
    b.start(topic)
    a.beat()
    a.beat_fully(topic)
    a.beat(owned=a.assigned)
    a.beat_fully(topic, epoch=epoch)
    b.beat()
    a.instance = b.instance = None
    a.beat()
    b.beat(topics=[topic], rebalance_ms=REBALANCE_MS, owned={})
    a.beat(topics=[topic], rebalance_ms=REBALANCE_MS, owned=before)
    s.describe_consumers()


@consumer_story()
def a_fenced_static_member_cannot_join_again_before_its_session_ends(s: ConsumerStory) -> None:
    """Its own member holds the instance id. But it may say everything with its last epoch."""
    topic = s.topic(partitions=4)
    a, b = s.consumer("a", instance="one"), s.consumer("b", instance="two")
    a.start(topic)
    epoch = a.epoch
    b.start(topic)
    a.reconcile()
    a.reconcile()
    a.beat(epoch=epoch)
    a.instance = None
    a.beat(epoch=epoch)
    a.instance = "one"
    a.start(topic)
    s.describe_consumers()
    a.beat_fully(topic, epoch=epoch)
    a.instance = None
    a.start(topic)
    s.describe_consumers()


@consumer_story()
def an_instance_comes_back_while_others_wait_for_its_partitions(s: ConsumerStory) -> None:
    topic = s.topic(partitions=6)
    a, b = static_pair(s, topic)
    c = s.consumer("c", instance="three")
    c.start(topic)
    b.beat()
    b.leave_group(LEAVE_FOR_NOW)
    c.beat()
    again = s.consumer("b again", instance="two")
    again.start(topic)
    again.start(topic)
    c.beat()
    c.beat()
    again.beat()
    again.beat_fully(topic)
    s.reconcile(a, again, c)
    s.describe_consumers()
