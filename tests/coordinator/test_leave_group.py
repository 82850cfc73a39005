"""LeaveGroup: members go, by themselves or sent by an administrator."""

import pytest

from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.leave_group import LeaveGroupResponse, MemberResponse
from tests.coordinator.members import Member, joined, leave, stable, static_members
from tests.coordinator.support import Call, Host

NONE = ErrorCode.NONE
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID


def results(call: Call) -> list[tuple[str, str | None, int]]:
    assert call.error is NONE
    return [(each.member_id, each.group_instance_id, each.error_code) for each in call.answer.members]


@pytest.mark.parametrize("version", range(6))
def test_an_empty_group_id_is_invalid_at_the_top(version: int) -> None:
    call = leave(Host(), "", ("m", None), version=version)
    assert call.answer == LeaveGroupResponse(0, ErrorCode.INVALID_GROUP_ID, [])


@pytest.mark.parametrize("version", range(3))
def test_before_version_3_the_one_members_error_stands_at_the_top(version: int) -> None:
    host = Host()
    assert leave(host, "g", ("m", None), version=version).answer == LeaveGroupResponse(0, UNKNOWN, [])
    (a,) = stable(host, "a")
    assert leave(host, "g", ("m", None), version=version).answer == LeaveGroupResponse(0, UNKNOWN, [])
    assert leave(host, "g", (a.member_id, None), version=version).answer == LeaveGroupResponse(0, 0, [])


@pytest.mark.parametrize("version", range(3, 6))
def test_an_unknown_group_knows_none_of_them(version: int) -> None:
    call = leave(Host(), "g", ("m", None), ("", "desk"), version=version)
    assert results(call) == [("m", None, UNKNOWN), ("", "desk", UNKNOWN)]


def test_a_list_of_nobody_is_fine() -> None:
    host = Host()
    assert leave(host, "g", version=3).answer == LeaveGroupResponse(0, 0, [])
    stable(host, "a")
    assert leave(host, "g", version=3).answer == LeaveGroupResponse(0, 0, [])
    assert host.state("g") == "Stable"


@pytest.mark.parametrize("version", range(3, 6))
def test_each_entry_has_its_own_result_in_order(version: int) -> None:
    host = Host()
    one, _, three = static_members(host, "one", "two", "three")
    call = leave(
        host, "g", (one.member_id, None), ("", "two"), ("", "ghost"), (three.member_id, "one"), ("stranger", None),
        (one.member_id, None), ("", None), version=version,
    )  # fmt: skip
    assert [error for _, _, error in results(call)] == [0, 0, 25, 25, 25, 25, 25]
    assert call.answer.members[1] == MemberResponse("", "two", 0)
    assert [each.group_instance_id for each in host.describe("g").members] == ["three"]


def test_an_id_with_another_members_instance_is_fenced() -> None:
    host = Host()
    one, _ = static_members(host, "one", "two")
    assert results(leave(host, "g", (one.member_id, "two"))) == [(one.member_id, "two", ErrorCode.FENCED_INSTANCE_ID)]


def test_a_static_member_may_leave_by_its_id_alone() -> None:
    host = Host()
    one, _ = static_members(host, "one", "two")
    assert results(leave(host, "g", (one.member_id, None))) == [(one.member_id, None, NONE)]


def test_a_pending_id_can_leave() -> None:
    host = Host()
    pending = Member(host)
    pending.member_id = pending.ask_to_join().answer.member_id
    assert results(leave(host, "g", (pending.member_id, None))) == [(pending.member_id, None, NONE)]
    assert pending.ask_to_join().error is UNKNOWN


def test_the_others_are_asked_to_rejoin() -> None:
    host = Host()
    a, b, c = stable(host, "a", "b", "c")
    assert a.leave() is NONE
    assert (b.heartbeat(), c.heartbeat()) == (27, 27)
    b.join()
    call = c.join()
    assert call.answer.generation_id == 2
    assert a.heartbeat() is UNKNOWN


def test_several_that_leave_at_once_cause_one_rebalance() -> None:
    host = Host()
    a, b, c = stable(host, "a", "b", "c")
    leave(host, "g", (a.member_id, None), (b.member_id, None))
    assert host.state("g") == "PreparingRebalance"
    call = c.join()
    assert (call.answer.generation_id, len(call.answer.members)) == (2, 1)


def test_a_leave_while_the_leader_assigns_begins_a_new_join_phase() -> None:
    host = Host()
    a, b = joined(host, "a", "b")
    waiting = b.sync()
    a.leave()
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    call = b.join()
    assert (call.answer.generation_id, call.answer.leader) == (2, b.member_id)


def test_a_parked_join_of_who_leaves_is_told_that_it_is_unknown() -> None:
    host = Host()
    a, _ = stable(host, "a", "b")
    parked = a.join()
    a.leave()
    assert (parked.error, parked.answer.member_id) == (UNKNOWN, "")


def test_failures_alone_cause_no_rebalance() -> None:
    host = Host()
    stable(host, "a")
    leave(host, "g", ("stranger", None))
    assert host.state("g") == "Stable"


def test_the_answer_does_not_wait_for_the_rebalance() -> None:
    host = Host()
    a, _ = stable(host, "a", "b")
    call = leave(host, "g", (a.member_id, None))
    assert call.is_answered
    assert host.state("g") == "PreparingRebalance"


def test_who_leaves_an_empty_group_behind_waits_for_the_disk() -> None:
    host = Host()
    (a,) = stable(host, "a")
    host.disk.is_slow = True
    call = leave(host, "g", (a.member_id, None))
    assert not call.is_answered
    host.disk_catches_up()
    assert call.error is NONE
    _, _, value = host.records_of("g")[-1]
    assert (value.protocol_type, value.generation, value.protocol, value.leader) == ("consumer", 2, None, None)
    assert list(value.members) == []


def test_a_leave_that_is_not_written_is_told_to_come_again() -> None:
    host = Host()
    (a,) = stable(host, "a")
    host.disk.is_slow = True
    call = leave(host, "g", (a.member_id, None))
    host.disk_fails()
    assert call.answer == LeaveGroupResponse(0, ErrorCode.NOT_COORDINATOR, [])
    host.load()
    assert a.heartbeat() is NONE
