"""Somebody sets the machine's clock: nobody's session or rebalance is shorter or longer."""

from __future__ import annotations

from pathlib import Path

import pytest

from kohort.broker.clock import Clock, Milliseconds
from kohort.broker.coordinator_host import CoordinatorHost
from kohort.coordinator.outcome import Outcome
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kohort.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.broker.broker_box import START_MS, BrokerBox, FakeConnection

HOUR_MS = 3_600_000


class Machine:
    """A wall clock that can be set, and a steady one that goes on."""

    def __init__(self) -> None:
        self.wall_ms = START_MS
        self.steady_ms = 5_000
        self.clock = Clock(lambda: self.wall_ms * 1_000_000, lambda: self.steady_ms * 1_000_000)

    def wait(self, ms: int) -> None:
        self.wall_ms += ms
        self.steady_ms += ms


def test_milliseconds_hold_until_the_next_one_begins() -> None:
    milliseconds = Milliseconds()
    milliseconds.pass_on(7_999_999)
    assert (milliseconds.steady_ms, milliseconds.ends_ns) == (7, 8_000_000)
    milliseconds.pass_on(8_000_000)
    assert (milliseconds.steady_ms, milliseconds.ends_ns) == (8, 9_000_000)


def test_deadlines_and_records_have_a_clock_each() -> None:
    machine = Machine()
    machine.wait(1_000)
    machine.wall_ms += HOUR_MS
    assert machine.clock.now_ms() == START_MS + 1_000 + HOUR_MS
    assert machine.clock.steady_ms() == 6_000


def test_a_broker_that_stood_still_hears_its_members_before_it_ends_their_sessions(tmp_path: Path) -> None:
    machine = Machine()
    box = BrokerBox(tmp_path, kohort_offsets_sync_before_reply="false", group_initial_rebalance_delay_ms="0")
    box.clock = machine.clock
    coordinator = box.broker.coordinator = CoordinatorHost(box.broker, machine.clock)
    coordinator.start()
    box.now = machine.clock.now_ms()
    client = FakeConnection()
    request = JoinGroupRequest("g", 10_000, 10_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")])
    box.send(ApiKey.JOIN_GROUP, request, 3, client=client)
    box.pass_time()
    (joined,) = client.answers
    assigned = [SyncGroupRequestAssignment(joined.member_id, b"")]
    box.send(ApiKey.SYNC_GROUP, SyncGroupRequest("g", 1, joined.member_id, assignments=assigned), 3, client=client)
    box.pass_time()
    machine.wait(20_000)
    box.pass_time(10_000)  # the timer of the first to go rings now, ten seconds late
    beat = HeartbeatRequest("g", joined.generation_id, joined.member_id)
    box.now = machine.clock.now_ms()
    assert box.send(ApiKey.HEARTBEAT, beat, 4).error_code == 0
    box.pass_time(1)
    assert box.send(ApiKey.HEARTBEAT, beat, 4).error_code == 0
    machine.wait(20_000)
    box.pass_time(20_000)
    assert box.send(ApiKey.HEARTBEAT, beat, 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID  # it has really gone silent
    box.close()


@pytest.mark.parametrize("step_ms", [HOUR_MS, -HOUR_MS])
def test_a_first_rebalance_takes_its_time_and_not_that_of_the_clock(tmp_path: Path, step_ms: int) -> None:
    machine = Machine()
    box = BrokerBox(tmp_path, kohort_offsets_sync_before_reply="false", group_initial_rebalance_delay_ms="3000")
    box.clock = machine.clock
    coordinator = box.broker.coordinator = CoordinatorHost(box.broker, machine.clock)
    coordinator.start()

    def wait(ms: int) -> None:
        machine.wait(ms)
        box.pass_time(ms)

    client = FakeConnection()
    request = JoinGroupRequest("g", 10_000, 10_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")])
    box.now = machine.clock.now_ms()
    box.send(ApiKey.JOIN_GROUP, request, 3, client=client)
    wait(1_000)
    machine.wall_ms += step_ms
    coordinator.apply(coordinator.runtime.shard_of("g"), Outcome())
    wait(1_999)
    assert client.answers == []
    wait(1)
    assert [answer.error_code for answer in client.answers] == [0]
    box.close()
