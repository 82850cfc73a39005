"""Subscriptions by regular expression: resolved between heartbeats, and forgotten when nobody uses them."""

from __future__ import annotations

import pytest

from kohort.coordinator.consumer.group import find_consumer
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.log_records import CONSUMER_GROUP_METADATA, CONSUMER_GROUP_REGULAR_EXPRESSION
from tests.coordinator.consumer.words import Answer, Group, a_group, next_target
from tests.coordinator.support import FakeTopics, Host

INVALID = ErrorCode.INVALID_REGULAR_EXPRESSION
MIN_INTERVAL_MS = 10_001  # since the topics were last looked through


def a_regex_group() -> Group:
    """`m1` wants `ord.*` and has the partitions 0 and 1 of `orders`, in epoch 2."""
    group = a_group(partitions=2)
    assert group.join("m1", None, subscribed_topic_regex="ord.*") == Answer(1, {})
    assert group.beat("m1", 1) == Answer(2, {"orders": [0, 1]})
    return group


def resolved(group: Group) -> dict[str, tuple[str, ...]]:
    return {regex: each.topics for regex, each in group.object.subscriptions.resolved.items()}


def test_the_first_answer_knows_nothing_of_what_matches() -> None:
    group = a_group(partitions=2)
    group.host.disk.is_slow = True
    call = group.send("m1", 0, {}, rebalance_timeout_ms=1, subscribed_topic_regex="ord.*")
    group.host.disk_catches_up()
    assert group.read(call) == Answer(1, {})
    assert group.describe().group_epoch == 2  # resolved meanwhile
    assert group.state == "Assigning"


def test_what_matches_is_written_with_the_epoch_that_it_begins() -> None:
    group = a_regex_group()
    kinds = [kind for kind, _ in group.types()]
    at = kinds.index(CONSUMER_GROUP_REGULAR_EXPRESSION)
    assert kinds[at + 1] == CONSUMER_GROUP_METADATA
    _, key, value = group.log()[at]
    assert (key.regular_expression, list(value.topics)) == ("ord.*", ["orders"])
    assert value.timestamp > 0


@pytest.mark.parametrize("regex", ["(", "a(?=b)", r"(a)\1", "[z-a]", "*"])
def test_a_bad_regular_expression_changes_nothing(regex: str) -> None:
    group = a_group(partitions=2)
    assert group.join("m1", ["payments"], subscribed_topic_regex=regex) == INVALID
    assert find_consumer(group.host.state_of("billing"), "billing") is None
    group.join("m1")
    before = group.describe()
    assert group.beat("m1", 2, subscribed_topic_names=["payments"], subscribed_topic_regex=regex) == INVALID
    assert group.describe() == before


@pytest.mark.parametrize(
    ("regex", "topics"),
    [
        ("orders", ("orders",)),
        ("order", ()),
        ("rders", ()),
        ("orders|payments", ("orders", "payments")),
        (".*", ("orders", "payments")),
        ("(?i)ORDERS", ("orders",)),
        ("nowhere", ()),
    ],
)
def test_a_topic_matches_as_a_whole(regex: str, topics: tuple[str, ...]) -> None:
    group = a_group()
    group.join("m1", None, subscribed_topic_regex=regex)
    assert resolved(group) == {regex: topics}


def test_an_expression_that_matches_nothing_still_gets_its_epoch() -> None:
    group = a_group()
    assert group.join("m1", None, subscribed_topic_regex="nowhere") == Answer(1, {})
    assert group.beat("m1", 1) == Answer(1, None)
    assert group.state == "Stable"


def test_names_and_an_expression_together() -> None:
    group = a_group(partitions=2)
    assert group.join("m1", ["payments"], subscribed_topic_regex="ord.*") == Answer(2, {"payments": [0, 1]})
    next_target(group)
    assert group.beat("m1", 2) == Answer(3, {"payments": [0, 1], "orders": [0, 1]})


def test_a_second_member_with_the_same_expression_is_assigned_at_once() -> None:
    group = a_regex_group()
    next_target(group)
    size = len(group.log())
    assert group.join("m2", None, subscribed_topic_regex="ord.*") == Answer(3, {})
    assert (CONSUMER_GROUP_REGULAR_EXPRESSION, True) not in group.types(start=size)


def test_a_new_expression_has_to_wait_ten_seconds_after_the_last_look() -> None:
    group = a_regex_group()
    next_target(group)
    assert group.join("m2", None, subscribed_topic_regex="pay.*") == Answer(2, {})
    assert resolved(group) == {"ord.*": ("orders",)}
    group.host.advance(MIN_INTERVAL_MS - 1_000)
    group.beat("m1", 2)
    assert resolved(group) == {"ord.*": ("orders",), "pay.*": ("payments",)}
    assert group.beat("m2", 2) == Answer(3, {"payments": [0, 1]})


def test_another_expression_that_is_not_resolved_takes_the_topics_of_the_old_one_at_once() -> None:
    group = a_regex_group()
    next_target(group)
    assert group.beat("m1", 2, subscribed_topic_regex="pay.*") == Answer(2, {})
    assert (group.describe().group_epoch, group.state, resolved(group)) == (2, "Reconciling", {})
    assert group.beat("m1", 2, {}) == Answer(2, None)
    assert (group.describe().group_epoch, group.state, resolved(group)) == (3, "Assigning", {"pay.*": ("payments",)})
    assert group.beat("m1", 2, {}) == Answer(3, {"payments": [0, 1]})


def test_an_expression_that_is_taken_back_bumps_the_epoch() -> None:
    group = a_regex_group()
    next_target(group)
    size = len(group.log())
    assert group.beat("m1", 2, subscribed_topic_regex="") == Answer(2, {})
    assert (CONSUMER_GROUP_REGULAR_EXPRESSION, False) in group.types(start=size)
    assert group.describe().group_epoch == 3
    assert group.beat("m1", 2, {}) == Answer(3, None)


def test_the_last_one_to_use_an_expression_takes_it_along() -> None:
    group = a_regex_group()
    group.join("m2", None, subscribed_topic_regex="ord.*")
    size = len(group.log())
    group.leave("m1")
    assert (CONSUMER_GROUP_REGULAR_EXPRESSION, False) not in group.types(start=size)
    group.leave("m2")
    assert (CONSUMER_GROUP_REGULAR_EXPRESSION, False) in group.types(start=size)
    assert resolved(group) == {}
    group.host.crash()
    assert resolved(group) == {}


def test_a_session_that_ends_takes_its_expression_along() -> None:
    group = a_regex_group()
    group.host.advance(45_000)
    assert (group.state, resolved(group)) == ("Empty", {})


def test_a_topic_that_is_created_is_found_at_a_later_heartbeat() -> None:
    group = a_regex_group()
    group.host.topics.create("ordinary", 1)
    assert group.beat("m1", 2) == Answer(2, None)
    assert resolved(group) == {"ord.*": ("orders",)}  # less than ten seconds ago
    group.host.advance(MIN_INTERVAL_MS)
    assert group.beat("m1", 2) == Answer(2, None)
    assert resolved(group) == {"ord.*": ("orders", "ordinary")}
    assert group.beat("m1", 2) == Answer(3, {"orders": [0, 1], "ordinary": [0]})


def test_a_topic_that_does_not_match_changes_nothing() -> None:
    group = a_regex_group()
    group.host.topics.create("another", 1)
    group.host.advance(MIN_INTERVAL_MS)
    group.beat("m1", 2)
    assert (group.describe().group_epoch, group.state) == (2, "Stable")


def test_a_topic_that_matched_and_is_deleted_is_noticed_at_once() -> None:
    group = a_regex_group()
    group.host.advance(2_000)
    group.host.delete_topic("orders")
    assert group.beat("m1", 2) == Answer(2, {})
    assert group.beat("m1", 2, {}) == Answer(3, None)


def test_topics_are_looked_through_from_time_to_time() -> None:
    group = a_group(consumer_regex_refresh_interval_ms=30_000)
    group.join("m1", None, subscribed_topic_regex="ord.*")
    group.beat("m1", 1)
    first = group.object.subscriptions.resolved["ord.*"].timestamp
    group.host.advance(30_000)
    group.beat("m1", 2)
    assert group.object.subscriptions.resolved["ord.*"].timestamp == first
    group.host.advance(1)
    group.beat("m1", 2)
    assert group.object.subscriptions.resolved["ord.*"].timestamp == first + 30_001
    assert group.describe().group_epoch == 2


def test_what_matched_is_known_after_a_restart() -> None:
    group = a_regex_group()
    before = resolved(group)
    group.host.crash()
    assert resolved(group) == before
    assert group.beat("m1", 2) == Answer(2, None)


def test_a_group_is_equal_only_if_all_use_one_expression_and_no_names() -> None:
    group = a_regex_group()
    subscriptions = group.object.subscriptions
    assert subscriptions.are_equal(1)
    group.join("m2", None, subscribed_topic_regex="ord.*")
    assert subscriptions.are_equal(2)
    group.join("m3", ["orders"])
    assert not subscriptions.are_equal(3)
    group.leave("m3")
    group.join("m4", None, subscribed_topic_regex="pay.*")
    assert not subscriptions.are_equal(3)


def test_members_leave_while_the_topics_are_looked_through() -> None:
    group = Group(Host(topics=FakeTopics(**{f"t{number}": 1 for number in range(1_500)})))
    runtime = group.host.runtime
    go_on, runtime.go_on = runtime.go_on, lambda now, wall: False  # type: ignore[method-assign]
    group.join("m1", None, subscribed_topic_regex="t1.*")
    assert go_on(group.host.steady_ms, group.host.now)
    group.leave("m1")
    runtime.go_on = go_on  # type: ignore[method-assign]
    group.host.settle()
    assert (group.state, resolved(group), group.object.is_resolving) == ("Empty", {}, False)
    group.join("m2", None, subscribed_topic_regex="t2.*")
    assert len(resolved(group)["t2.*"]) == 111


def test_a_wall_clock_that_is_set_back_does_not_hold_up_the_next_look() -> None:
    group = a_regex_group()
    group.host.set_clock(-3_600_000)
    group.host.topics.create("ordinary", 1)
    group.beat("m1", 2)
    assert resolved(group) == {"ord.*": ("orders", "ordinary")}
