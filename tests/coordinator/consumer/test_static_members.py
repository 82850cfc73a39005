"""Static members: they leave for a while and come back, and nobody else may use their instance id meanwhile."""

from __future__ import annotations

import pytest

from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.log_records import (
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    CONSUMER_GROUP_MEMBER_METADATA,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
)
from tests.coordinator.consumer.words import Answer, Group, a_group, next_target

UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
FENCED_INSTANCE = ErrorCode.FENCED_INSTANCE_ID


def two_static_members() -> Group:
    """`m1` has the partitions 0 and 1 of `orders`, `m2` the partition 2; both are in epoch 3."""
    group = a_group()
    group.join("m1", instance_id="i1")
    next_target(group)
    group.join("m2", instance_id="i2")
    group.beat("m1", 2, instance_id="i1")
    assert group.beat("m1", 2, {"orders": [0, 1]}, instance_id="i1") == Answer(3, None)
    assert group.beat("m2", 3, instance_id="i2") == Answer(3, {"orders": [2]})
    return group


def test_an_instance_id_in_use_is_not_released() -> None:
    group = two_static_members()
    assert group.join("m3", instance_id="i1") == ErrorCode.UNRELEASED_INSTANCE_ID
    assert group.join("m1", instance_id="i1") == ErrorCode.UNRELEASED_INSTANCE_ID


def test_an_instance_that_nobody_knows_is_unknown() -> None:
    group = two_static_members()
    assert group.beat("m1", 3, instance_id="i9") == UNKNOWN
    assert group.leave("m1", -1, instance_id="i9") == UNKNOWN
    assert group.leave("m1", -2, instance_id="i9") == UNKNOWN


def test_an_instance_of_another_member_is_fenced_before_epochs_are_compared() -> None:
    group = two_static_members()
    assert group.beat("m2", 77, instance_id="i1") == FENCED_INSTANCE
    assert group.leave("m2", -1, instance_id="i1") == FENCED_INSTANCE
    assert group.leave("m2", -2, instance_id="i1") == FENCED_INSTANCE
    assert group.beat("m1", 77, instance_id="i1") == ErrorCode.FENCED_MEMBER_EPOCH


def test_a_static_member_may_leave_its_instance_id_out() -> None:
    group = two_static_members()
    assert group.beat("m1", 3) == Answer(3, None)
    assert group.leave("m1") == Answer(-1, None)


def test_who_leaves_for_a_while_keeps_partitions_and_epochs_of_the_group() -> None:
    group = two_static_members()
    size = len(group.log())
    answer = group.send("m1", -2, instance_id="i1").answer
    assert (answer.member_id, answer.member_epoch) == ("m1", -2)
    ((kind, key, value),) = group.log(start=size)
    assert (kind, key.member_id) == (CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT, "m1")
    assert (value.member_epoch, value.state, len(value.partitions_pending_revocation)) == (-2, 0, 0)
    ((topic),) = value.assigned_partitions
    assert (list(topic.partitions), list(topic.assignment_epochs)) == ([0, 1], [0, 0])
    described = group.describe()
    assert (described.group_epoch, described.assignment_epoch, described.group_state) == (3, 3, "Reconciling")


def test_what_was_to_be_given_up_is_free_when_its_static_owner_leaves_for_a_while() -> None:
    group = a_group()
    group.join("m1", instance_id="i1")
    next_target(group)
    group.join("m2")
    assert group.beat("m1", 2, instance_id="i1") == Answer(2, {"orders": [0, 1]})
    group.leave("m1", -2, instance_id="i1")
    assert group.beat("m2", 3) == Answer(3, {"orders": [2]})


def test_who_comes_back_goes_on_under_a_new_id_without_a_new_epoch() -> None:
    group = two_static_members()
    group.leave("m1", -2, instance_id="i1")
    size = len(group.log())
    assert group.join("m3", instance_id="i1") == Answer(3, {"orders": [0, 1]})
    assert [(kind, key.member_id, value is None) for kind, key, value in group.log(start=size)] == [
        (CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT, "m1", True),
        (CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER, "m1", True),
        (CONSUMER_GROUP_MEMBER_METADATA, "m1", True),
        (CONSUMER_GROUP_MEMBER_METADATA, "m3", False),
        (CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER, "m3", False),
        (CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT, "m3", False),
        (CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT, "m3", False),
    ]
    assert group.describe().group_epoch == 3
    assert group.state == "Stable"
    assert group.beat("m1", 3, instance_id="i1") == FENCED_INSTANCE
    assert group.beat("m1", 3) == UNKNOWN
    before = group.describe()
    group.host.crash()
    assert group.describe() == before


def test_who_comes_back_with_another_wish_bumps_the_epoch() -> None:
    group = two_static_members()
    group.leave("m1", -2, instance_id="i1")
    next_target(group)
    answer = group.join("m3", ["payments"], instance_id="i1")
    assert answer == Answer(4, {"payments": [0, 1]})
    assert group.describe().group_epoch == 4
    assert group.beat("m2", 3, instance_id="i2") == Answer(4, {"orders": [0, 1, 2]})


def test_the_session_of_who_is_away_ends_it_for_good() -> None:
    group = two_static_members()
    group.host.advance(40_000)
    group.beat("m2", 3, instance_id="i2")
    group.leave("m1", -2, instance_id="i1")
    group.host.advance(4_999)
    assert len(group.describe().members) == 2
    group.host.advance(1)
    assert [member.member_id for member in group.describe().members] == ["m2"]
    assert group.describe().group_epoch == 4
    assert group.beat("m2", 3, instance_id="i2") == Answer(4, {"orders": [0, 1, 2]})


def test_the_session_of_the_old_id_does_not_end_the_new_one() -> None:
    group = two_static_members()
    group.leave("m1", -2, instance_id="i1")
    group.host.advance(40_000)
    group.join("m3", instance_id="i1")
    group.beat("m2", 3, instance_id="i2")
    group.host.advance(44_999)
    assert len(group.describe().members) == 2


@pytest.mark.parametrize("epoch", [3, 2, -2])
def test_who_is_away_is_no_one_to_a_heartbeat(epoch: int) -> None:
    group = two_static_members()
    group.leave("m1", -2, instance_id="i1")
    answer = group.beat("m1", epoch, instance_id="i1")
    assert answer == (Answer(-2, None) if epoch == -2 else ErrorCode.FENCED_MEMBER_EPOCH)


def test_a_dynamic_member_may_become_a_static_one() -> None:
    group = a_group()
    group.join("m1")
    assert group.join("m1", instance_id="i1") == Answer(2, {"orders": [0, 1, 2]})
    assert group.beat("m1", 2, instance_id="i1") == Answer(2, None)
    assert group.describe().members[0].instance_id == "i1"


def test_a_static_member_is_back_after_a_restart_of_the_broker() -> None:
    group = two_static_members()
    group.leave("m1", -2, instance_id="i1")
    group.host.crash()
    assert group.join("m3", instance_id="i1") == Answer(3, {"orders": [0, 1]})
    assert group.object.static_members == {"i1": "m3", "i2": "m2"}


# --- answers that are lost


@pytest.mark.parametrize("crashes", [False, True])
def test_who_got_the_partitions_it_waited_for_is_told_again_only_if_it_says_everything(crashes: bool) -> None:
    """Its epoch is the same as before, so that nothing else shows that the answer was lost. librdkafka does not say
    everything after a timeout, and never learns of the partitions, as with Kafka.
    """
    group = a_group()
    group.join("m1", instance_id="i1")
    next_target(group)
    group.join("m2", instance_id="i2")
    group.beat("m1", 2)
    group.beat("m1", 2, {"orders": [0, 1]})
    assert group.beat("m2", 3) == Answer(3, {"orders": [2]})
    if crashes:
        group.host.crash()
    assert group.state == "Stable"
    assert group.beat("m2", 3) == Answer(3, None)
    assert group.beat("m2", 3, {}) == Answer(3, None)
    everything = {"subscribed_topic_names": ["orders"], "rebalance_timeout_ms": 60_000, "instance_id": "i2"}
    assert group.beat("m2", 3, {}, **everything) == Answer(3, {"orders": [2]})


def test_a_fenced_static_member_cannot_join_but_can_say_everything() -> None:
    group = two_static_members()
    assert group.beat("m1", 2) == ErrorCode.FENCED_MEMBER_EPOCH
    assert group.join("m1", instance_id="i1") == ErrorCode.UNRELEASED_INSTANCE_ID
    everything = {"subscribed_topic_names": ["orders"], "rebalance_timeout_ms": 60_000, "instance_id": "i1"}
    assert group.beat("m1", 2, {"orders": [0, 1]}, **everything) == Answer(3, {"orders": [0, 1]})
    assert group.join("m1") == Answer(3, {"orders": [0, 1]}), "without its instance id it is let in"
