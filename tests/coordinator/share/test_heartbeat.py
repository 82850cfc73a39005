"""ShareGroupHeartbeat: joins, epochs, targets, and what members are told."""

from __future__ import annotations

from typing import Any

import pytest

from kohort.coordinator.config import ShareGroupSettings
from kohort.protocol.error_codes import ErrorCode
from tests.coordinator.members import Member
from tests.coordinator.share.words import Answer, Group, a_group, next_target, with_members
from tests.coordinator.support import FakeTopics, Host

FENCED = ErrorCode.FENCED_MEMBER_EPOCH
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
INVALID = ErrorCode.INVALID_REQUEST
NOT_FOUND = ErrorCode.GROUP_ID_NOT_FOUND


# --- the way into a group


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


def test_a_member_goes_to_the_newest_target_in_one_step_and_gives_nothing_up_first() -> None:
    group = with_members("m1", partitions=4)
    assert group.join("m2") == Answer(4, {"orders": [1, 2]})  # though m1 does not know yet
    assert group.beat("m1", 3) == Answer(4, {"orders": [0, 3]})


def test_members_that_join_within_the_interval_share_one_target() -> None:
    group = with_members("m1", partitions=3)
    assert group.join("m2") == Answer(4, {"orders": [1]})
    assert group.join("m3") == Answer(4, {})
    assert group.join("m4") == Answer(4, {})
    assert (group.describe().group_epoch, group.describe().assignment_epoch) == (6, 4)
    next_target(group)
    assert group.beat("m3", 4) == Answer(6, {"orders": [0, 1]})
    assert group.beat("m4", 4) == Answer(6, {"orders": [2]})


def test_the_answer_names_the_assignment_if_epoch_0_names_or_a_change_ask_for_it() -> None:
    group = with_members("m1")
    everything = {"orders": [0, 1, 2]}
    assert group.beat("m1", 3) == Answer(3, None)
    assert group.beat("m1", 3, subscribed_topic_names=["orders"]) == Answer(3, everything)
    assert group.beat("m1", 0, subscribed_topic_names=["orders"]) == Answer(3, everything)
    assert group.beat("m1", 3, rack_id="r1") == Answer(3, None)
    assert group.beat("m1", 3, subscribed_topic_names=["orders", "nowhere"]) == Answer(4, everything)


def test_the_heartbeat_interval_is_told() -> None:
    group = a_group()
    assert group.send("m1", 0, subscribed_topic_names=["orders"]).answer.heartbeat_interval_ms == 5_000
    group.host.runtime.share.change_group("work", ShareGroupSettings(heartbeat_interval_ms=7_000))
    assert group.send("m1", 2).answer.heartbeat_interval_ms == 7_000


# --- what is written


def test_a_member_that_says_something_else_about_itself_is_written_anew() -> None:
    group = with_members("m1")
    size = len(group.log())
    group.beat("m1", 3, rack_id="r1")
    group.beat("m1", 3, client_id="other")
    assert group.types(start=size) == [10, 10]
    member = group.object.members["m1"]
    assert (member.rack_id, member.client_id, member.client_host) == ("r1", "other", "/10.0.0.7")
    assert group.describe().group_epoch == 3


def test_names_are_kept_sorted_and_each_once() -> None:
    group = a_group()
    group.join("m1", ["payments", "orders", "payments"])
    assert group.object.members["m1"].topic_names == ("orders", "payments")
    assert group.beat("m1", 2, subscribed_topic_names=["orders", "payments"]) == Answer(2, {})
    assert group.describe().group_epoch == 2


def test_another_subscription_bumps_the_epoch_and_takes_away_at_once_what_is_not_wanted() -> None:
    group = with_members("m1")
    group.host.advance(1_000)
    assert group.beat("m1", 3, subscribed_topic_names=["payments"]) == Answer(4, {})
    assert group.asked_partitions() == [(4, {"payments": [0, 1]})]
    group.initialize()
    next_target(group)
    assert group.beat("m1", 4) == Answer(5, {"payments": [0, 1]})


def test_what_is_not_wanted_is_taken_away_even_if_the_target_is_too_young() -> None:
    group = with_members("m1")
    group.join("m2")
    assert group.beat("m1", 3, subscribed_topic_names=["payments"]) == Answer(4, {})
    assert group.describe().assignment_epoch == 4


# --- epochs


def test_a_member_may_be_one_epoch_behind_as_an_answer_may_be_lost() -> None:
    group = with_members("m1")
    assert group.object.members["m1"].previous_epoch == 2
    assert group.beat("m1", 2) == Answer(3, None)
    assert group.beat("m1", 1) == FENCED
    assert group.beat("m1", 4) == FENCED
    greater, smaller = group.send("m1", 4).answer, group.send("m1", 1).answer
    assert "greater member epoch (4) than the one known by the group coordinator (3). The" in greater.error_message
    assert "(3), and it does not match the previous member epoch (2). The member must" in smaller.error_message


def test_a_member_that_nobody_knows_must_join() -> None:
    group = with_members("m1")
    assert group.beat("m2", 3) == UNKNOWN
    assert group.leave("m2") == UNKNOWN
    assert group.send("m2", 3).answer.error_message == "Member m2 is not a member of group work."


def test_a_group_that_does_not_exist_is_created_by_a_join_alone() -> None:
    group = a_group()
    assert group.beat("m1", 3) == NOT_FOUND
    assert group.send("m1", 3).answer.error_message == "Share group work not found."
    assert group.leave("m1") == NOT_FOUND
    assert group.send("m1", -1).answer.error_message == "Group work not found."
    assert not group.log()


# --- leaving


def test_a_member_that_leaves_is_told_epoch_minus_1_and_its_partitions_go_to_others() -> None:
    group = with_members("m1", "m2", partitions=4)
    size, epoch = len(group.log()), group.object.epoch
    assert group.leave("m2") == Answer(-1, None)
    assert group.types(start=size) == [-14, -13, -10, 11]
    assert group.describe().group_epoch == epoch + 1
    assert group.beat("m1", epoch) == Answer(epoch + 1, {"orders": [0, 1, 2, 3]})


def test_an_empty_group_stays_and_its_partitions_are_assigned_with_the_next_join() -> None:
    group = with_members("m1")
    group.leave("m1")
    assert group.state == "Empty"
    group.host.advance(365 * 86_400_000)
    group.host.expire_offsets()
    assert [each.group_id for each in group.host.list_groups(types=["share"], states=["empty"])] == ["work"]
    assert group.join("m2") == Answer(5, {"orders": [0, 1, 2]})
    assert group.asked == []


# --- requests that cannot be


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"member_id": ""}, None),
        ({"member_id": "m" * 37}, None),
        ({"member_id": "\U0001f600" * 19}, None),  # 38 code units
        ({"member_id": " \t"}, "MemberId can't be empty."),
        ({"group_id": " "}, "GroupId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"subscribed_topic_names": None}, "SubscribedTopicNames must be set in first request."),
        ({"subscribed_topic_names": []}, "SubscribedTopicNames must be set in first request."),
        ({"member_epoch": -2}, "MemberEpoch is invalid."),
        ({"subscribed_topic_names": ["t"] * 1_001}, "SubscribedTopicNames has 1001 names; at most 1000 are taken."),
    ],
)
def test_a_request_that_cannot_be_is_refused_with_a_reason(fields: dict[str, Any], message: str | None) -> None:
    said: dict[str, Any] = {"member_id": "m1", "member_epoch": 0, "subscribed_topic_names": ["orders"], **fields}
    group = Group(Host(), said.pop("group_id", "work"))
    answer = group.send(said.pop("member_id"), said.pop("member_epoch"), **said).answer
    assert (answer.error_code, answer.error_message) == (INVALID, message)
    host = Host(load=False)  # the same is answered while the shard is loading
    answer = Group(host, group.group_id).send("m1" * 19, 0).answer
    assert answer.error_code == INVALID


def test_ids_of_36_characters_are_taken() -> None:
    assert a_group().join("m" * 36) == Answer(2, {})
    assert a_group().join("\U0001f600" * 18) == Answer(2, {})


def test_while_the_shard_is_loading_members_are_told_to_come_again() -> None:
    assert Group(Host(load=False)).join("m1") == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_a_full_group_refuses_everybody_else() -> None:
    group = a_group(share_max_size=2)
    group.join("m1")
    group.join("m2")
    answer = group.send("m3", 0, subscribed_topic_names=["orders"]).answer
    assert answer.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert answer.error_message == "The share group has reached its maximum capacity of 2 members."
    assert group.beat("m3", 7) == ErrorCode.GROUP_MAX_SIZE_REACHED  # before anybody asks who that is
    assert group.beat("m1", 0, subscribed_topic_names=["orders"]) == Answer(2, {})


# --- groups of other kinds


def test_a_group_of_another_kind_stays_what_it_is() -> None:
    host = Host(topics=FakeTopics(orders=3))
    Member(host, "work").join()
    group = Group(host)
    answer = group.send("m1", 0, subscribed_topic_names=["orders"]).answer
    assert (answer.error_code, answer.error_message) == (NOT_FOUND, "Group work is not a share group.")
    assert group.leave("m1") == NOT_FOUND
    assert group.describe().error_code == NOT_FOUND


# --- large requests and groups


def test_a_member_that_names_many_topics_is_answered_in_steps() -> None:
    names = [f"topic-{number}" for number in range(300)]
    group = Group(Host(topics=FakeTopics(**dict.fromkeys(names, 1))))
    assert group.join("m1", names) == Answer(2, {})
    group.initialize()
    next_target(group)
    answer = group.beat("m1", 2)
    assert isinstance(answer, Answer)
    assert answer.assignment == {name: [0] for name in names}


def test_a_group_does_not_take_more_topics_than_one_record_can_name_in_time() -> None:
    group = a_group()
    group.join("m1", [f"a{number}" for number in range(700)])
    answer = group.send("m2", 0, subscribed_topic_names=[f"b{number}" for number in range(400)]).answer
    assert answer.error_code == INVALID
    assert answer.error_message == "With SubscribedTopicNames the group would have 1100 topics; at most 1000 are taken."
    assert group.object.members.keys() == {"m1"}
    assert group.join("m2", [f"a{number}" for number in range(400)]) == Answer(2, {})
    assert group.join("m3", [f"b{number}" for number in range(300)]) == Answer(2, {})
    assert group.beat("m1", 2, subscribed_topic_names=["orders"]) == Answer(2, {})


def test_records_that_no_batch_can_hold_are_refused() -> None:
    group = a_group(max_message_bytes=600)
    answer = group.send("m1", 0, subscribed_topic_names=["n" * 700]).answer
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert not group.log()


def test_when_the_records_cannot_be_written_the_member_comes_again_and_finds_the_group_as_it_was() -> None:
    group = with_members("m1")
    group.host.disk.is_slow = True
    call = group.send("m2", 0, subscribed_topic_names=["orders"])
    assert not call.is_answered
    group.host.disk_fails()
    assert call.error == ErrorCode.NOT_COORDINATOR
    group.host.load()
    assert group.beat("m1", 3) == Answer(3, None)
    assert group.beat("m2", 4) == UNKNOWN
