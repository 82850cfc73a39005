"""Groups, members and epochs: who is known, who is fenced, and what bumps the group epoch."""

from __future__ import annotations

from typing import Any

import pytest

from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.log_records import (
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    CONSUMER_GROUP_MEMBER_METADATA,
    CONSUMER_GROUP_METADATA,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA,
    SHARE_GROUP_METADATA,
)
from kohort.protocol.messages.log_share_group_metadata import ShareGroupMetadataKey, ShareGroupMetadataValue
from tests.coordinator.consumer.words import Answer, Group, a_group, next_target
from tests.coordinator.members import Member, stable
from tests.coordinator.support import Host

NOT_FOUND = ErrorCode.GROUP_ID_NOT_FOUND
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
FENCED = ErrorCode.FENCED_MEMBER_EPOCH
RECORDS_OF_A_FIRST_JOIN = [
    (CONSUMER_GROUP_MEMBER_METADATA, True),
    (CONSUMER_GROUP_METADATA, True),
    (CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER, True),
    (CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA, True),
    (CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT, True),
]


# --- the group


@pytest.mark.parametrize("epoch", [1, -1])
def test_only_a_join_makes_a_group(epoch: int) -> None:
    assert a_group().beat("m1", epoch) == NOT_FOUND


def test_the_first_member_of_a_new_group_is_in_epoch_2() -> None:
    group = a_group()
    assert group.join("m1") == Answer(2, {"orders": [0, 1, 2]})
    assert group.types() == RECORDS_OF_A_FIRST_JOIN
    described = group.describe()
    assert (described.group_epoch, described.assignment_epoch, described.group_state) == (2, 2, "Stable")


def test_topics_that_do_not_exist_count_as_a_wish() -> None:
    group = a_group()
    assert group.join("m1", ["nowhere"]) == Answer(2, {})
    assert group.state == "Stable"


def test_an_empty_classic_group_becomes_a_consumer_group() -> None:
    host = Host()
    (a,) = stable(host, "a", group_id="billing")
    a.leave()
    group = Group(host)
    assert group.beat("m1", 2) == NOT_FOUND
    assert group.leave("m1") == NOT_FOUND
    assert group.join("m1") == Answer(2, {"orders": list(range(12))})
    host.crash()
    assert group.state == "Stable"


def test_an_empty_consumer_group_becomes_a_classic_group() -> None:
    group = a_group()
    group.join("m1")
    group.leave("m1")
    stable(group.host, "a", group_id="billing")
    assert group.beat("m1", 3) == NOT_FOUND
    group.host.crash()
    assert group.host.state("billing") == "Stable"


def test_a_group_of_another_type_is_no_consumer_group() -> None:
    group = a_group()
    shard = group.host.shard_of("billing")
    shard.replay(SHARE_GROUP_METADATA, ShareGroupMetadataKey("billing"), ShareGroupMetadataValue(1, 0), 0)
    assert group.join("m1") == NOT_FOUND
    assert group.beat("m1", 3) == NOT_FOUND
    assert group.leave("m1") == NOT_FOUND


def test_a_full_group_takes_no_new_member_and_serves_those_it_has() -> None:
    group = a_group(consumer_max_size=2)
    group.join("m1")
    group.join("m2", instance_id="i2")
    assert group.join("m3") == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert group.join("m1") == Answer(2, {"orders": [0, 1, 2]})
    group.leave("m2", -2, instance_id="i2")
    assert group.join("m4", instance_id="i2") == ErrorCode.GROUP_MAX_SIZE_REACHED
    group.leave("m1")
    assert group.join("m3") != ErrorCode.GROUP_MAX_SIZE_REACHED


# --- the member's epoch


def test_a_heartbeat_of_nobody_is_told_so() -> None:
    group = a_group()
    group.join("m1")
    assert group.beat("m2", 2) == UNKNOWN
    assert group.leave("m2") == UNKNOWN
    assert group.beat("m1", 2) == Answer(2, None)


def test_a_member_that_joins_again_keeps_what_it_has() -> None:
    group = a_group()
    group.join("m1")
    size = len(group.log())
    assert group.join("m1") == Answer(2, {"orders": [0, 1, 2]})
    assert group.types(start=size) == []


def test_an_epoch_from_the_future_is_fenced() -> None:
    group = a_group()
    group.join("m1")
    assert group.beat("m1", 3) == FENCED
    assert group.beat("m1", 3, {"orders": [0]}) == FENCED


@pytest.mark.parametrize(
    ("owned", "expected"),
    [
        (None, FENCED),
        ({"orders": [0, 1, 2]}, FENCED),
        ({"payments": [0]}, FENCED),
        ({"orders": [0, 1]}, Answer(3, None)),
        ({"orders": [0]}, Answer(3, None)),
        ({}, Answer(3, None)),
    ],
)
def test_an_epoch_behind_is_fine_if_the_answer_may_have_been_lost(
    owned: dict[str, list[int]] | None, expected: Answer | ErrorCode
) -> None:
    """The member is in epoch 3 and has the partitions 0 and 1."""
    group = a_group()
    group.join("m1")
    next_target(group)
    group.join("m2")
    group.beat("m1", 2)
    assert group.beat("m1", 2, {"orders": [0, 1]}) == Answer(3, None)
    assert group.beat("m1", 2, owned) == expected


def test_two_epochs_behind_is_too_far() -> None:
    group = a_group()
    group.join("m1")
    for count in (4, 5):
        next_target(group)
        group.host.topics.grow("orders", count)
        group.beat("m1", count - 2)
    assert group.beat("m1", 4) == Answer(4, None)
    assert group.beat("m1", 3, {"orders": [0]}) == Answer(4, None)
    assert group.beat("m1", 2, {"orders": [0]}) == FENCED


def test_a_heartbeat_with_an_error_is_no_sign_of_life() -> None:
    group = a_group()
    group.join("m1")
    group.host.advance(44_000)
    assert group.beat("m1", 7) == FENCED
    group.host.advance(1_000)
    assert group.state == "Empty"


# --- what a member says about itself


def test_what_is_null_is_as_before_and_what_is_said_is_taken_over() -> None:
    group = a_group()
    group.join("m1", rack_id="r1", rebalance_timeout_ms=7_000)
    member = group.object.members["m1"]
    assert (member.rack_id, member.rebalance_timeout_ms, member.server_assignor) == ("r1", 7_000, None)
    size = len(group.log())
    group.beat("m1", 2)
    assert group.object.members["m1"] is member
    group.beat("m1", 2, rack_id="r2", server_assignor="range", rebalance_timeout_ms=9_000)
    changed = group.object.members["m1"]
    assert (changed.rack_id, changed.server_assignor, changed.rebalance_timeout_ms) == ("r2", "range", 9_000)
    assert changed.topic_names == ("orders",)
    assert group.types(start=size) == [(CONSUMER_GROUP_MEMBER_METADATA, True)]


def test_a_member_that_comes_from_another_client_is_written_anew() -> None:
    group = a_group()
    group.join("m1")
    request = group.send("m1", 2).request
    size = len(group.log())
    group.host.send(request, 1, client_id="another")
    assert group.types(start=size) == [(CONSUMER_GROUP_MEMBER_METADATA, True)]
    assert group.describe().members[0].client_id == "another"


# --- the group epoch


@pytest.mark.parametrize(
    ("said", "epoch"),
    [
        ({"subscribed_topic_names": ["orders"]}, 2),
        ({"subscribed_topic_names": ["orders", "orders"]}, 2),
        ({"rack_id": "r2"}, 2),
        ({"server_assignor": "range"}, 2),
        ({"rebalance_timeout_ms": 5}, 2),
        ({"subscribed_topic_names": ["orders", "payments"]}, 3),
        ({"subscribed_topic_names": ["orders", "nowhere"]}, 3),
        ({"subscribed_topic_names": []}, 3),
        ({"subscribed_topic_regex": ""}, 2),
    ],
)
def test_what_bumps_the_group_epoch(said: dict[str, Any], epoch: int) -> None:
    group = a_group()
    group.join("m1")
    next_target(group)
    group.beat("m1", 2, **said)
    assert group.describe().group_epoch == epoch


def grown(group: Group) -> None:
    group.host.topics.grow("orders", 4)


def created(group: Group) -> None:
    group.host.topics.create("later", 1)


def deleted(group: Group) -> None:
    group.host.delete_topic("orders")


def made_anew(group: Group) -> None:
    group.host.delete_topic("orders")
    group.host.topics.create("orders", 3)


def not_theirs(group: Group) -> None:
    group.host.topics.grow("payments", 9)


@pytest.mark.parametrize(
    ("event", "epoch", "assignment"),
    [
        (grown, 3, {"orders": [0, 1, 2, 3]}),
        (created, 3, {"orders": [0, 1, 2], "later": [0]}),
        (deleted, 3, None),
        (made_anew, 3, {"orders": [0, 1, 2]}),
        (not_theirs, 2, None),
    ],
)
def test_topics_that_change_are_noticed_at_the_next_heartbeat(
    event: Any, epoch: int, assignment: dict[str, list[int]] | None
) -> None:
    group = a_group()
    group.join("m1", ["orders", "later"])
    next_target(group)
    event(group)
    answer = group.beat("m1", 2)
    while isinstance(answer, Answer) and answer.epoch == 2 and epoch == 3:
        answer = group.beat("m1", 2, {})  # what was revoked has to be reported
    assert answer == Answer(epoch, assignment)
    assert group.state == "Stable"


def test_the_hash_is_compared_again_after_a_restart() -> None:
    group = a_group()
    group.join("m1")
    next_target(group)
    group.host.topics.grow("orders", 5)
    group.host.crash()
    assert group.beat("m1", 2) == Answer(3, {"orders": [0, 1, 2, 3, 4]})


# --- leaving


def test_a_member_that_leaves_is_gone_from_the_log() -> None:
    group = a_group()
    group.join("m1")
    size = len(group.log())
    assert group.leave("m1") == Answer(-1, None)
    assert group.types(start=size) == [
        (CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT, False),
        (CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER, False),
        (CONSUMER_GROUP_MEMBER_METADATA, False),
        (CONSUMER_GROUP_METADATA, True),
    ]
    assert group.describe().group_epoch == 3
    assert group.describe().assignment_epoch == 2
    assert group.leave("m1") == UNKNOWN


def test_the_answer_to_a_leave_names_the_member() -> None:
    group = a_group()
    group.join("m1")
    answer = group.send("m1", -1).answer
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == ("m1", -1, 0)


# --- the answer


def test_the_answer_waits_for_the_disk() -> None:
    group = a_group()
    group.host.disk.is_slow = True
    call = group.send("m1", 0, {}, rebalance_timeout_ms=1, subscribed_topic_names=["orders"])
    assert not call.is_answered
    group.host.disk_catches_up()
    assert group.read(call) == Answer(2, {"orders": [0, 1, 2]})


def test_a_member_whose_records_could_not_be_written_is_told_to_come_again() -> None:
    group = a_group()
    group.host.disk.is_slow = True
    call = group.send("m1", 0, {}, rebalance_timeout_ms=1, subscribed_topic_names=["orders"])
    group.host.disk_fails()
    assert group.read(call) == ErrorCode.NOT_COORDINATOR
    group.host.load()
    assert group.beat("m1", 2) == NOT_FOUND


@pytest.mark.parametrize(
    ("said", "assignment"),
    [
        ({}, None),
        ({"owned": {"orders": [0, 1, 2]}}, None),
        ({"subscribed_topic_names": ["orders"], "rebalance_timeout_ms": 5}, None),
        ({"subscribed_topic_names": ["orders"], "owned": {}}, None),
        ({"rebalance_timeout_ms": 5, "owned": {}}, None),
        ({"subscribed_topic_names": ["orders"], "rebalance_timeout_ms": 5, "owned": {}}, {"orders": [0, 1, 2]}),
        ({"subscribed_topic_regex": "", "rebalance_timeout_ms": 5, "owned": {}}, {"orders": [0, 1, 2]}),
    ],
)
def test_a_member_that_says_everything_is_told_its_assignment(said: dict[str, Any], assignment: Any) -> None:
    group = a_group()
    group.join("m1")
    assert group.beat("m1", 2, **said) == Answer(2, assignment)


def test_the_heartbeat_interval_is_that_of_the_group() -> None:
    group = a_group()
    assert (
        group.send("m1", 0, {}, rebalance_timeout_ms=1, subscribed_topic_names=[]).answer.heartbeat_interval_ms == 5_000
    )


def test_a_stranger_cannot_take_a_classic_members_place_in_a_live_classic_group() -> None:
    host = Host(consumer_migration_policy="disabled")
    stable(host, "a", group_id="billing")
    assert Group(host).join("m1") == NOT_FOUND
    assert Member(host, "billing").ask_to_join().answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
