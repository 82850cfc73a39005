"""What leaders and members may say that is wrong or too much, and must not harm a consumer group."""

from __future__ import annotations

import pytest

from kohort.coordinator.consumer.group import SPARE_INSTANCE_IDS
from kohort.coordinator.shard import Status
from kohort.protocol.error_codes import ErrorCode
from tests.coordinator.consumer.migrants import ClassicMember, settle
from tests.coordinator.consumer.words import Answer, Group, a_group, next_target
from tests.coordinator.members import complete_joins, leader_of
from tests.coordinator.support import FakeTopics, Host
from tests.group_requests import assignment_bytes

BEYOND = 99  # no topic here has so many partitions


def a_group_whose_leader_says(*assignments: dict[str, list[int]]) -> tuple[Group, list[ClassicMember]]:
    """A stable classic group. Its members have what their leader said, right or wrong."""
    group = Group(Host(topics=FakeTopics(orders=4, payments=2)))
    members = [ClassicMember(group, f"classic-{number}") for number in range(len(assignments))]
    complete_joins(group.host, list(members))
    said = {each.member_id: assignment_bytes(owned) for each, owned in zip(members, assignments, strict=True)}
    leader = leader_of(list(members))
    leader.sync(said)
    for member, owned in zip(members, assignments, strict=True):
        member.owned = owned
    assert group.host.state(group.group_id) == "Stable"
    return group, members


@pytest.mark.parametrize("wanted", [["orders"], ["orders", "payments"]], ids=["equal", "unequal"])
@pytest.mark.parametrize("partition", [BEYOND, -1, 2**31 - 1])
def test_a_partition_that_does_not_exist_is_taken_away_after_an_upgrade(wanted: list[str], partition: int) -> None:
    group, members = a_group_whose_leader_says({"orders": [0, 1, 2, 3, partition]})
    assert group.join("new", wanted) == Answer(2, {"payments": [0, 1]} if "payments" in wanted else {})
    settle(group, members, "new")
    owned = [each.assignment.topic_partitions for each in group.describe().members]
    shared_out = sorted(each for rows in owned for row in rows if row.topic_name == "orders" for each in row.partitions)
    assert shared_out == [0, 1, 2, 3]


def test_a_group_whose_leader_gave_a_partition_to_two_members_is_not_upgraded() -> None:
    group, (a, b) = a_group_whose_leader_says({"orders": [0, 1, 2]}, {"orders": [2, 3]})
    assert group.join("new") is ErrorCode.UNKNOWN_SERVER_ERROR
    assert group.host.state(group.group_id) == "Stable"
    assert [each.heartbeat() for each in (a, b)] == [ErrorCode.NONE, ErrorCode.NONE]


def test_topics_that_do_not_fit_into_a_record_of_the_log_leave_the_expression_without_topics() -> None:
    long_names = {f"{number:03}-{'x' * 240}": 1 for number in range(20)}
    group = Group(Host(topics=FakeTopics(orders=2, **long_names), max_message_bytes=4_000))
    assert group.join("m1") == Answer(2, {"orders": [0, 1]})
    next_target(group)
    assert group.join("m2", None, subscribed_topic_regex=".*") == Answer(2, {})
    shard = group.host.shard_of(group.group_id)
    assert (shard.status, group.host.disk.too_large) == (Status.ACTIVE, [])
    assert group.beat("m1", 2) == Answer(2, None)
    assert group.beat("m2", 2) == Answer(2, None)


def test_many_expressions_are_written_though_they_do_not_fit_into_one_batch() -> None:
    names = {f"{number:02}-{'x' * 90}": 1 for number in range(20)}
    group = Group(Host(topics=FakeTopics(**names), max_message_bytes=4_000))
    for number in range(5):
        group.join(f"m{number}", None, subscribed_topic_regex=f".{{{number + 1}}}.*")
    group.host.advance(10_001)
    group.beat("m0", group.object.members["m0"].epoch)
    assert group.host.disk.too_large == []
    assert len(group.object.subscriptions.resolved) == 5


def test_instance_ids_that_a_member_has_no_more_do_not_become_many() -> None:
    group = a_group()
    for number in range(3 * SPARE_INSTANCE_IDS):
        assert isinstance(group.join("m1", instance_id=f"instance-{number}"), Answer)
    assert len(group.object.static_members) <= SPARE_INSTANCE_IDS + 2
    last = f"instance-{3 * SPARE_INSTANCE_IDS - 1}"
    assert group.object.static_members[last] == "m1"
    assert group.join("m2", instance_id=last) is ErrorCode.UNRELEASED_INSTANCE_ID


def test_a_large_target_that_does_not_fit_into_a_record_of_the_log_is_refused() -> None:
    topics = [f"t{number}" for number in range(600)]
    group = Group(Host(topics=FakeTopics(**dict.fromkeys(topics, 1)), max_message_bytes=6_000))
    assert group.join("m1", topics) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert group.host.disk.too_large == []
    next_target(group)
    member = group.object.members["m1"]
    assert group.beat("m1", member.epoch, {}, subscribed_topic_names=topics[:10]) == Answer(
        member.epoch + 2, {topic: [0] for topic in sorted(topics[:10])}
    )
