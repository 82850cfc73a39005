"""Targets of large share groups: computed in small steps, between the heartbeats of others."""

from __future__ import annotations

from random import Random

import pytest

from kohort.coordinator.assignors.server_side import Subscriber
from kohort.coordinator.assignors.simple import SharingGroup, assign_simply
from kohort.coordinator.pieces import in_pieces
from kohort.coordinator.planning import STEPS_IN_PIECE
from kohort.protocol.error_codes import ErrorCode
from tests.coordinator.consumer.test_steps import CALLS_IN_PIECE, TOPICS, most_calls
from tests.coordinator.share.words import Answer, Group, a_group, next_target, with_members

MANY = 600  # partitions: the target is computed in pieces


@pytest.mark.parametrize("is_equal", [True, False])
@pytest.mark.parametrize("member_count", [1, 20])
def test_no_piece_of_a_target_takes_long(is_equal: bool, member_count: int) -> None:
    random = Random(1)
    topics = [random.randbytes(16) for _ in range(TOPICS)]
    had = dict.fromkeys(topics[::2], (0,))
    members = {
        f"m{number}": Subscriber(topics if is_equal or number % 2 else topics[1:], {} if number else had)
        for number in range(member_count)
    }
    group = SharingGroup(members, dict.fromkeys(topics, (0, 1)), is_equal)
    assert most_calls(in_pieces(assign_simply(group), STEPS_IN_PIECE)) < CALLS_IN_PIECE


def large_group(**settings: int) -> Group:
    group = a_group(MANY, **settings)
    group.join("m1")
    group.initialize()
    next_target(group)
    return group


def everything() -> Answer:
    return Answer(3, {"orders": list(range(MANY))})


def test_the_answer_waits_for_the_target_and_others_are_answered_with_the_old_one() -> None:
    group = large_group()
    assert group.beat("m1", 2) == everything()
    group.host.does_pieces_at_once = False
    next_target(group)
    call = group.send("m2", 0, subscribed_topic_names=["orders"])
    assert not call.is_answered
    assert group.beat("m1", 3) == Answer(3, None)
    group.host.does_pieces_at_once = True
    group.host.settle()
    answer = group.read(call)
    assert isinstance(answer, Answer)
    assert answer.assignment is not None
    assert (answer.epoch, len(answer.assignment["orders"])) == (group.object.epoch, MANY // 2)
    group.host.crash()
    assert group.object.assignment_epoch == group.object.epoch


def test_a_member_that_is_gone_before_its_target_is_there_is_told_so() -> None:
    group = large_group()
    group.host.does_pieces_at_once = False
    call = group.send("m1", 2)
    group.leave("m1")
    group.host.does_pieces_at_once = True
    group.host.settle()
    assert call.error == ErrorCode.UNKNOWN_MEMBER_ID
    assert (call.answer.member_epoch, call.answer.assignment) == (0, None)
    assert group.state == "Empty"
    assert not group.object.targets


def test_a_crash_while_a_target_is_written_leaves_the_old_epoch() -> None:
    group = large_group()
    group.host.does_pieces_at_once = False
    group.send("m1", 2)
    group.host.crash()
    assert group.describe().assignment_epoch == 2
    group.host.does_pieces_at_once = True
    assert group.beat("m1", 2) == everything()


def test_a_target_that_no_record_can_hold_is_refused_and_the_group_goes_on() -> None:
    group = large_group()
    group.host.runtime.limit_batches(2_000)
    call = group.send("m1", 2)
    assert call.error == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "larger than max.message.bytes" in call.answer.error_message
    assert group.object.assignment_epoch == 2


def test_a_hundred_members_share_a_partition() -> None:
    group = with_members("m0", partitions=1)
    for number in range(1, 100):
        group.join(f"m{number}")
    next_target(group)
    for number in range(100):
        group.beat(f"m{number}", group.object.members[f"m{number}"].epoch)
    members = group.object.members.values()
    assert {(member.epoch, *map(tuple, member.assigned.values())) for member in members} == {(102, (0,))}


def test_a_heartbeat_that_waits_for_a_target_changes_nothing_once_the_member_has_sent_another_one() -> None:
    group = large_group()
    group.host.does_pieces_at_once = False
    group.send("m1", 2)  # the connection breaks, and nobody hears the answer
    assert group.beat("m1", 2, subscribed_topic_names=["orders"]) == Answer(2, {})
    group.host.does_pieces_at_once = True
    group.host.settle()
    assert group.object.assignment_epoch == 3
    assert group.beat("m1", 2) == everything()
