"""Topics that are created, deleted and grown while a group of KIP-848 is subscribed to them."""

from __future__ import annotations

from tests.parity.consumer_story import ConsumerStory, consumer_story


@consumer_story()
def a_subscribed_topic_appears(s: ConsumerStory) -> None:
    name = s.peer.topic()
    a = s.consumer("a")
    a.start(name)
    a.beat(owned={})
    s.topic()
    s.describe_consumers()
    a.beat()
    s.describe_consumers()


@consumer_story()
def a_topic_that_nobody_subscribes_to_is_no_news(s: ConsumerStory) -> None:
    (a,) = s.consumers(s.topic(), "a")
    s.topic("-other")
    a.beat()
    s.describe_consumers()


@consumer_story()
def a_subscribed_topic_grows(s: ConsumerStory) -> None:
    topic = s.topic()
    a, b = s.consumers(topic, "a", "b")
    s.grow(topic, 6)
    s.describe_consumers()
    b.beat()
    s.describe_consumers()
    s.reconcile(a, b)
    s.describe_consumers()


@consumer_story()
def a_subscribed_topic_is_deleted(s: ConsumerStory) -> None:
    topic, other = s.topic(), s.topic("-other", 1)
    a = s.consumer("a")
    a.start(topic, other)
    s.delete_topic(topic)
    s.describe_consumers()
    a.beat()
    s.describe_consumers()
    a.beat(owned={other: [0]})
    s.describe_consumers()


@consumer_story()
def the_only_subscribed_topic_is_deleted(s: ConsumerStory) -> None:
    topic = s.topic()
    a, b = s.consumers(topic, "a", "b")
    s.delete_topic(topic)
    s.describe_consumers()
    s.reconcile(a, b)
    a.beat(owned={})
    b.beat(owned={})
    s.describe_consumers()


@consumer_story()
def a_subscribed_topic_is_deleted_and_made_anew(s: ConsumerStory) -> None:
    topic = s.topic()
    a, b = s.consumers(topic, "a", "b")
    s.delete_topic(topic)
    s.topic(partitions=2)
    s.describe_consumers()
    a.beat()
    s.describe_consumers()
    a.beat(owned={})
    b.beat(owned={})
    b.beat(owned={})
    a.beat(owned=a.assigned)
    s.describe_consumers()


@consumer_story()
def a_topic_grows_while_a_member_revokes(s: ConsumerStory) -> None:
    topic = s.topic()
    a, b = s.consumer("a"), s.consumer("b")
    a.start(topic)
    b.start(topic)
    a.beat()
    s.grow(topic, 5)
    a.beat()
    s.describe_consumers()
    s.reconcile(a, b)
    s.describe_consumers()


@consumer_story()
def a_topic_grows_while_nobody_is_there(s: ConsumerStory) -> None:
    topic = s.topic()
    (a,) = s.consumers(topic, "a")
    a.leave_group()
    s.grow(topic, 5)
    s.describe_consumers()
    a.start(topic)
    s.describe_consumers()


@consumer_story()
def a_topic_appears_for_one_of_two_members(s: ConsumerStory) -> None:
    topic, other = s.topic(), s.peer.topic("-other")
    a, b = s.consumer("a"), s.consumer("b")
    a.start(topic)
    b.start(topic, other)
    s.reconcile(a, b)
    s.describe_consumers()
    s.topic("-other", 4)
    a.beat()
    s.describe_consumers()
    s.reconcile(a, b)
    s.describe_consumers()
