"""What happens to a group of KIP-848 when time passes: sessions, revocations, the interval between assignments."""

from __future__ import annotations

from tests.parity.consumer_story import LEAVE_FOR_NOW, ConsumerStory, consumer_story
from tests.parity.pairs import FEW_CONSUMERS

SHORT_MS = 1_000


def short_sessions(s: ConsumerStory) -> None:
    s.set_group(consumer_session_timeout_ms=f"{SHORT_MS}", consumer_heartbeat_interval_ms="200")


# --- sessions


@consumer_story()
def a_consumer_that_is_not_heard_from_is_gone(s: ConsumerStory) -> None:
    topic = s.topic()
    short_sessions(s)
    a = s.consumer("a")
    a.start(topic)
    s.until_epoch(3)
    s.describe_consumers()
    a.beat()


@consumer_story()
def the_partitions_of_a_silent_member_go_to_the_others(s: ConsumerStory) -> None:
    topic = s.topic()
    short_sessions(s)
    a, b = s.consumers(topic, "a", "b")

    def only_b_is_left() -> bool:
        kept = len(s.peer.exchanges)
        if s.look().group_epoch < 4:
            b.beat()
            del s.peer.exchanges[kept:]
        return bool(s.look().group_epoch >= 4)

    s.peer.wait_until(only_b_is_left, "the silent member to be gone")
    b.beat_fully(topic)
    a.beat()
    s.describe_consumers()


@consumer_story()
def an_instance_that_left_for_now_and_does_not_come_back_is_gone(s: ConsumerStory) -> None:
    topic = s.topic()
    short_sessions(s)
    a = s.consumer("a", instance="one")
    a.start(topic)
    a.leave_group(LEAVE_FOR_NOW)
    s.until_epoch(3)
    s.describe_consumers()
    s.consumer("a again", instance="one").start(topic)


# --- the time to revoke


@consumer_story()
def a_member_that_does_not_revoke_in_time_is_gone(s: ConsumerStory) -> None:
    topic = s.topic()
    a, b = s.consumer("a"), s.consumer("b")
    a.start(topic, rebalance_ms=SHORT_MS)
    b.start(topic)
    a.beat()
    s.until_epoch(4)
    s.describe_consumers()
    a.beat()
    b.beat()
    s.describe_consumers()


@consumer_story()
def a_heartbeat_that_revokes_nothing_does_not_give_more_time(s: ConsumerStory) -> None:
    topic = s.topic()
    a, b = s.consumer("a"), s.consumer("b")
    a.start(topic, rebalance_ms=SHORT_MS)
    b.start(topic)
    a.beat()
    a.beat()
    a.beat(owned={topic: [0, 1, 2]}, rebalance_ms=60_000)
    s.until_epoch(4)
    a.beat()
    s.describe_consumers()


@consumer_story()
def a_member_that_revokes_in_time_stays(s: ConsumerStory) -> None:
    topic = s.topic()
    a, b, c = s.consumer("a"), s.consumer("b"), s.consumer("c")
    a.start(topic, rebalance_ms=SHORT_MS)
    b.start(topic)
    a.beat()
    a.beat(owned=a.assigned)
    b.beat()
    c.start(topic, rebalance_ms=SHORT_MS)
    other = s.consumer("other", f"{s.group}-clock")
    other.start(topic, rebalance_ms=SHORT_MS)
    s.consumer("second", f"{s.group}-clock").start(topic)
    other.beat()
    s.peer.wait_until(lambda: s.look(f"{s.group}-clock").group_epoch >= 4, "as much time to pass")
    a.beat()
    s.describe_consumers()


# --- the interval between two assignments


def no_assignment_soon(s: ConsumerStory) -> None:
    s.set_group(consumer_assignment_interval_ms="15000")


def assignment_at_once(s: ConsumerStory) -> None:
    s.set_group(consumer_assignment_interval_ms="0")


@consumer_story()
def a_second_assignment_waits_for_its_time(s: ConsumerStory) -> None:
    topic = s.topic()
    no_assignment_soon(s)
    a, b = s.consumer("a"), s.consumer("b")
    a.start(topic)
    b.start(topic)
    s.describe_consumers()
    a.beat(owned=a.assigned)
    b.beat()
    s.describe_consumers()
    assignment_at_once(s)
    s.describe_consumers()
    b.beat()
    s.describe_consumers()
    s.reconcile(a, b)
    s.describe_consumers()


@consumer_story(pair=FEW_CONSUMERS)
def a_second_assignment_comes_with_a_heartbeat_a_second_later(s: ConsumerStory) -> None:
    topic = s.topic()
    a, b = s.consumer("a"), s.consumer("b")
    a.start(topic)
    b.start(topic)

    def computed() -> bool:
        kept = len(s.peer.exchanges)
        b.beat()
        del s.peer.exchanges[kept:]
        return bool(s.look().assignment_epoch >= 3)

    s.peer.wait_until(computed, "the second assignment")
    s.describe_consumers()
    s.reconcile(a, b)
    s.describe_consumers()


@consumer_story()
def a_member_leaves_before_a_new_assignment(s: ConsumerStory) -> None:
    topic = s.topic()
    no_assignment_soon(s)
    a, b = s.consumer("a"), s.consumer("b")
    a.start(topic)
    b.start(topic)
    a.leave_group()
    s.describe_consumers()
    b.beat()
    s.describe_consumers()
    assignment_at_once(s)
    b.beat()
    s.describe_consumers()


@consumer_story()
def the_last_member_leaves_before_a_new_assignment(s: ConsumerStory) -> None:
    topic = s.topic()
    no_assignment_soon(s)
    a, b = s.consumer("a"), s.consumer("b")
    a.start(topic)
    a.leave_group()
    s.describe_consumers()
    b.start(topic)
    s.describe_consumers()
    b.beat()


@consumer_story()
def a_static_member_is_replaced_before_a_new_assignment(s: ConsumerStory) -> None:
    topic, other = s.topic(), s.topic("-other", 1)
    no_assignment_soon(s)
    a = s.consumer("a", instance="one")
    a.start(topic)
    a.leave_group(LEAVE_FOR_NOW)
    again = s.consumer("a again", instance="one")
    again.start(topic, other)
    s.describe_consumers()
    again.beat(owned=again.assigned)
    assignment_at_once(s)
    again.beat(owned=again.assigned)
    s.describe_consumers()


@consumer_story()
def a_member_that_unsubscribes_before_a_new_assignment_must_revoke_at_once(s: ConsumerStory) -> None:
    topic, other = s.topic(), s.topic("-other", 1)
    no_assignment_soon(s)
    a = s.consumer("a")
    a.start(topic)
    a.beat(topics=[other], owned=a.assigned)
    s.describe_consumers()
    a.beat(owned={})
    s.describe_consumers()


@consumer_story()
def a_topic_grows_and_goes_before_a_new_assignment(s: ConsumerStory) -> None:
    topic = s.topic()
    no_assignment_soon(s)
    a = s.consumer("a")
    a.start(topic)
    s.grow(topic, 5)
    a.beat()
    s.describe_consumers()
    s.delete_topic(topic)
    a.beat()
    s.describe_consumers()


# --- group.consumer.max.size, group.consumer.assignors


@consumer_story(pair=FEW_CONSUMERS)
def a_full_consumer_group_takes_nobody_more(s: ConsumerStory) -> None:
    topic = s.topic()
    a, b, c = s.consumer("a"), s.consumer("b", instance="two"), s.consumer("c")
    a.start(topic)
    b.start(topic)
    c.start(topic)
    c.beat(epoch=1)
    a.start(topic)
    b.leave_group(LEAVE_FOR_NOW)
    s.consumer("b again", instance="two").start(topic)
    s.consumer("c", instance="three").start(topic)
    b.leave_group()
    c.start(topic)
    s.describe_consumers()


@consumer_story(versions=(0,), pair=FEW_CONSUMERS)
def a_full_consumer_group_gives_no_ids(s: ConsumerStory) -> None:
    topic = s.topic()
    for _ in range(3):
        s.consumer("").start(topic)


@consumer_story(pair=FEW_CONSUMERS)
def an_assignor_that_is_not_configured_is_refused(s: ConsumerStory) -> None:
    topic = s.topic()
    a = s.consumer("a")
    a.start(topic, assignor="uniform")
    a.start(topic, assignor="range")
    a.beat(assignor="uniform")
    s.describe_consumers()


# --- settings of a group


@consumer_story()
def a_group_has_a_heartbeat_interval_of_its_own(s: ConsumerStory) -> None:
    topic = s.topic()
    a = s.consumer("a")
    a.start(topic)
    s.set_group(consumer_heartbeat_interval_ms="1234")
    a.beat()
    s.consumer("b", f"{s.group}-other").start(topic)
