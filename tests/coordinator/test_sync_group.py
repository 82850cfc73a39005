"""SyncGroup: its decisions in their order, and what happens to members that never send it."""

import pytest

from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.coordinator.members import Member, assign, complete_joins, joined, protocols, stable
from tests.coordinator.support import Host
from tests.group_requests import subscription

VERSIONS = range(6)


def error_answer(error: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(0, error, None, None, b"")


# --- what is wrong whatever the group is


@pytest.mark.parametrize(("kind", "name"), [(None, "range"), ("consumer", None), (None, None)])
def test_version_5_must_name_the_protocol_before_anything_else_is_looked_at(kind: str | None, name: str | None) -> None:
    answer = Host().ask(SyncGroupRequest("", 1, "m", None, kind, name), 5)
    assert answer == error_answer(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_empty_group_id_is_invalid(version: int) -> None:
    answer = Host().ask(SyncGroupRequest("", 1, "m", None, "consumer", "range"), version)
    assert answer == error_answer(ErrorCode.INVALID_GROUP_ID)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_unknown_group_knows_no_members(version: int) -> None:
    answer = Host().ask(SyncGroupRequest("g", 1, "m", None, "consumer", "range"), version)
    assert answer == error_answer(ErrorCode.UNKNOWN_MEMBER_ID)


def test_an_empty_group_knows_no_members() -> None:
    host = Host()
    (a,) = stable(host, "a")
    a.leave()
    assert a.sync().answer == error_answer(ErrorCode.UNKNOWN_MEMBER_ID)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_stranger_is_unknown_and_a_wrong_generation_illegal(version: int) -> None:
    host = Host()
    (a,) = joined(host, "a")
    assert a.sync(generation=0, version=version).answer == error_answer(ErrorCode.ILLEGAL_GENERATION)
    assert a.sync(generation=2, version=version).answer == error_answer(ErrorCode.ILLEGAL_GENERATION)
    a.member_id = "stranger"
    assert a.sync(version=version).answer == error_answer(ErrorCode.UNKNOWN_MEMBER_ID)


def test_a_pending_id_is_no_member() -> None:
    host = Host()
    joined(host, "a")
    pending = Member(host)
    pending.member_id = pending.ask_to_join().answer.member_id
    assert pending.sync(generation=1, protocol_name="range").error is ErrorCode.UNKNOWN_MEMBER_ID


def test_another_protocol_type_or_name_is_inconsistent() -> None:
    host = Host()
    (a,) = joined(host, "a")
    assert a.sync(protocol_type="connect").answer == error_answer(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    assert a.sync(protocol_name="sticky").answer == error_answer(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    assert host.state("g") == "CompletingRebalance"


def test_a_wrong_generation_is_told_before_a_wrong_protocol() -> None:
    host = Host()
    (a,) = joined(host, "a")
    assert a.sync(generation=9, protocol_name="sticky").error is ErrorCode.ILLEGAL_GENERATION


def test_during_the_join_phase_there_is_a_rebalance_in_progress() -> None:
    host = Host()
    a, b = stable(host, "a", "b")
    a.join()
    assert b.sync().answer == error_answer(ErrorCode.REBALANCE_IN_PROGRESS)


# --- while the leader assigns


@pytest.mark.parametrize("version", VERSIONS)
def test_followers_wait_for_the_leader_and_everyone_gets_its_own(version: int) -> None:
    host = Host()
    leader, follower = joined(host, "a", "b")
    waiting = follower.sync(version=version)
    assert not waiting.is_answered
    call = leader.sync(assign([leader, follower]), version=version)
    kind, name = ("consumer", "range") if version >= 5 else (None, None)
    assert call.answer == SyncGroupResponse(0, 0, kind, name, b"for a")
    assert waiting.answer == SyncGroupResponse(0, 0, kind, name, b"for b")
    assert host.state("g") == "Stable"


def test_a_follower_after_the_leader_gets_its_assignment_at_once() -> None:
    host = Host()
    leader, follower = joined(host, "a", "b")
    leader.sync(assign([leader, follower]))
    assert follower.sync().answer.assignment == b"for b"


def test_members_that_the_leader_forgot_get_nothing_and_strangers_are_ignored() -> None:
    host = Host()
    leader, follower = joined(host, "a", "b")
    waiting = follower.sync()
    leader.sync({leader.member_id: b"all", "stranger": b"something"})
    assert waiting.answer == SyncGroupResponse(0, 0, "consumer", "range", b"")
    assert {each.member_id for each in host.describe("g").members} == {leader.member_id, follower.member_id}


def test_a_sync_sent_again_replaces_the_first_which_is_never_answered() -> None:
    host = Host()
    leader, follower = joined(host, "a", "b")
    first, second = follower.sync(), follower.sync()
    leader.sync(assign([leader, follower]))
    assert not first.is_answered
    assert second.answer.assignment == b"for b"


def test_replies_wait_for_the_disk() -> None:
    host = Host()
    leader, follower = joined(host, "a", "b")
    host.disk.is_slow = True
    waiting = follower.sync()
    call = leader.sync(assign([leader, follower]))
    assert not call.is_answered
    assert not waiting.is_answered
    host.disk_catches_up()
    assert (call.answer.assignment, waiting.answer.assignment) == (b"for a", b"for b")


def test_a_follower_that_comes_while_the_assignment_is_being_written_waits_for_the_disk_too() -> None:
    host = Host()
    leader, follower = joined(host, "a", "b")
    host.disk.is_slow = True
    leader.sync(assign([leader, follower]))
    late = follower.sync()
    assert not late.is_answered
    host.disk_catches_up()
    assert late.answer.assignment == b"for b"


def test_an_assignment_that_no_log_takes_is_an_error_for_all_and_a_reason_to_rebalance() -> None:
    host = Host()
    a, b = joined(host, "a", "b")
    waiting = b.sync()
    leading = a.sync({a.member_id: bytes(1_048_588), b.member_id: b"1"})
    assert [leading.error, waiting.error] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
    assert [each.heartbeat() for each in (a, b)] == [ErrorCode.REBALANCE_IN_PROGRESS] * 2
    assert host.state("g") == "PreparingRebalance"


def test_members_with_long_client_ids_can_be_too_much_for_a_log_as_well() -> None:
    host = Host()
    members = [Member(host, name="c" * 32_000, instance_id=f"desk {number}") for number in range(40)]
    leader, *others = complete_joins(host, members)
    waiting = others[0].sync()
    assert [leader.sync({}).error, waiting.error] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2


def test_a_second_sync_of_the_leader_changes_nothing() -> None:
    host = Host()
    leader, follower = stable(host, "a", "b")
    again = leader.sync({leader.member_id: b"mine", follower.member_id: b"yours"})
    assert again.answer.assignment == b"for a"
    assert follower.sync().answer.assignment == b"for b"


def test_a_new_join_phase_answers_the_parked_syncs() -> None:
    host = Host()
    leader, follower = joined(host, "a", "b")
    waiting = follower.sync()
    Member(host, name="c").join()
    assert waiting.answer == error_answer(ErrorCode.REBALANCE_IN_PROGRESS)
    assert [each.member_assignment for each in host.describe("g").members] == [b"", b"", b""]
    assert leader.sync({}).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_new_join_phase_while_the_leader_assigns_clears_old_assignments() -> None:
    host = Host()
    leader, follower = stable(host, "a", "b")
    leader.join()
    follower.join()
    assert [each.member_assignment for each in host.describe("g").members] == [b"for a", b"for b"]  # still shown
    follower.learn().protocols = protocols("range", metadata=subscription("payments"))
    follower.join()
    assert [each.member_assignment for each in host.describe("g").members] == [b"", b""]


def test_the_parked_sync_of_a_member_that_leaves_is_answered() -> None:
    # Kafka 4.3.1 never answers it (measured). Nobody gains from a call that hangs.
    host = Host()
    _, follower = joined(host, "a", "b")
    waiting = follower.sync()
    follower.leave()
    assert waiting.answer == error_answer(ErrorCode.UNKNOWN_MEMBER_ID)


# --- members that never send it


def test_members_without_a_sync_are_gone_after_the_rebalance_timeout() -> None:
    host = Host()
    leader, follower = joined(host, "a", "b", session_timeout_ms=100_000)
    leader.sync(assign([leader, follower]))
    host.advance(29_999)
    assert (leader.heartbeat(), follower.heartbeat()) == (0, 0)
    host.advance(1)
    assert host.state("g") == "PreparingRebalance"
    assert [each.client_id for each in host.describe("g").members] == ["a"]
    assert leader.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert follower.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_when_the_leader_never_assigns_the_followers_are_asked_to_rejoin() -> None:
    host = Host()
    leader, follower = joined(host, "a", "b", session_timeout_ms=100_000)
    waiting = follower.sync()
    host.advance(30_000)
    assert waiting.answer == error_answer(ErrorCode.REBALANCE_IN_PROGRESS)
    assert leader.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    call = follower.join()
    assert (call.answer.generation_id, call.answer.leader) == (2, follower.member_id)


def test_static_members_without_a_sync_are_gone_too() -> None:
    host = Host()
    leader = Member(host, name="a", instance_id="one", session_timeout_ms=100_000)
    silent = Member(host, name="b", instance_id="two", session_timeout_ms=100_000)
    leader.join()
    silent.join()
    host.advance(6_000)
    leader.learn().sync({})
    host.advance(30_000)
    assert [each.group_instance_id for each in host.describe("g").members] == ["one"]


def test_if_nobody_sends_it_the_group_becomes_empty() -> None:
    host = Host()
    joined(host, "a", "b", session_timeout_ms=100_000)
    host.advance(30_000)
    assert host.state("g") == "Empty"
    assert host.classic("g").generation == 2


def test_once_everyone_has_sent_it_the_timer_is_off() -> None:
    host = Host()
    members = stable(host, "a", "b", session_timeout_ms=100_000)
    host.advance(90_000)
    assert host.state("g") == "Stable"
    assert [member.heartbeat() for member in members] == [0, 0]


def test_the_timer_of_one_generation_does_not_touch_the_next() -> None:
    host = Host()
    leader, follower = joined(host, "a", "b", session_timeout_ms=100_000)
    leader.sync(assign([leader, follower]))
    host.advance(20_000)
    leader.join()
    follower.join()
    leader.learn().sync(assign([leader, follower]))
    follower.learn().sync()
    host.advance(20_000)
    assert host.state("g") == "Stable"
    assert follower.heartbeat() is ErrorCode.NONE
