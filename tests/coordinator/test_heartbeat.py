"""Heartbeat, and the sessions that it keeps alive."""

from collections.abc import Callable

import pytest

from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.group import Pulse
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.protocol.messages.log_group_metadata import GroupMetadataValue
from tests.coordinator.members import (
    Member,
    assign,
    complete_joins,
    fetch,
    joined,
    protocols,
    stable,
    static_members,
)
from tests.coordinator.support import Host
from tests.group_requests import subscription

NONE = ErrorCode.NONE
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
IN_PROGRESS = ErrorCode.REBALANCE_IN_PROGRESS
VERSIONS = range(5)


# --- decisions


@pytest.mark.parametrize("version", VERSIONS)
def test_an_empty_group_id_is_invalid_and_an_unknown_group_has_no_members(version: int) -> None:
    host = Host()
    assert host.ask(HeartbeatRequest("", 1, "m"), version).error_code == ErrorCode.INVALID_GROUP_ID
    assert host.ask(HeartbeatRequest("g", 1, "m"), version).error_code == UNKNOWN


@pytest.mark.parametrize("version", VERSIONS)
def test_a_member_of_a_stable_group_is_fine(version: int) -> None:
    host = Host()
    (a,) = stable(host, "a")
    assert a.heartbeat(version=version) is NONE


def test_a_stranger_and_a_pending_id_are_unknown() -> None:
    host = Host()
    (a,) = stable(host, "a")
    pending = Member(host)
    pending.member_id = pending.ask_to_join().answer.member_id
    assert pending.heartbeat(1) is UNKNOWN
    a.member_id = "stranger"
    assert a.heartbeat() is UNKNOWN


@pytest.mark.parametrize("generation", [-1, 0, 2])
def test_another_generation_is_illegal(generation: int) -> None:
    host = Host()
    (a,) = stable(host, "a")
    assert a.heartbeat(generation) is ErrorCode.ILLEGAL_GENERATION


def test_an_unknown_member_is_told_before_a_wrong_generation() -> None:
    host = Host()
    (a,) = stable(host, "a")
    a.member_id = "stranger"
    assert a.heartbeat(77) is UNKNOWN


def test_in_an_empty_group_every_member_is_unknown() -> None:
    host = Host()
    (a,) = stable(host, "a")
    a.leave()
    assert a.heartbeat(2) is UNKNOWN


def test_while_the_leader_assigns_a_member_is_fine() -> None:
    host = Host()
    a, b = joined(host, "a", "b")
    assert (a.heartbeat(), b.heartbeat()) == (NONE, NONE)


def test_during_a_join_phase_a_member_is_asked_to_rejoin() -> None:
    host = Host()
    a, b = stable(host, "a", "b")
    a.join()
    assert b.heartbeat() is IN_PROGRESS


def test_a_heartbeat_waits_for_earlier_writes_of_its_partition() -> None:
    host = Host()
    (a,) = stable(host, "a")
    host.disk.is_slow = True
    commit = a.send_commit({("orders", 0): 1})
    beat = a.send_heartbeat()
    assert not beat.is_answered
    host.disk_catches_up()
    assert (beat.error, commit.is_answered) == (NONE, True)


# --- heartbeats like the one before: a pulse answers them (as everywhere in these tests, from the second one on)


def pulse_of(member: Member) -> Pulse:
    assert member.heartbeat() is NONE
    request = HeartbeatRequest(member.group_id, member.generation, member.member_id, member.instance_id)
    pulse = member.host.runtime.pulse(request)
    assert pulse is not None
    assert pulse.beats(member.host.steady_ms)
    return pulse


def somebody_joins(member: Member, other: Member) -> None:
    Member(member.host, name="c").join()


def it_leaves(member: Member, other: Member) -> None:
    member.leave()


def the_next_generation_is_stable(member: Member, other: Member) -> None:
    other.leave()
    member.join()
    assert member.sync(assign([member])).error is NONE
    assert member.host.state("g") == "Stable"


def its_session_ends(member: Member, other: Member) -> None:
    member.host.advance(10_000)


def a_write_of_its_shard_fails(member: Member, other: Member) -> None:
    member.host.disk.is_slow = True
    other.send_commit({("orders", 0): 1})
    member.host.disk_fails()


def its_shard_holds_another_object_for_the_group(member: Member, other: Member) -> None:
    shard = member.host.state_of("g")
    shard.replace(ClassicGroup.restored("g", GroupMetadataValue("consumer", 1, "range", None, 0, [])))


@pytest.mark.parametrize(
    "event",
    [
        somebody_joins,
        it_leaves,
        the_next_generation_is_stable,
        its_session_ends,
        a_write_of_its_shard_fails,
        its_shard_holds_another_object_for_the_group,
    ],
)
def test_a_pulse_is_no_answer_any_more_when(event: Callable[[Member, Member], None]) -> None:
    host = Host()
    a, b = stable(host, "a", "b")
    pulse = pulse_of(a)
    event(a, b)
    assert not pulse.beats(host.steady_ms)


def test_a_pulse_goes_on_when_the_wall_clock_is_set_back() -> None:
    host = Host()
    (a,) = stable(host, "a")
    pulse = pulse_of(a)
    host.set_clock(-60_000)
    assert pulse.beats(host.steady_ms)


def test_a_pulse_ends_when_its_static_member_is_replaced_without_a_rebalance() -> None:
    host = Host()
    (old,) = static_members(host, "one")
    pulse = pulse_of(old)
    Member(host, name="one", instance_id="one").join()
    assert host.state("g") == "Stable"
    assert not pulse.beats(host.steady_ms)
    assert old.heartbeat() is ErrorCode.FENCED_INSTANCE_ID


def test_a_member_that_speaks_under_another_name_or_out_of_turn_has_no_pulse() -> None:
    host = Host()
    (a,) = stable(host, "a")
    for generation, member_id, instance_id in ((2, a.member_id, None), (1, "b", None), (1, a.member_id, "i")):
        assert host.runtime.pulse(HeartbeatRequest("g", generation, member_id, instance_id)) is None
    assert host.runtime.pulse(HeartbeatRequest("h", 1, a.member_id)) is None


def test_a_pulse_does_not_wait_for_what_does_not_concern_its_group() -> None:
    host = Host()
    (a,) = stable(host, "a")
    pulse_of(a)
    host.disk.is_slow = True
    commit = a.send_commit({("orders", 0): 1})
    assert a.heartbeat() is NONE
    assert not commit.is_answered


def test_a_pulse_begins_only_when_all_is_durable() -> None:
    host = Host()
    (a,) = stable(host, "a")
    host.disk.is_slow = True
    a.send_commit({("orders", 0): 1})
    assert host.runtime.pulse(HeartbeatRequest("g", a.generation, a.member_id)) is None


# --- sessions


def test_a_silent_member_is_gone_after_its_session_timeout() -> None:
    host = Host()
    a, b = stable(host, "a", "b")
    host.advance(9_999)
    assert a.heartbeat() is NONE
    host.advance(1)
    assert host.state("g") == "PreparingRebalance"
    assert b.heartbeat() is UNKNOWN
    assert a.heartbeat() is IN_PROGRESS


def test_the_last_silent_member_leaves_an_empty_group() -> None:
    host = Host()
    stable(host, "a")
    host.advance(10_000)
    assert host.state("g") == "Empty"
    assert host.records_of("g")[-1][2].generation == 2


def test_each_heartbeat_starts_the_session_anew() -> None:
    host = Host()
    (a,) = stable(host, "a")
    for _ in range(10):
        host.advance(9_999)
        assert a.heartbeat() is NONE
    host.advance(10_000)
    assert host.state("g") == "Empty"


def test_a_heartbeat_with_an_error_does_not_start_the_session_anew() -> None:
    host = Host()
    (a,) = stable(host, "a")
    host.advance(9_000)
    a.heartbeat(77)
    host.advance(1_000)
    assert host.state("g") == "Empty"


def test_a_heartbeat_during_the_join_phase_and_while_the_leader_assigns_counts() -> None:
    host = Host()
    a, b = stable(host, "a", "b")
    host.advance(5_000)
    a.join()
    b.heartbeat()
    host.advance(9_999)
    assert b.heartbeat() is IN_PROGRESS
    b.join()
    host.advance(9_999)
    assert (a.learn().heartbeat(), b.learn().heartbeat()) == (NONE, NONE)
    host.advance(9_999)
    assert (a.heartbeat(), b.heartbeat()) == (NONE, NONE)


def test_an_offset_commit_counts_in_stable() -> None:
    host = Host()
    (a,) = stable(host, "a")
    host.advance(9_000)
    assert a.commit({("orders", 0): 1}) is NONE
    host.advance(9_999)
    assert a.heartbeat() is NONE


def test_an_offset_commit_counts_during_the_join_phase() -> None:
    host = Host()
    a, b = stable(host, "a", "b")
    a.join()
    host.advance(9_000)
    assert b.commit({("orders", 0): 1}) is NONE
    host.advance(9_999)
    assert b.heartbeat() is IN_PROGRESS


def test_an_offset_commit_while_the_leader_assigns_does_not_count() -> None:
    host = Host()
    a, b = joined(host, "a", "b")
    host.advance(9_000)
    a.heartbeat()
    assert b.commit({("orders", 0): 1}) is IN_PROGRESS
    host.advance(1_000)
    assert b.heartbeat() is UNKNOWN


def test_an_offset_fetch_does_not_count() -> None:
    host = Host()
    stable(host, "a")
    host.advance(9_000)
    fetch(host, "g")
    host.advance(1_000)
    assert host.state("g") == "Empty"


def test_a_sync_in_stable_does_not_count() -> None:
    host = Host()
    (a,) = stable(host, "a")
    host.advance(9_000)
    assert a.sync().error is NONE
    host.advance(1_000)
    assert host.state("g") == "Empty"


def test_the_end_of_the_join_phase_starts_the_session() -> None:
    host = Host()
    (a,) = joined(host, "a")
    host.advance(9_999)
    assert a.heartbeat() is NONE


def test_an_assignment_that_is_delivered_starts_the_session_anew() -> None:
    host = Host()
    leader, follower = joined(host, "a", "b")
    follower.sync()
    host.advance(9_000)
    leader.sync(assign([leader, follower]))
    host.advance(9_999)
    assert (leader.heartbeat(), follower.heartbeat()) == (NONE, NONE)


def test_a_parked_member_cannot_be_silent() -> None:
    host = Host(min_session_timeout_ms=1_000)
    members = [Member(host, name="a", session_timeout_ms=1_500), Member(host, name="b")]
    complete_joins(host, members)
    a, b = members
    a.sync(assign(members))
    b.sync()
    a.heartbeat()
    call = a.join()  # the leader: a rebalance that b is late for
    for _ in range(8):
        host.advance(1_000)
        b.heartbeat()
    b.join()
    assert call.error is NONE
    assert {each.client_id for each in host.describe("g").members} == {"a", "b"}


def test_a_parked_sync_keeps_a_member_too() -> None:
    host = Host(min_session_timeout_ms=1_000)
    members = [Member(host, name="a"), Member(host, name="b", session_timeout_ms=1_500)]
    complete_joins(host, members)
    leader, follower = members
    call = follower.sync()
    for _ in range(8):
        host.advance(1_000)
        leader.heartbeat()
    assert not call.is_answered
    leader.sync(assign(members))
    assert call.answer.assignment == b"for b"
    host.advance(1_499)
    assert follower.heartbeat() is NONE


def test_a_new_member_has_five_minutes_for_its_first_join_phase() -> None:
    host = Host()
    a, b = stable(host, "a", "b", rebalance_timeout_ms=600_000)
    newcomer = Member(host, name="c", rebalance_timeout_ms=600_000)
    call = newcomer.join()
    a.join()
    for _ in range(299):
        host.advance(1_000)
        assert b.heartbeat() is IN_PROGRESS
    assert not call.is_answered
    host.advance(1_000)
    assert (call.error, call.answer.member_id) == (UNKNOWN, "")
    assert {each.client_id for each in host.describe("g").members} == {"a", "b"}


def test_a_new_members_session_is_its_own_after_the_join_phase() -> None:
    host = Host()
    (a,) = joined(host, "a")
    host.advance(10_000)
    assert a.heartbeat() is UNKNOWN


def test_a_session_timeout_that_changes_counts_from_the_next_answer_on() -> None:
    host = Host()
    (a,) = stable(host, "a")
    a.session_timeout_ms = 40_000
    a.protocols = protocols("range", metadata=subscription("payments"))
    a.join()
    a.learn().sync({})
    host.advance(39_999)
    assert a.heartbeat() is NONE


def test_a_shorter_session_timeout_is_noticed_in_time() -> None:
    host = Host()
    (a,) = stable(host, "a", session_timeout_ms=60_000)
    a.session_timeout_ms = 6_000
    a.join()
    a.learn().sync({})
    host.advance(6_000)
    assert host.state("g") == "Empty"


def test_the_end_of_a_session_in_the_first_wait_lets_the_others_go_on() -> None:
    # As measured for pending ids on Kafka 4.3.1: expiry completes the first wait if everyone else is parked.
    host = Host(initial_rebalance_delay_ms=400_000)
    a = Member(host, name="a", rebalance_timeout_ms=900_000)
    a.join()
    host.advance(100_000)
    b = Member(host, name="b", rebalance_timeout_ms=900_000)
    call = b.join()
    host.advance(200_000)  # a is new, and was for five minutes
    assert a.joining is not None
    assert a.joining.error is UNKNOWN
    assert (call.error, call.answer.leader) == (NONE, call.answer.member_id)


def test_a_parked_sync_that_ends_in_a_rebalance_starts_the_session_anew() -> None:
    # Found by the simulation: a static member that died while it was parked was never missed.
    host = Host()
    leader = Member(host, name="a", session_timeout_ms=60_000)
    silent = Member(host, name="b", instance_id="desk")
    complete_joins(host, [leader, silent])
    silent.sync()
    host.advance(11_000)  # its session ends while it is parked: nobody minds
    Member(host, name="c", session_timeout_ms=60_000).join()
    host.advance(9_999)
    assert {each.client_id for each in host.describe("g").members} == {"a", "b", "c"}
    host.advance(1)
    assert {each.client_id for each in host.describe("g").members} == {"a", "c"}
