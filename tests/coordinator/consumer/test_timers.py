"""Sessions and rebalance timeouts of members in consumer groups."""

from __future__ import annotations

from kohort.coordinator.config import ConsumerGroupSettings
from kohort.protocol.error_codes import ErrorCode
from tests.coordinator.consumer.words import Answer, Group, a_group, next_target
from tests.coordinator.members import commit

UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID


def with_one_to_revoke(rebalance_timeout_ms: int = 2_000) -> Group:
    """`m1`, in epoch 2, has just been told to give up partition 2 of `orders`; `m2` waits for it."""
    group = a_group()
    group.join("m1", rebalance_timeout_ms=rebalance_timeout_ms)
    next_target(group)
    group.join("m2")
    assert group.beat("m1", 2) == Answer(2, {"orders": [0, 1]})
    return group


# --- sessions


def test_each_heartbeat_begins_the_session_anew() -> None:
    group = a_group()
    group.join("m1")
    for _ in range(5):
        group.host.advance(44_999)
        assert group.beat("m1", 2) == Answer(2, None)
    group.host.advance(45_000)
    assert group.beat("m1", 2) == UNKNOWN


def test_a_session_that_ends_is_like_a_leave() -> None:
    group = a_group()
    group.join("m1")
    group.host.advance(30_000)
    group.join("m2")
    size = len(group.log())
    group.host.advance(15_000)
    assert [kind for kind, _ in group.types(start=size)] == [8, 7, 5, 3]
    assert group.beat("m2", 3) == Answer(4, {"orders": [0, 1, 2]})


def test_the_groups_own_session_timeout_holds_from_the_next_heartbeat_on() -> None:
    group = a_group()
    group.join("m1")
    group.host.runtime.consumer.change_group("billing", ConsumerGroupSettings(session_timeout_ms=50_000))
    group.host.advance(44_000)
    assert group.beat("m1", 2) == Answer(2, None)
    group.host.advance(49_999)
    assert group.state == "Stable"
    group.host.runtime.consumer.change_group("billing", ConsumerGroupSettings(session_timeout_ms=1_000))
    assert group.beat("m1", 2) == Answer(2, None)
    group.host.advance(1_000)
    assert group.state == "Empty"


def test_the_heartbeat_interval_of_the_group_is_told_at_once() -> None:
    group = a_group()
    group.join("m1")
    assert group.send("m1", 2).answer.heartbeat_interval_ms == 5_000
    group.host.runtime.consumer.change_group("billing", ConsumerGroupSettings(heartbeat_interval_ms=7_000))
    assert group.send("m1", 2).answer.heartbeat_interval_ms == 7_000


def test_commits_are_no_signs_of_life() -> None:
    group = a_group()
    group.join("m1")
    for _ in range(45):
        commit(group.host, "billing", {("orders", 0): 5}, generation=2, member_id="m1")
        group.host.advance(1_000)
    assert group.state == "Empty"


def test_all_sessions_begin_anew_after_a_restart() -> None:
    group = a_group()
    group.join("m1")
    group.host.advance(44_000)
    group.host.crash()
    group.host.advance(44_999)
    assert group.beat("m1", 2) == Answer(2, None)


def test_a_member_that_left_is_not_looked_for_again() -> None:
    group = a_group()
    group.join("m1")
    group.leave("m1")
    group.join("m1")
    epoch = group.describe().group_epoch
    group.host.advance(44_999)
    assert group.describe().group_epoch == epoch
    assert len(group.object.sessions) == 1


def test_a_disk_that_stalls_does_not_make_members_silent() -> None:
    group = a_group()
    group.join("m1")
    group.host.disk.is_slow = True
    group.send("m2", 0, {}, rebalance_timeout_ms=1, subscribed_topic_names=["orders"])
    group.host.advance(100_000)
    group.host.disk_catches_up()
    assert group.beat("m1", 2) != UNKNOWN


def test_an_expiration_that_cannot_be_written_is_tried_again_after_a_restart_of_the_shard() -> None:
    group = a_group()
    group.join("m1")
    group.host.disk.is_slow = True
    group.host.advance(45_000)
    group.host.disk_fails()
    group.host.load()
    assert group.state == "Stable"
    group.host.advance(45_000)
    assert group.state == "Empty"


# --- rebalance timeouts


def test_who_gives_up_in_time_stays() -> None:
    group = with_one_to_revoke()
    group.host.advance(1_999)
    assert group.beat("m1", 2, {"orders": [0, 1]}) == Answer(3, None)
    group.host.advance(10_000)
    assert group.beat("m1", 3) == Answer(3, None)
    assert group.object.rebalance_timeouts == {}


def test_who_does_not_is_removed_whatever_it_says_meanwhile() -> None:
    group = with_one_to_revoke()
    for _ in range(3):
        group.host.advance(500)
        assert group.beat("m1", 2, {"orders": [0, 1, 2]}) == Answer(2, None)
    group.host.advance(500)
    assert group.beat("m1", 2, {"orders": [0, 1]}) == UNKNOWN
    next_target(group)
    assert group.beat("m2", 3) == Answer(4, {"orders": [0, 1, 2]})


def test_another_revocation_begins_the_timeout_anew() -> None:
    group = with_one_to_revoke(rebalance_timeout_ms=5_000)
    group.host.advance(4_000)
    group.join("m3")
    assert group.beat("m1", 2, {"orders": [0, 1]}) == Answer(2, {"orders": [0]})
    group.host.advance(4_000)
    assert group.beat("m1", 2) == Answer(2, None)
    group.host.advance(1_000)
    assert group.beat("m1", 2) == UNKNOWN


def test_a_revocation_gets_its_whole_time_after_a_restart() -> None:
    group = with_one_to_revoke()
    group.host.advance(1_500)
    group.host.crash()
    group.host.advance(1_999)
    assert group.beat("m1", 2) == Answer(2, None)
    group.host.advance(1)
    assert group.beat("m1", 2) == UNKNOWN


def test_the_timeout_of_a_member_that_left_for_a_while_removes_nobody() -> None:
    group = a_group()
    group.join("m1", instance_id="i1", rebalance_timeout_ms=2_000)
    next_target(group)
    group.join("m2")
    assert group.beat("m1", 2, instance_id="i1") == Answer(2, {"orders": [0, 1]})
    group.leave("m1", -2, instance_id="i1")
    group.host.advance(10_000)
    assert len(group.describe().members) == 2
    assert group.join("m3", instance_id="i1") == Answer(3, {"orders": [0, 1]})


def test_who_waits_for_others_has_no_rebalance_timeout() -> None:
    group = with_one_to_revoke(rebalance_timeout_ms=40_000)
    assert list(group.object.rebalance_timeouts) == ["m1"]
    for _ in range(3):
        group.host.advance(10_000)
        assert group.beat("m2", 3) == Answer(3, None)
