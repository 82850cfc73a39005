"""The clock is set while members have sessions and groups wait: all that waits goes on as if nothing had happened."""

import pytest

from kohort.protocol.error_codes import ErrorCode
from tests.coordinator.members import Member, joined, stable
from tests.coordinator.support import Host

NONE = ErrorCode.NONE
HOUR_MS = 3_600_000

both_ways = pytest.mark.parametrize("step_ms", [HOUR_MS, -HOUR_MS])


@both_ways
def test_a_session_is_as_long_as_it_was(step_ms: int) -> None:
    host = Host()
    (a,) = stable(host, "a", session_timeout_ms=10_000)
    host.advance(4_000)
    host.set_clock(step_ms)
    host.advance(5_999)
    assert host.state("g") == "Stable"
    host.advance(1)
    assert host.state("g") == "Empty"
    assert a.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


@both_ways
def test_heartbeats_go_on_extending_it(step_ms: int) -> None:
    host = Host()
    (a,) = stable(host, "a", session_timeout_ms=10_000)
    assert a.heartbeat() is NONE
    host.set_clock(step_ms)
    for _ in range(5):
        host.advance(9_000)
        assert a.heartbeat() is NONE
    host.advance(9_999)
    assert host.state("g") == "Stable"
    host.advance(1)
    assert host.state("g") == "Empty"


@both_ways
def test_an_id_that_was_handed_out_lasts_as_long_as_it_did(step_ms: int) -> None:
    host = Host()
    member = Member(host, session_timeout_ms=10_000)
    member.ask_to_join()
    host.advance(5_000)
    host.set_clock(step_ms)
    (pending,) = host.classic("g").pending_joins
    host.advance(4_999)
    assert pending in host.classic("g").pending_joins
    host.advance(1)
    assert pending not in host.classic("g").pending_joins


@both_ways
def test_who_does_not_sync_is_given_the_time_it_had(step_ms: int) -> None:
    host = Host()
    joined(host, "a", rebalance_timeout_ms=5_000)
    host.set_clock(step_ms)
    host.advance(4_999)
    assert host.state("g") == "CompletingRebalance"
    host.advance(1)
    assert host.state("g") == "Empty"


@both_ways
def test_the_duration_of_a_rebalance_is_what_it_took(step_ms: int) -> None:
    host = Host()
    (a,) = joined(host, "a")
    host.advance(1_000)
    host.set_clock(step_ms)
    a.sync({a.member_id: b""})
    assert host.events[-1].duration_ms == 4_000
