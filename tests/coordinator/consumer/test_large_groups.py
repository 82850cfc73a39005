"""Groups whose target is computed in pieces, between the requests of others."""

from __future__ import annotations

from kohort.coordinator.planning import SMALL_GROUP
from kohort.protocol.error_codes import ErrorCode
from tests.coordinator.consumer.words import Answer, a_group, next_target

MANY = SMALL_GROUP + 100


def test_the_answer_waits_for_the_target() -> None:
    group = a_group(partitions=MANY)
    assert group.join("m1") == Answer(2, {"orders": list(range(MANY))})
    assert group.state == "Stable"
    next_target(group)
    assert group.join("m2") == Answer(3, {})
    assert group.beat("m1", 2) == Answer(2, {"orders": list(range(MANY // 2))})
    assert group.beat("m1", 2, {"orders": range(MANY // 2)}) == Answer(3, None)
    assert group.beat("m2", 3) == Answer(3, {"orders": list(range(MANY // 2, MANY))})
    assert group.state == "Stable"
    assert [event.epoch for event in group.host.events] == [2, 3]


def test_a_member_that_comes_back_with_a_full_request_is_told_everything() -> None:
    group = a_group(partitions=MANY)
    group.join("m1")
    everything = {"orders": range(MANY)}
    again = group.beat("m1", 2, everything, rebalance_timeout_ms=60_000, subscribed_topic_names=["orders"])
    assert again == Answer(2, {"orders": list(range(MANY))})


def test_more_topics_than_the_loop_can_bear_are_refused_with_a_hint() -> None:
    group = a_group()
    call = group.send("m1", 0, {}, rebalance_timeout_ms=1, subscribed_topic_names=[f"t{n}" for n in range(10_001)])
    assert call.error is ErrorCode.INVALID_REQUEST
    assert "SubscribedTopicRegex" in call.answer.error_message
