"""Requests about several groups read what is durable: nobody is told of a change that a failing disk takes back."""

from __future__ import annotations

import pytest

from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.delete_groups import DeleteGroupsRequest
from kohort.protocol.messages.describe_groups import DescribeGroupsRequest
from kohort.protocol.messages.list_groups import ListGroupsRequest
from tests.coordinator.members import commit, joined
from tests.coordinator.support import Call, Host

NONE, NOT_COORDINATOR = ErrorCode.NONE, ErrorCode.NOT_COORDINATOR


@pytest.fixture
def host() -> Host:
    made = Host()
    for group_id in ("g", "h"):  # in different shards
        commit(made, group_id, {("orders", 0): 1})
    assert made.shard_of("g") is not made.shard_of("h")
    made.disk.is_slow = True
    return made


def results(call: Call) -> dict[str, ErrorCode]:
    return {each.group_id: ErrorCode(each.error_code) for each in call.answer.results}


def test_a_second_deletion_waits_for_the_first_one(host: Host) -> None:
    first, second = (host.send(DeleteGroupsRequest(["g"])) for _ in range(2))
    assert not first.is_answered
    assert not second.is_answered
    host.disk_catches_up()
    assert (results(first), results(second)) == ({"g": NONE}, {"g": ErrorCode.GROUP_ID_NOT_FOUND})


def test_a_second_deletion_is_told_to_come_again_if_the_first_one_was_not_written(host: Host) -> None:
    first, second = (host.send(DeleteGroupsRequest(["g"])) for _ in range(2))
    host.disk_fails()
    assert (results(first), results(second)) == ({"g": NOT_COORDINATOR}, {"g": NOT_COORDINATOR})
    host.load()
    assert [group.group_id for group in host.list_groups()] == ["g", "h"]


def test_a_deletion_in_two_shards_is_answered_when_both_are_written_and_in_the_order_that_was_asked(host: Host) -> None:
    call = host.send(DeleteGroupsRequest(["h", "nobody", "g", "h"]))
    host.write_one()
    host.settle()
    assert not call.is_answered
    host.disk_catches_up()
    assert list(results(call).items()) == [("h", NONE), ("nobody", ErrorCode.GROUP_ID_NOT_FOUND), ("g", NONE)]


def test_one_shard_that_fails_is_told_of_its_groups_alone(host: Host) -> None:
    call = host.send(DeleteGroupsRequest(["g", "h"]))
    host.write_one()
    host.disk_fails()
    assert sorted(results(call).values()) == [NONE, NOT_COORDINATOR]


def test_a_group_that_is_being_deleted_is_listed_when_it_is_known_to_be_gone(host: Host) -> None:
    host.send(DeleteGroupsRequest(["g"]))
    listing = host.send(ListGroupsRequest())
    assert not listing.is_answered
    host.disk_catches_up()
    assert [group.group_id for group in listing.answer.groups] == ["h"]


def test_a_list_that_rests_on_a_failed_write_is_come_again(host: Host) -> None:
    host.send(DeleteGroupsRequest(["g"]))
    listing = host.send(ListGroupsRequest())
    host.disk_fails()
    assert (listing.error, list(listing.answer.groups)) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])


def test_a_description_waits_for_the_assignment_to_be_durable() -> None:
    host = Host()
    (a,) = joined(host, "a")
    host.disk.is_slow = True
    a.sync({a.member_id: b"all"})
    described = host.send(DescribeGroupsRequest(["g"]))
    assert not described.is_answered
    host.disk_catches_up()
    (group,) = described.answer.groups
    assert (group.group_state, group.members[0].member_assignment) == ("Stable", b"all")


def test_a_description_of_an_assignment_that_was_not_written_is_come_again() -> None:
    host = Host()
    (a,) = joined(host, "a")
    host.disk.is_slow = True
    a.sync({a.member_id: b"all"})
    described = host.send(DescribeGroupsRequest(["g", "another", "g"]))
    host.disk_fails()
    errors = [(group.group_id, group.error_code) for group in described.answer.groups]
    assert errors[0] == errors[2] == ("g", NOT_COORDINATOR)
