"""ShareGroupHeartbeat: joins, epochs, targets, and the way of partitions into a target."""

from __future__ import annotations

from kohort.protocol.error_codes import ErrorCode
from tests.coordinator.share.words import Answer, a_group, next_target, with_members

NONE = ErrorCode.NONE
FENCED = ErrorCode.FENCED_MEMBER_EPOCH
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID


def test_the_first_join_gives_epoch_2_and_no_partitions_and_asks_for_states() -> None:
    group = a_group()
    assert group.join("m1") == Answer(2, {})
    assert group.asked_partitions() == [(2, {"orders": [0, 1, 2]})]
    assert group.types() == [10, 11, 13, 12, 14, 15]


def test_partitions_are_assigned_once_they_are_initialized_and_the_interval_is_over() -> None:
    group = a_group()
    group.join("m1")
    assert group.beat("m1", 2) == Answer(2, None)
    group.initialize()
    assert group.beat("m1", 2) == Answer(2, None)  # the group epoch is bumped, the last target is too young
    assert group.describe().group_epoch == 3
    next_target(group)
    assert group.beat("m1", 2) == Answer(3, {"orders": [0, 1, 2]})
    assert group.beat("m1", 3) == Answer(3, None)
    assert group.types(start=6) == [15, 11, 13, 12, 14]
    group.host.crash()
    assert group.beat("m1", 3) == Answer(3, None)


def test_several_members_have_the_same_partition() -> None:
    group = with_members("m1", "m2", partitions=1)
    epoch = group.object.epoch
    assert group.beat("m1", epoch, subscribed_topic_names=["orders"]) == Answer(epoch, {"orders": [0]})
    assert group.beat("m2", epoch, subscribed_topic_names=["orders"]) == Answer(epoch, {"orders": [0]})
