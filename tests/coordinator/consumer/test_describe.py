"""ConsumerGroupDescribe, and what the other APIs say of a consumer group."""

from __future__ import annotations

from kohort.coordinator.group import ALL_OPERATIONS, NOT_ASKED
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from kohort.protocol.messages.describe_groups import DescribeGroupsRequest
from tests.coordinator.consumer.words import Group, a_group, next_target
from tests.coordinator.members import stable
from tests.coordinator.support import Host


def describe(host: Host, *group_ids: str, version: int = 1, operations: bool = False) -> list[DescribedGroup]:
    return list(host.ask(ConsumerGroupDescribeRequest(list(group_ids), operations), version).groups)


def test_everything_about_a_group_and_its_members() -> None:
    group = a_group()
    orders = group.host.topics.topic_id("orders") or b""
    group.join("m1", rack_id="r1", instance_id="i1")
    next_target(group)
    group.join("m2")
    group.beat("m1", 2, instance_id="i1")
    assert group.describe() == DescribedGroup(
        0, None, "billing", "Reconciling", 3, 3, "uniform",
        [
            Member(
                "m1", "i1", "r1", 2, "client", "/10.0.0.7", ["orders"], "",
                Assignment([TopicPartitions(orders, "orders", [0, 1, 2])]),  # with what is to be given up
                Assignment([TopicPartitions(orders, "orders", [0, 1])]), 1,
            ),
            Member(
                "m2", None, None, 3, "client", "/10.0.0.7", ["orders"], "",
                Assignment([]), Assignment([TopicPartitions(orders, "orders", [2])]), 1,
            ),
        ],
        NOT_ASKED,
    )  # fmt: skip


def test_the_kind_of_a_member_is_told_from_version_1_on() -> None:
    group = a_group()
    group.join("m1")
    assert [group.describe(version).members[0].member_type for version in (0, 1)] == [-1, 1]


def test_a_regular_expression_is_shown() -> None:
    group = a_group()
    group.join("m1", None, subscribed_topic_regex="ord.*")
    (member,) = group.describe().members
    assert (list(member.subscribed_topic_names), member.subscribed_topic_regex) == ([], "ord.*")


def test_operations_are_told_to_those_who_ask() -> None:
    group = a_group()
    group.join("m1")
    assert describe(group.host, "billing", operations=True)[0].authorized_operations == ALL_OPERATIONS


def test_topics_that_are_gone_are_left_out() -> None:
    group = a_group()
    group.join("m1")
    group.host.delete_topic("orders")
    (member,) = group.describe().members
    assert (list(member.assignment.topic_partitions), list(member.target_assignment.topic_partitions)) == ([], [])
    assert list(member.subscribed_topic_names) == ["orders"]


def test_what_is_no_consumer_group() -> None:
    host = Host()
    stable(host, "a", group_id="classic")
    nameless, missing, classic = describe(host, "", "missing", "classic")
    assert (nameless.error_code, nameless.group_id, nameless.error_message) == (ErrorCode.INVALID_GROUP_ID, "", None)
    assert (missing.error_code, missing.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND, "Group missing not found."
    )  # fmt: skip
    assert (classic.error_code, classic.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND, "Group classic is not a consumer group."
    )  # fmt: skip


def test_a_group_that_is_named_twice_is_described_twice() -> None:
    group = a_group()
    group.join("m1")
    assert [each.group_id for each in describe(group.host, "billing", "x", "billing")] == ["billing", "x", "billing"]


def test_only_what_is_durable_is_described() -> None:
    group = a_group()
    group.join("m1")
    group.host.disk.is_slow = True
    group.send("m2", 0, {}, rebalance_timeout_ms=1, subscribed_topic_names=["orders"])
    call = group.host.send(ConsumerGroupDescribeRequest(["billing"]))
    assert not call.is_answered
    group.host.disk_catches_up()
    assert len(call.answer.groups[0].members) == 2


def test_with_the_protocol_switched_off_nothing_is_described() -> None:
    group = a_group(consumer_enabled=False)
    assert group.describe().error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_shard_that_is_loading_says_so() -> None:
    host = Host(load=False)
    (described,) = describe(host, "billing")
    assert described.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


# --- the states


def test_the_states_of_a_group() -> None:
    group = a_group()
    group.join("m1")
    seen = [group.state]
    group.join("m2")
    seen.append(group.state)
    next_target(group)
    group.beat("m2", 2)
    seen.append(group.state)
    group.beat("m1", 2)
    group.beat("m1", 2, {"orders": [0, 1]})
    group.beat("m2", 3)
    seen.append(group.state)
    group.leave("m1")
    seen.append(group.state)
    group.leave("m2")
    seen.append(group.state)
    assert seen == ["Stable", "Assigning", "Reconciling", "Stable", "Assigning", "Empty"]


# --- other APIs


def test_a_consumer_group_is_listed_by_its_type_and_state() -> None:
    group = a_group()
    group.join("m1")
    stable(group.host, "a", group_id="classic")
    (listed,) = group.host.list_groups(types=["consumer"])
    assert (listed.group_id, listed.protocol_type, listed.group_state, listed.group_type) == (
        "billing", "consumer", "Stable", "consumer"
    )  # fmt: skip
    assert [each.group_id for each in group.host.list_groups(types=["CONSUMER"], states=["STABLE"])] == ["billing"]
    assert group.host.list_groups(states=["Reconciling"]) == []
    assert group.host.list_groups(types=["nonsense"]) == []


def test_describe_groups_does_not_know_it() -> None:
    group = a_group()
    group.join("m1")
    (old,) = group.host.ask(DescribeGroupsRequest(["billing"], True), 5).groups
    assert (old.error_code, old.group_state, old.authorized_operations) == (0, "Dead", ALL_OPERATIONS)
    (new,) = group.host.ask(DescribeGroupsRequest(["billing"]), 6).groups
    assert (new.error_code, new.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")


def test_only_a_group_without_members_can_be_deleted() -> None:
    group = a_group()
    group.join("m1")
    group.join("m2", None, subscribed_topic_regex="ord.*")
    assert group.host.delete("billing") == {"billing": ErrorCode.NON_EMPTY_GROUP}
    group.leave("m1")
    group.leave("m2")
    assert group.host.delete("billing") == {"billing": ErrorCode.NONE}
    assert [kind for kind, value in group.types()[-4:] if not value] == [6, 4, 3]
    assert group.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    group.host.crash()
    assert group.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert Group(group.host).join("m1") is not None
