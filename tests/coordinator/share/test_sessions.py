"""Sessions of members, the fast path of their heartbeats, and what settings do to both."""

from __future__ import annotations

from kohort.coordinator.config import ShareGroupSettings
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.coordinator.share.words import Answer, Group, a_group, with_members

UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID


def has_pulse(group: Group, member_id: str, epoch: int) -> bool:
    return group.host.runtime.pulse(ShareGroupHeartbeatRequest(group.group_id, member_id, epoch)) is not None


def test_each_heartbeat_begins_the_session_anew() -> None:
    group = with_members("m1")
    group.beat("m1", 3)
    for _ in range(5):
        group.host.advance(44_999)
        assert group.beat("m1", 3) == Answer(3, None)
    group.host.advance(45_000)
    assert group.beat("m1", 3) == UNKNOWN


def test_a_session_that_ends_is_like_a_leave() -> None:
    group = with_members("m1", "m2", partitions=2)
    epoch = group.object.epoch
    group.host.advance(30_000)
    group.beat("m2", epoch)
    size = len(group.log())
    group.host.advance(15_000)
    assert group.types(start=size) == [-14, -13, -10, 11]
    assert group.beat("m2", epoch) == Answer(epoch + 1, {"orders": [0, 1]})


def test_after_a_restart_members_have_a_whole_session_to_report() -> None:
    group = with_members("m1")
    group.host.advance(40_000)
    group.host.crash()
    group.host.advance(44_999)
    assert group.beat("m1", 3) == Answer(3, None)
    group.host.crash()
    group.host.advance(45_000)
    assert group.state == "Empty"


def test_the_groups_own_session_timeout_holds_from_the_next_heartbeat_on() -> None:
    group = with_members("m1")
    share = group.host.runtime.share
    share.change_group("work", ShareGroupSettings(session_timeout_ms=50_000))
    assert group.beat("m1", 3) == Answer(3, None)
    group.host.advance(49_999)
    assert group.state == "Stable"
    share.change_group("work", ShareGroupSettings(session_timeout_ms=1_000))
    assert group.beat("m1", 3) == Answer(3, None)
    group.host.advance(1_000)
    assert group.state == "Empty"


def test_the_groups_own_assignment_interval_holds_at_once() -> None:
    group = a_group()
    group.host.runtime.share.change_group("work", ShareGroupSettings(assignment_interval_ms=0))
    group.join("m1")
    group.initialize()
    assert group.beat("m1", 2) == Answer(3, {"orders": [0, 1, 2]})


# --- the fast path


def test_a_member_at_rest_has_a_fast_path_until_something_happens() -> None:
    group = with_members("m1", "m2")
    epoch = group.object.epoch
    assert has_pulse(group, "m1", epoch)
    assert not has_pulse(group, "m1", epoch - 1)
    assert not has_pulse(group, "m3", epoch)
    group.leave("m2")
    assert not has_pulse(group, "m1", epoch)


def test_while_partitions_are_being_initialized_there_is_no_fast_path() -> None:
    group = a_group()
    group.join("m1")
    group.host.advance(1_000)
    assert group.beat("m1", 2) == Answer(2, None)
    assert not has_pulse(group, "m1", 2)


def test_the_fast_path_sees_topics_that_come_and_grow() -> None:
    group = with_members("m1", partitions=2)
    group.host.advance(1_000)
    assert group.beat("m1", 3) == Answer(3, None)
    group.host.topics.grow("orders", 3)
    assert group.beat("m1", 3) == Answer(4, None)


def test_the_fast_path_keeps_the_session_and_sees_its_end() -> None:
    group = with_members("m1")
    for _ in range(10):
        group.host.advance(40_000)
        assert group.beat("m1", 3) == Answer(3, None)
    group.host.advance(45_000)
    assert group.beat("m1", 3) == UNKNOWN


def test_the_fast_path_answers_as_the_usual_way_does() -> None:
    """The same story, known again or not."""
    stories = []
    for knows_again in (True, False):
        group = with_members("m1", "m2", knows_again=knows_again)
        epoch = group.object.epoch
        story = [group.beat("m1", epoch) for _ in range(3)]
        group.join("m3")
        story += [group.beat("m1", epoch) for _ in range(2)]
        group.host.advance(1_000)
        story += [group.beat("m1", group.object.members["m1"].epoch) for _ in range(3)]
        group.leave("m2")
        story += [group.beat("m1", group.object.members["m1"].epoch) for _ in range(3)]
        stories.append(story)
    assert stories[0] == stories[1]
