"""Static members (KIP-345): an instance that comes back takes its old place; whoever held it is fenced."""

import pytest

from kohort.protocol.error_codes import ErrorCode
from tests.coordinator.members import (
    Member,
    assign,
    complete_joins,
    errors_of,
    leave,
    protocols,
    static_members,
)
from tests.coordinator.support import Call, Host
from tests.group_requests import subscription

NONE = ErrorCode.NONE
FENCED = ErrorCode.FENCED_INSTANCE_ID
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID


def comes_back(host: Host, old: Member, version: int = 9, **how: object) -> tuple[Member, Call]:
    """A new process of the same instance, without an id."""
    new = Member(host, old.group_id, old.name, instance_id=old.instance_id, version=version, **how)  # type: ignore[arg-type]
    return new, new.join()


def leader_of(members: list[Member]) -> Member:
    return next(member for member in members if member.is_leader)


# --- in Stable


def test_metadata_that_no_log_takes_does_not_get_there_without_a_rebalance() -> None:
    host = Host()
    one, two = static_members(host, "one", "two")
    _, call = comes_back(host, two, protocols=protocols("range", metadata=bytes(1_048_588)))
    assert not call.is_answered
    assert host.state("g") == "PreparingRebalance"
    one.join()
    assert (call.error, call.answer.generation_id) == (NONE, 2)
    assert one.learn().sync({}).error is ErrorCode.UNKNOWN_SERVER_ERROR


def test_in_stable_it_takes_over_without_a_rebalance() -> None:
    host = Host()
    _, old = static_members(host, "one", "two")
    new, call = comes_back(host, old)
    assert (call.error, call.answer.generation_id) == (NONE, 1)
    assert new.member_id != old.member_id
    assert new.member_id.startswith("two-")
    assert host.state("g") == "Stable"
    assert new.sync().answer.assignment == b"for two"


def test_even_with_other_metadata_there_is_no_rebalance() -> None:
    host = Host()
    _, old = static_members(host, "one", "two")
    _, call = comes_back(host, old, protocols=protocols("range", metadata=subscription("payments")))
    assert (call.error, host.state("g")) == (NONE, "Stable")
    assert host.describe("g").members[1].member_metadata == subscription("payments")


def test_the_replacement_is_written_before_it_is_answered() -> None:
    host = Host()
    leader, old = static_members(host, "one", "two")
    host.disk.is_slow = True
    new, call = comes_back(host, old)
    assert not call.is_answered
    host.disk_catches_up()
    _, _, value = host.records_of("g")[-1]
    assert (value.generation, value.leader) == (1, leader.member_id)
    saved = {each.group_instance_id: (each.member_id, each.assignment) for each in value.members}
    assert saved["two"] == (new.learn().member_id, b"for two")
    assert saved["one"] == (leader.member_id, b"for one")


def test_in_version_9_a_leader_that_comes_back_skips_the_assignment_and_gets_the_member_list() -> None:
    host = Host()
    members = static_members(host, "one", "two")
    new, call = comes_back(host, leader_of(members))
    assert call.answer.leader == new.member_id
    assert call.answer.skip_assignment is True
    assert {each.group_instance_id for each in call.answer.members} == {"one", "two"}


def test_in_version_9_a_follower_that_comes_back_sees_the_current_leader() -> None:
    host = Host()
    leader, old = static_members(host, "one", "two")
    _, call = comes_back(host, old)
    assert (call.answer.leader, call.answer.skip_assignment) == (leader.member_id, False)
    assert list(call.answer.members) == []


@pytest.mark.parametrize("version", range(5, 9))
def test_before_version_9_a_leader_that_comes_back_sees_the_id_it_had_and_no_members(version: int) -> None:
    host = Host()
    members = static_members(host, "one", "two")
    old = leader_of(members)
    new, call = comes_back(host, old, version)
    assert (call.answer.leader, list(call.answer.members)) == (old.member_id, [])
    assert new.member_id != old.member_id


def test_the_new_id_inherits_the_leadership() -> None:
    host = Host()
    leader, _ = static_members(host, "one", "two")
    new, _ = comes_back(host, leader)
    assert host.classic("g").leader_id == new.member_id


def test_client_id_and_host_stay_those_of_the_first() -> None:
    # Measured on Kafka 4.3.1.
    host = Host()
    (old,) = static_members(host, "one")
    new = Member(host, name="other-client", instance_id="one")
    assert new.join().error is NONE
    (described,) = host.describe("g").members
    assert (described.member_id, described.client_id) == (new.member_id, "one")
    assert old.member_id != new.member_id


def test_timeouts_are_those_of_the_new_request_and_the_session_starts_anew() -> None:
    host = Host()
    (old,) = static_members(host, "one")
    host.advance(9_000)
    new, _ = comes_back(host, old, session_timeout_ms=20_000)
    host.advance(19_999)
    assert new.heartbeat() is NONE
    host.advance(20_000)
    assert host.state("g") == "Empty"


def test_if_the_choice_of_protocol_changes_there_is_a_rebalance() -> None:
    host = Host()
    members = [
        Member(host, name=name, instance_id=name, protocols=protocols("range", "sticky")) for name in ("one", "two")
    ]
    complete_joins(host, members)
    leader, old = members
    leader.sync(assign(members))
    old.sync()
    assert host.describe("g").protocol_data == "range"
    _, call = comes_back(host, old, protocols=protocols("sticky"))
    assert not call.is_answered
    assert host.state("g") == "PreparingRebalance"
    leader.join()
    assert (call.answer.generation_id, call.answer.protocol_name) == (2, "sticky")


def test_a_replacement_that_cannot_be_written_is_told_to_come_again() -> None:
    host = Host()
    _, old = static_members(host, "one", "two")
    host.disk.is_slow = True
    _, call = comes_back(host, old)
    host.disk_fails()
    assert (call.error, call.answer.member_id) == (ErrorCode.NOT_COORDINATOR, "")
    host.load()
    assert old.heartbeat() is NONE  # as if it had never been


# --- in the other states


def test_while_the_leader_assigns_a_replacement_begins_a_new_join_phase() -> None:
    host = Host()
    leader, old = (Member(host, name=name, instance_id=name) for name in ("one", "two"))
    complete_joins(host, [leader, old])
    waiting = old.sync()
    _, call = comes_back(host, old)
    assert waiting.error is FENCED
    assert not call.is_answered
    assert host.state("g") == "PreparingRebalance"
    leader.join()
    assert call.answer.generation_id == 2


def test_during_the_join_phase_a_replacement_is_parked_and_the_old_join_is_fenced() -> None:
    host = Host()
    leader, old = static_members(host, "one", "two")
    old.protocols = protocols("range", metadata=subscription("payments"))
    parked = old.join()
    new, call = comes_back(host, old)
    answer = parked.answer
    assert (answer.error_code, answer.member_id, answer.leader) == (FENCED, old.member_id, "")
    assert (answer.generation_id, answer.protocol_name, list(answer.members)) == (-1, None, [])
    assert not call.is_answered
    leader.join()
    assert call.answer.generation_id == 2
    assert new.learn().member_id != old.member_id


def test_during_the_first_wait_a_replacement_does_not_make_it_longer() -> None:
    host = Host()
    old = Member(host, name="one", instance_id="one")
    parked = old.join()
    host.advance(1_000)
    _, call = comes_back(host, old)
    assert parked.error is FENCED
    host.advance(2_000)
    assert call.answer.generation_id == 1


def test_a_replaced_member_that_had_not_synced_leaves_no_trace() -> None:
    # Kafka 4.3.1 keeps waiting for the SyncGroup of the old id and rebalances for nothing when its time is up
    # (measured: REBALANCE_IN_PROGRESS one rebalance timeout after the join). Not copied.
    host = Host()
    members = [Member(host, name=name, instance_id=name, session_timeout_ms=100_000) for name in ("one", "two")]
    leader, old = complete_joins(host, members)
    leader.sync(assign(members))
    new, call = comes_back(host, old, session_timeout_ms=100_000)
    assert call.error is NONE
    assert new.sync().answer.assignment == b"for two"
    host.advance(40_000)
    assert (leader.heartbeat(), new.heartbeat(), host.state("g")) == (0, 0, "Stable")


# --- who was replaced


def test_the_old_instance_is_fenced_everywhere() -> None:
    host = Host()
    _, old = static_members(host, "one", "two")
    comes_back(host, old)
    assert old.heartbeat() is FENCED
    assert old.sync().error is FENCED
    assert old.ask_to_join().error is FENCED
    assert old.ask_to_join().answer.member_id == old.member_id
    assert set(errors_of(old.send_commit({("orders", 0): 1})).values()) == {FENCED}
    assert old.leave() is FENCED


def test_the_old_id_without_its_instance_id_is_unknown() -> None:
    host = Host()
    _, old = static_members(host, "one", "two")
    comes_back(host, old)
    assert old.heartbeat(static=False) is UNKNOWN
    assert old.sync(static=False).error is UNKNOWN
    assert set(errors_of(old.send_commit({("orders", 0): 1}, static=False)).values()) == {UNKNOWN}
    old.instance_id = None
    assert old.ask_to_join().error is UNKNOWN
    assert old.leave() is UNKNOWN


def test_an_instance_id_that_nobody_has_is_unknown() -> None:
    host = Host()
    (member,) = static_members(host, "one")
    member.instance_id = "ghost"
    assert member.heartbeat() is UNKNOWN
    assert member.sync().error is UNKNOWN
    assert member.ask_to_join().error is UNKNOWN
    assert set(errors_of(member.send_commit({("orders", 0): 1})).values()) == {UNKNOWN}
    assert member.leave() is UNKNOWN


def test_an_instance_id_of_another_member_is_fenced() -> None:
    host = Host()
    one, two = static_members(host, "one", "two")
    one.instance_id = two.instance_id
    assert one.heartbeat() is FENCED
    assert one.ask_to_join().error is FENCED


# --- the end of a static member


def test_an_administrator_removes_it_by_its_instance_id() -> None:
    host = Host()
    one, two = static_members(host, "one", "two")
    answer = leave(host, "g", ("", "two")).answer
    assert [(each.member_id, each.group_instance_id, each.error_code) for each in answer.members] == [("", "two", 0)]
    assert two.heartbeat() is UNKNOWN
    assert one.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS


def test_its_session_ends_like_anyones() -> None:
    host = Host()
    static_members(host, "one")
    host.advance(10_000)
    assert host.state("g") == "Empty"


def test_after_a_restart_the_instance_is_still_known() -> None:
    host = Host()
    one, two = static_members(host, "one", "two")
    host.crash()
    assert (one.heartbeat(), two.heartbeat()) == (0, 0)
    _, call = comes_back(host, two)
    assert (call.error, host.state("g")) == (NONE, "Stable")
    assert two.heartbeat() is FENCED
