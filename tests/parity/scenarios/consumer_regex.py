"""Subscriptions by regular expression, which the broker resolves in the background."""

from __future__ import annotations

import time

from tests.parity.consumer_story import Consumer, ConsumerStory, consumer_story

RESOLUTION_INTERVAL_S = 10.1  # Kafka: 10 seconds, of each group


def pattern(s: ConsumerStory, rest: str = ".*") -> str:
    """A regular expression for topics of this story; others are there too."""
    return f"{s.peer.topic()}{rest}"


def joined(s: ConsumerStory, name: str, regex: str) -> Consumer:
    """The first member of the group, with everything that the regular expression matches."""
    member = s.consumer(name)
    member.start(regex=regex)
    s.until_epoch(2)
    member.beat(owned={})
    return member


def resolve_again(s: ConsumerStory, member: Consumer, epoch: int) -> None:
    """A heartbeat after the time in which nothing is resolved again; the group gets this epoch by it."""
    may_be_resolved = time.monotonic() + RESOLUTION_INTERVAL_S
    s.peer.wait_until(lambda: time.monotonic() > may_be_resolved, "the next resolution")
    member.beat()
    s.until_epoch(epoch)


@consumer_story()
def a_regular_expression_is_resolved_after_the_first_answer(s: ConsumerStory) -> None:
    s.topic("-one"), s.topic("-two", 2)
    a = s.consumer("a")
    a.start(regex=pattern(s))
    s.until_epoch(2)
    s.describe_consumers()
    a.beat(owned={})
    s.describe_consumers()
    a.beat(owned=a.assigned)


@consumer_story()
def a_regular_expression_matches_the_whole_name(s: ConsumerStory) -> None:
    s.topic("-one"), s.topic("-one-and-more")
    joined(s, "a", pattern(s, "-on."))
    s.describe_consumers()


@consumer_story()
def names_and_a_regular_expression_add_up(s: ConsumerStory) -> None:
    one, two = s.topic("-one"), s.topic("-two", 2)
    a = s.consumer("a")
    a.start(one, regex=pattern(s, "-t.*"))
    s.until_epoch(3)
    s.describe_consumers()
    a.beat(owned=a.assigned)
    s.describe_consumers()
    a.beat(topics=[], owned=a.assigned)
    s.describe_consumers()
    a.beat(owned={two: [0, 1]})


@consumer_story()
def a_regular_expression_that_matches_nothing_is_resolved_without_a_new_epoch(s: ConsumerStory) -> None:
    topic = s.topic()
    a = s.consumer("a")
    a.start(topic, regex=pattern(s, "-nothing"))
    a.beat(owned=a.assigned)
    s.describe_consumers()


@consumer_story()
def a_regular_expression_that_is_none_is_refused(s: ConsumerStory) -> None:
    topic = s.topic()
    for number, regex in enumerate(("(", "[", "a**", "*", r"(a)\1", "(?=a)", "(?<=a)b", "(?<name>a)x{2,1}", r"\8")):
        s.consumer(f"{number}").start(topic, regex=regex)
    s.describe_consumers()


@consumer_story()
def regular_expressions_in_the_syntax_of_re2_are_taken(s: ConsumerStory) -> None:
    expressions = ("", r"\pL+", r"(?i)X", r"(?P<name>x)", r"[[:alpha:]]z", r"\Qa.b\E", "x{1,1000}", "a|b*?", r"^q$")
    for number, regex in enumerate(expressions):
        s.consumer("a", f"{s.group}-{number}").start(regex=f"none {regex}" if regex else "")


@consumer_story()
def a_member_with_a_bad_regular_expression_stays_what_it_was(s: ConsumerStory) -> None:
    topic = s.topic()
    (a,) = s.consumers(topic, "a")
    a.beat(regex="(", topics=[])
    s.describe_consumers()
    a.beat()


@consumer_story()
def a_second_member_with_the_same_regular_expression(s: ConsumerStory) -> None:
    s.topic("-one", 4)
    a = joined(s, "a", pattern(s))
    b = s.consumer("b")
    b.start(regex=pattern(s))
    s.describe_consumers()
    s.reconcile(a, b)
    s.describe_consumers()
    a.leave_group()
    s.reconcile(b)
    s.describe_consumers()


@consumer_story()
def a_regular_expression_changes(s: ConsumerStory) -> None:
    s.topic("-one"), s.topic("-two", 2)
    a = joined(s, "a", pattern(s, "-o.*"))
    a.beat(regex=pattern(s, "-t.*"), owned=a.assigned)
    s.describe_consumers()
    resolve_again(s, a, 3)
    s.describe_consumers()
    a.beat(owned={})
    s.describe_consumers()


@consumer_story()
def a_regular_expression_is_taken_back(s: ConsumerStory) -> None:
    one, two = s.topic("-one"), s.topic("-two", 2)
    a = joined(s, "a", pattern(s))
    a.beat(regex="", owned=a.assigned)
    s.describe_consumers()
    a.beat(topics=[two], owned=a.assigned)
    s.describe_consumers()
    a.beat(topics=[one], owned={})
    s.describe_consumers()


@consumer_story()
def a_topic_that_a_regular_expression_matches_appears(s: ConsumerStory) -> None:
    s.topic("-one")
    a = joined(s, "a", pattern(s))
    s.topic("-two", 2)
    a.beat(owned=a.assigned)
    s.describe_consumers()
    resolve_again(s, a, 3)
    a.beat_fully(regex=pattern(s))
    s.describe_consumers()


@consumer_story()
def a_topic_that_a_regular_expression_matches_grows_and_goes(s: ConsumerStory) -> None:
    one, two = s.topic("-one"), s.topic("-two", 2)
    a = joined(s, "a", pattern(s))
    s.grow(two, 4)
    a.beat(owned=a.assigned)
    s.describe_consumers()
    s.delete_topic(two)
    a.beat(owned=a.assigned)
    s.describe_consumers()
    a.beat(owned={one: [0, 1, 2]})
    s.describe_consumers()


@consumer_story()
def members_with_names_and_with_regular_expressions_share_topics(s: ConsumerStory) -> None:
    topic = s.topic("-one", 6)
    (a,) = s.consumers(topic, "a")
    b = s.consumer("b")
    b.start(regex=pattern(s))
    s.until_epoch(a.epoch + 1)
    s.reconcile(a, b)
    s.describe_consumers()


@consumer_story()
def two_regular_expressions_of_one_group(s: ConsumerStory) -> None:
    s.topic("-one", 6)
    a = joined(s, "a", pattern(s, "-o.*"))
    b = s.consumer("b")
    b.start(regex=pattern(s, "-on."))
    s.describe_consumers()
    resolve_again(s, a, 3)
    s.reconcile(a, b)
    s.describe_consumers()


@consumer_story()
def a_static_member_with_a_regular_expression_is_replaced(s: ConsumerStory) -> None:
    s.topic("-one", 2)
    a = s.consumer("a", instance="one")
    a.start(regex=pattern(s))
    s.until_epoch(2)
    a.beat(owned={})
    a.leave_group(-2)
    again = s.consumer("a again", instance="one")
    again.start(regex=pattern(s))
    s.describe_consumers()
    again.beat()
    s.describe_consumers()
