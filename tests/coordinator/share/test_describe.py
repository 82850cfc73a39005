"""ShareGroupDescribe, and what other APIs say of a share group."""

from __future__ import annotations

from kohort.coordinator.group import ALL_OPERATIONS, NOT_ASKED
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kohort.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from tests.coordinator.members import Member, commit, delete_offsets, errors_of, fetch, leave
from tests.coordinator.share.words import a_group, with_members
from tests.coordinator.support import Host

NOT_FOUND = ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_is_described_with_its_epochs_members_and_what_they_have() -> None:
    group = with_members("m1")
    group.beat("m1", 3, rack_id="r1")
    described = group.describe()
    assert (described.error_code, described.group_state, described.assignor_name) == (0, "Stable", "simple")
    assert (described.group_epoch, described.assignment_epoch) == (3, 3)
    assert described.authorized_operations == NOT_ASKED
    (member,) = described.members
    assert (member.member_id, member.rack_id, member.member_epoch) == ("m1", "r1", 3)
    assert (member.client_id, member.client_host) == ("client", "/10.0.0.7")
    assert list(member.subscribed_topic_names) == ["orders"]
    (topic,) = member.assignment.topic_partitions
    assert (topic.topic_id, topic.topic_name) == (group.host.topics.topic_id("orders"), "orders")
    assert list(topic.partitions) == [0, 1, 2]


def test_deleted_topics_are_left_out() -> None:
    group = with_members("m1")
    group.host.delete_topic("orders")
    assert list(group.describe().members[0].assignment.topic_partitions) == []


def test_operations_are_told_if_asked_for() -> None:
    group = a_group()
    group.join("m1")
    (described,) = group.host.ask(ShareGroupDescribeRequest(["work"], True)).groups
    assert described.authorized_operations == ALL_OPERATIONS


def test_groups_that_cannot_be_described_have_an_error_each() -> None:
    group = a_group()
    group.join("m1")
    Member(group.host, "classic").join()
    answer = group.host.ask(ShareGroupDescribeRequest(["nobody", "classic", "", "work"]))
    assert [(each.group_id, each.error_code, each.error_message) for each in answer.groups] == [
        ("nobody", NOT_FOUND, "Group nobody not found."),
        ("classic", NOT_FOUND, "Group classic is not a share group."),
        ("", ErrorCode.INVALID_GROUP_ID, None),
        ("work", 0, None),
    ]


def test_while_the_shard_is_loading_or_fails_the_group_has_an_error() -> None:
    (described,) = Host(load=False).ask(ShareGroupDescribeRequest(["work"])).groups
    assert described.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    group = with_members("m1")
    group.host.disk.is_slow = True
    group.send("m2", 0, subscribed_topic_names=["orders"])
    call = group.host.send(ShareGroupDescribeRequest(["work"]))
    assert not call.is_answered  # what it shows is not durable yet
    group.host.disk_fails()
    assert call.answer.groups[0].error_code == ErrorCode.NOT_COORDINATOR


def test_share_groups_are_listed_by_type_and_state() -> None:
    group = with_members("m1")
    for states, types in (([], ["share"]), (["Stable"], ["Share"]), (["stable"], [])):
        (listed,) = group.host.list_groups(states, types)
        assert (listed.group_id, listed.protocol_type, listed.group_state, listed.group_type) == (
            "work", "share", "Stable", "share",
        )  # fmt: skip
    assert group.host.list_groups(["empty"], ["share"]) == []


# --- APIs of other kinds of groups


def test_members_of_other_protocols_are_turned_away() -> None:
    group = with_members("m1")
    host = group.host
    assert Member(host, "work").ask_to_join().error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    request = ConsumerGroupHeartbeatRequest("work", "m1", 0, topic_partitions=[])
    request.rebalance_timeout_ms, request.subscribed_topic_names = 60_000, ["orders"]
    assert host.send(request).error == NOT_FOUND
    assert host.send(HeartbeatRequest("work", 3, "m1")).error == ErrorCode.UNKNOWN_MEMBER_ID
    assert leave(host, "work", ("m1", None)).answer.members[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.state == "Stable"
    group.leave("m1")
    assert Member(host, "work").ask_to_join().error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_share_group_has_no_committed_offsets() -> None:
    group = with_members("m1")
    host, place = group.host, ("orders", 0)
    assert errors_of(commit(host, "work", {place: 7}))[place] == NOT_FOUND
    assert errors_of(commit(host, "work", {place: 7}, member_id="m1", generation=3))[place] == NOT_FOUND
    assert fetch(host, "work") == {}
    assert delete_offsets(host, "work", place).error == NOT_FOUND


def test_apis_that_describe_other_kinds_do_not_know_it() -> None:
    group = with_members("m1")
    assert group.host.describe("work").error_code == NOT_FOUND
    assert group.host.describe("work", 5).group_state == "Dead"
    (described,) = group.host.ask(ConsumerGroupDescribeRequest(["work"])).groups
    assert (described.error_code, described.error_message) == (NOT_FOUND, "Group work is not a consumer group.")


def test_a_group_with_members_is_not_deleted_and_an_empty_one_leaves_tombstones_of_everything() -> None:
    group = with_members("m1")
    assert group.host.delete("work") == {"work": ErrorCode.NON_EMPTY_GROUP}
    group.leave("m1")
    size = len(group.log())
    assert group.host.delete("work") == {"work": ErrorCode.NONE}
    assert group.types(start=size) == [-12, -15, -11]
    for _ in range(2):
        assert group.host.list_groups() == []
        assert group.host.delete("work") == {"work": NOT_FOUND}
        group.host.crash()
