"""The way of share partitions: missing, initializing, initialized; and what a group does when that goes wrong."""

from __future__ import annotations

from kohort.coordinator.share.records import NO_STATES, PartitionStates, Ready
from kohort.protocol.error_codes import ErrorCode
from tests.coordinator.share.words import Answer, Group, a_group, next_target, with_members

EARLIER_RETRY_MS = 29_999


def shown(group: Group) -> tuple[dict[str, tuple[int, ...]], dict[str, tuple[int, ...]]]:
    """What is initializing and what is initialized, by topic."""
    states = group.object.states
    return (
        {topic.name: topic.partitions for topic in states.initializing.values()},
        {topic.name: topic.partitions for topic in states.initialized.values()},
    )


def test_success_makes_partitions_initialized_and_a_failure_forgets_that_they_were_being_initialized() -> None:
    group = a_group()
    group.join("m1")
    assert shown(group) == ({"orders": (0, 1, 2)}, {})
    group.initialize(ErrorCode.NOT_COORDINATOR)
    assert shown(group) == ({}, {})
    assert group.asked == []
    assert group.beat("m1", 2) == Answer(2, None)  # and asks again at once
    assert group.asked_partitions() == [(2, {"orders": [0, 1, 2]})]
    group.initialize()
    assert shown(group) == ({}, {"orders": (0, 1, 2)})
    assert [kind for kind in group.types() if kind == 15] == [15] * 4


def test_while_an_answer_is_awaited_nobody_asks_again_for_30_seconds() -> None:
    group = a_group()
    group.join("m1")
    group.host.advance(EARLIER_RETRY_MS)
    group.beat("m1", 2)
    assert len(group.asked) == 1
    group.host.advance(1)
    group.beat("m1", 2)
    assert group.asked_partitions() == [(2, {"orders": [0, 1, 2]})] * 2
    group.host.advance(EARLIER_RETRY_MS)
    group.beat("m1", 2)
    assert len(group.asked) == 2  # each time counts from the last question
    group.initialize()  # both answers come
    assert shown(group) == ({}, {"orders": (0, 1, 2)})


def test_after_a_restart_the_question_is_asked_again_at_once() -> None:
    group = a_group()
    group.join("m1")
    group.host.events.clear()  # the process that had asked is gone
    group.host.crash()
    group.beat("m1", 2)
    assert group.asked_partitions() == [(2, {"orders": [0, 1, 2]})]


def test_the_share_coordinator_is_asked_once_the_log_has_it() -> None:
    group = a_group()
    group.host.disk.is_slow = True
    group.send("m1", 0, subscribed_topic_names=["orders"])
    assert group.asked == []
    group.host.disk_catches_up()
    assert len(group.asked) == 1


def test_a_topic_that_is_created_later_is_initialized_with_the_next_heartbeat() -> None:
    group = a_group()
    group.join("m1", ["orders", "later"])
    group.initialize()
    next_target(group)
    group.beat("m1", 2)
    group.host.advance(1_000)
    assert group.beat("m1", 3) == Answer(3, None)
    group.host.topics.create("later", 2)
    assert group.beat("m1", 3) == Answer(4, None)
    assert group.asked_partitions() == [(4, {"later": [0, 1]})]
    group.initialize()
    next_target(group)
    assert group.beat("m1", 4) == Answer(5, {"later": [0, 1], "orders": [0, 1, 2]})


def test_of_a_topic_that_grows_only_the_new_partitions_are_initialized() -> None:
    group = with_members("m1", partitions=2)
    group.host.topics.grow("orders", 4)
    assert group.beat("m1", 3) == Answer(4, None)
    assert group.asked_partitions() == [(4, {"orders": [2, 3]})]
    assert shown(group) == ({"orders": (2, 3)}, {"orders": (0, 1)})
    group.initialize()
    next_target(group)
    assert group.beat("m1", 4) == Answer(5, {"orders": [0, 1, 2, 3]})


def test_a_topic_that_nobody_wants_any_more_stays_initialized() -> None:
    group = with_members("m1")
    group.beat("m1", 3, subscribed_topic_names=["payments"])
    group.initialize()
    assert shown(group)[1] == {"orders": (0, 1, 2), "payments": (0, 1)}
    next_target(group)
    assert group.beat("m1", 4) == Answer(5, {"payments": [0, 1]})
    assert group.beat("m1", 5) == Answer(5, None)
    epoch = group.describe().group_epoch
    for _ in range(3):
        next_target(group)
        group.beat("m1", 5)
    assert group.describe().group_epoch == epoch == 5


def test_a_deleted_topic_is_forgotten_and_its_successor_is_initialized_anew() -> None:
    group = with_members("m1")
    size = len(group.log())
    group.host.delete_topic("orders")
    assert group.object.states == NO_STATES
    assert group.types(start=size) == [15]
    assert group.beat("m1", 3) == Answer(4, {})
    group.host.topics.create("orders", 1)
    next_target(group)
    assert group.beat("m1", 4) == Answer(5, None)
    assert group.asked_partitions() == [(5, {"orders": [0]})]


def test_a_topic_that_is_deleted_while_it_is_initialized_is_not_heard_of_again() -> None:
    group = a_group()
    group.join("m1")
    (event,) = group.asked
    group.host.delete_topic("orders")
    size = len(group.log())
    group.answer(event)
    assert group.object.states == NO_STATES
    assert group.types(start=size) == []


def test_an_answer_for_a_group_that_is_gone_changes_nothing() -> None:
    group = a_group()
    group.join("m1")
    (event,) = group.asked
    group.leave("m1")
    assert group.host.delete("work") == {"work": ErrorCode.NONE}
    group.answer(event)
    assert group.host.list_groups() == []


def test_only_initialized_partitions_are_assigned() -> None:
    group = with_members("m1")
    group.host.advance(1_000)
    assert group.beat("m1", 3, subscribed_topic_names=["orders", "payments"]) == Answer(4, {"orders": [0, 1, 2]})
    assert group.beat("m1", 4) == Answer(4, None)
    assert group.object.targets["m1"].keys() == {group.host.topics.topic_id("orders")}


def test_the_record_of_initialized_partitions_stays_within_a_batch() -> None:
    names = [f"t{number}" for number in range(40)]
    group = a_group(max_message_bytes=2_000)
    for name in names:
        group.host.topics.create(name, 4)
    for number in range(5):
        some = names[number * 8 : number * 8 + 8]
        answer = group.join(f"m{number}", some)
        assert isinstance(answer, Answer)
        group.initialize()
    states = group.object.states
    assert 5 < len(states.initialized) < 40
    group.host.crash()
    assert group.object.states == states


def test_the_states_say_what_the_record_says() -> None:
    group = with_members("m1", partitions=2)
    topic_id = group.host.topics.topic_id("orders")
    assert topic_id is not None
    assert group.object.states == PartitionStates({}, {topic_id: Ready("orders", (0, 1))}, {})
    value = group.log()[-1][2]
    (record,) = [value for kind, _, value in group.log() if kind == 15][-1:]
    assert [(each.topic_name, list(each.partitions)) for each in record.initialized_topics] == [("orders", [0, 1])]
    assert value is not None


def test_a_topic_whose_deletion_was_not_written_down_before_a_crash_does_no_harm() -> None:
    group = with_members("m1")
    group.host.topics.delete("orders")  # the broker ends before the group is told
    group.host.crash()
    group.host.topics.create("orders", 1)
    assert group.beat("m1", 3) == Answer(4, {})
    group.initialize()
    assert shown(group) == ({}, {"orders": (0,)})
    next_target(group)
    group.beat("m1", 4)
    group.host.advance(1_000)
    assert group.beat("m1", 5) == Answer(5, None)
    assert group.describe().group_epoch == 5
