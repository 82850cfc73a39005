"""The walk of two members through a rebalance, as it was measured on Kafka 4.3.1."""

from __future__ import annotations

from kohort.protocol.error_codes import ErrorCode
from tests.coordinator.consumer.words import Answer, a_group, next_target


def test_a_partition_moves_only_after_its_owner_has_given_it_up() -> None:
    group = a_group(partitions=3)
    assert group.join("m1") == Answer(2, {"orders": [0, 1, 2]})
    next_target(group)
    assert group.join("m2") == Answer(3, {})
    assert group.state == "Reconciling"
    assert group.beat("m1", 2) == Answer(2, {"orders": [0, 1]})
    assert group.beat("m1", 2) == Answer(2, None)
    assert group.beat("m2", 3) == Answer(3, None)
    assert group.beat("m1", 2, {"orders": [0, 1]}) == Answer(3, None)
    assert group.beat("m2", 3) == Answer(3, {"orders": [2]})
    assert group.state == "Stable"


def test_members_that_come_together_wait_for_one_target() -> None:
    group = a_group(partitions=3)
    assert group.join("m1") == Answer(2, {"orders": [0, 1, 2]})
    assert group.join("m2") == Answer(2, {})
    assert group.state == "Assigning"
    next_target(group)
    assert group.beat("m1", 2) == Answer(2, {"orders": [0, 1]})


def test_an_unknown_group_or_member_is_told_so() -> None:
    group = a_group()
    assert group.beat("m1", 2) == ErrorCode.GROUP_ID_NOT_FOUND
    group.join("m1")
    assert group.beat("m2", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.beat("m1", 3) == ErrorCode.FENCED_MEMBER_EPOCH
    assert group.beat("m1", 1) == ErrorCode.FENCED_MEMBER_EPOCH


def test_a_lost_answer_is_made_up_for() -> None:
    group = a_group(partitions=3)
    group.join("m1")
    next_target(group)
    group.join("m2")
    group.beat("m1", 2)
    group.beat("m1", 2, {"orders": [0, 1]})
    assert group.beat("m1", 2, {"orders": [0, 1]}) == Answer(3, None)
    assert group.beat("m1", 2, {"orders": [0, 1, 2]}) == ErrorCode.FENCED_MEMBER_EPOCH
    assert group.beat("m1", 2) == ErrorCode.FENCED_MEMBER_EPOCH


def test_a_member_that_leaves_frees_its_partitions_at_once() -> None:
    group = a_group(partitions=3)
    group.join("m1")
    next_target(group)
    group.join("m2")
    assert group.leave("m1") == Answer(-1, None)
    next_target(group)
    assert group.beat("m2", 3) == Answer(4, {"orders": [0, 1, 2]})
    assert group.leave("m2") == Answer(-1, None)
    assert group.state == "Empty"


def test_a_silent_member_is_removed() -> None:
    group = a_group()
    group.join("m1")
    group.host.advance(44_000)
    assert group.state == "Stable"
    group.host.advance(1_000)
    assert group.state == "Empty"
    assert group.beat("m1", 2) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_give_up_partitions_in_time_is_removed() -> None:
    group = a_group(partitions=3)
    group.join("m1", rebalance_timeout_ms=2_000)
    next_target(group)
    group.join("m2")
    assert group.beat("m1", 2) == Answer(2, {"orders": [0, 1]})
    group.host.advance(1_999)
    assert group.beat("m1", 2) == Answer(2, None)
    group.host.advance(1)
    assert group.beat("m1", 2) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_comes_back_to_what_it_had() -> None:
    group = a_group(partitions=3)
    assert group.join("m1", instance_id="i1") == Answer(2, {"orders": [0, 1, 2]})
    assert group.join("m2", instance_id="i1") == ErrorCode.UNRELEASED_INSTANCE_ID
    assert group.leave("m1", -2, instance_id="i1") == Answer(-2, None)
    assert group.join("m2", instance_id="i1") == Answer(2, {"orders": [0, 1, 2]})
    assert group.beat("m1", 2, instance_id="i1") == ErrorCode.FENCED_INSTANCE_ID
    assert group.describe().group_epoch == 2


def test_what_members_had_survives_a_crash() -> None:
    group = a_group(partitions=3)
    group.join("m1")
    next_target(group)
    group.join("m2")
    group.beat("m1", 2)
    before = group.describe()
    group.host.crash()
    assert group.describe() == before
    assert group.beat("m1", 2, {"orders": [0, 1]}) == Answer(3, None)
    assert group.beat("m2", 3) == Answer(3, {"orders": [2]})


def test_a_topic_that_grows_is_assigned_at_the_next_heartbeat() -> None:
    group = a_group(partitions=1)
    group.join("m1")
    next_target(group)
    group.host.topics.grow("orders", 3)
    assert group.beat("m1", 2) == Answer(3, {"orders": [0, 1, 2]})


def test_a_regular_expression_is_resolved_between_heartbeats() -> None:
    group = a_group(partitions=2)
    assert group.join("m1", None, subscribed_topic_regex="ord.*") == Answer(1, {})
    assert group.beat("m1", 1) == Answer(2, {"orders": [0, 1]})
    assert group.join("m2", None, subscribed_topic_regex="or(d") == ErrorCode.INVALID_REGULAR_EXPRESSION
    group.host.topics.create("ordinary", 1)
    group.host.advance(10_001)
    assert group.beat("m1", 2) == Answer(2, None)
    assert group.beat("m1", 2) == Answer(3, {"orders": [0, 1], "ordinary": [0]})


def test_a_static_member_comes_back_with_the_same_member_id() -> None:
    group = a_group(partitions=3)
    group.join("m1", instance_id="i1")
    group.leave("m1", -2, instance_id="i1")
    assert group.join("m1", instance_id="i1") == Answer(2, {"orders": [0, 1, 2]})
    next_target(group)
    assert group.beat("m1", 2, subscribed_topic_names=["payments"], instance_id="i1") == Answer(2, {})
    assert group.leave("m1", -2, instance_id="i1") == Answer(-2, None)
    next_target(group)
    assert group.join("m1", ["orders", "payments"], instance_id="i1") == Answer(
        4, {"orders": [0, 1, 2], "payments": [0, 1]}
    )


def test_a_group_with_a_regular_expression_is_at_rest_until_its_topics_are_due_again() -> None:
    group = a_group(partitions=2, consumer_regex_refresh_interval_ms=60_000)
    group.join("m1", None, subscribed_topic_regex="ord.*")
    group.beat("m1", 1)
    shard = group.host.state_of("billing")
    assert group.beat("m1", 2) == Answer(2, None)
    pulse = group.object.pulse(shard, "m1", None, 2)
    assert pulse is not None
    assert pulse.beats(group.host.steady_ms)
    group.host.advance(30_000)
    assert pulse.beats(group.host.steady_ms)
    group.host.advance(30_000)
    assert not pulse.beats(group.host.steady_ms)
