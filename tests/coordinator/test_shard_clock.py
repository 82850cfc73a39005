"""Shard time: it passes as the steady clock says, and stands still while the shard cannot hear its members."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.coordinator.shard_clock import STALL_MS, ShardClock
from kohort.protocol.error_codes import ErrorCode
from tests.coordinator.members import Member, stable
from tests.coordinator.support import Host

SESSION_MS = 10_000


def now(clock: ShardClock, steady_ms: int) -> int:
    clock.set(steady_ms, 0)
    return clock.now


def test_it_is_the_steady_clock_as_long_as_writes_are_quick() -> None:
    clock = ShardClock()
    clock.write_begins(100)
    assert now(clock, 100 + STALL_MS) == 100 + STALL_MS
    assert not clock.write_ends(100 + STALL_MS - 1, None)
    assert now(clock, 5_000) == 5_000
    assert clock.on_steady_clock(6_000, 5_000) == 6_000


def test_it_stands_still_during_a_long_write_and_goes_on_behind_by_that_time() -> None:
    clock = ShardClock()
    clock.write_begins(100)
    assert now(clock, 50_000) == 100 + STALL_MS
    assert clock.on_steady_clock(6_000, 50_000) is None
    assert clock.write_ends(50_000, None)
    assert now(clock, 50_000) == 100 + STALL_MS
    assert now(clock, 50_007) == 100 + STALL_MS + 7
    assert clock.on_steady_clock(now(clock, 50_007) + 10, 50_007) == 50_017


def test_it_goes_on_standing_still_while_the_next_write_is_late_too() -> None:
    clock = ShardClock()
    clock.write_begins(0)
    assert clock.write_ends(9_000, 500)
    assert now(clock, 20_000) == STALL_MS
    assert clock.write_ends(20_000, None)
    assert now(clock, 20_001) == STALL_MS + 1


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3_000), st.sampled_from(["look", "begin", "end"])), max_size=60))
def test_it_never_goes_back_and_never_overtakes_the_steady_clock(steps: list[tuple[int, str]]) -> None:
    clock, steady_ms, seen = ShardClock(), 0, 0
    in_flight: list[int] = []
    for pause_ms, step in steps:
        steady_ms += pause_ms
        if step == "begin":
            if not in_flight:
                clock.write_begins(steady_ms)
            in_flight.append(steady_ms)
        elif step == "end" and in_flight:
            del in_flight[0]
            clock.write_ends(steady_ms, in_flight[0] if in_flight else None)
        assert seen <= now(clock, steady_ms) <= steady_ms
        seen = clock.now


# --- seen by members


@pytest.fixture
def host() -> Host:
    return Host()


def a_stalled_write(host: Host, member: Member) -> None:
    host.disk.is_slow = True
    member.send_commit({("orders", 0): 1})


def test_no_session_ends_while_a_write_stalls_and_each_has_the_rest_of_its_time_afterwards(host: Host) -> None:
    a, _ = stable(host, "a", "b", session_timeout_ms=SESSION_MS)
    a_stalled_write(host, a)
    host.advance(600_000)
    assert set(host.classic("g").members) != set()
    host.disk_catches_up()
    host.advance(SESSION_MS - STALL_MS - 1)
    assert host.state("g") == "Stable"
    host.advance(1)
    assert host.state("g") != "Stable"


def test_a_heartbeat_during_the_stall_counts(host: Host) -> None:
    a, b = stable(host, "a", "b", session_timeout_ms=SESSION_MS)
    a_stalled_write(host, a)
    host.advance(60_000)
    b.send_heartbeat()
    host.disk_catches_up()
    host.advance(SESSION_MS - 1)
    assert b.heartbeat() in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)


def test_other_shards_have_their_own_time(host: Host) -> None:
    (a,) = stable(host, "a", session_timeout_ms=SESSION_MS)
    stable(host, "o", group_id="h", session_timeout_ms=SESSION_MS)
    a_stalled_write(host, a)
    host.advance(SESSION_MS)
    assert host.classic("g").members
    assert not host.classic("h").members
