"""The five states, and which may follow which."""

import re
from pathlib import Path

import pytest

from kohort.coordinator import classic
from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.state import (
    ALLOWED_FROM,
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
    ClassicGroupState,
)
from kohort.coordinator.outcome import Outcome
from kohort.protocol.error_codes import ErrorCode
from tests.coordinator.members import Member, joined, leave, stable
from tests.coordinator.support import Host

LEGAL = {
    (PREPARING_REBALANCE, EMPTY),
    (EMPTY, PREPARING_REBALANCE),
    (COMPLETING_REBALANCE, PREPARING_REBALANCE),
    (STABLE, PREPARING_REBALANCE),
    (PREPARING_REBALANCE, COMPLETING_REBALANCE),
    (COMPLETING_REBALANCE, STABLE),
} | {(any_state, DEAD) for any_state in ClassicGroupState}


@pytest.mark.parametrize("before", ClassicGroupState)
@pytest.mark.parametrize("after", ClassicGroupState)
def test_only_the_legal_transitions_are_possible(before: ClassicGroupState, after: ClassicGroupState) -> None:
    group = ClassicGroup("g")
    group.state = before
    if (before, after) in LEGAL:
        group.transition_to(after, 7)
        assert (group.previous_state, group.state, group.state_timestamp) == (before, after, 7)
    else:
        with pytest.raises(AssertionError):
            group.transition_to(after, 7)
    assert set(ALLOWED_FROM) == set(ClassicGroupState)


def test_a_group_goes_from_empty_to_stable_and_back() -> None:
    host = Host()
    member = Member(host)
    member.ask_to_join()
    assert host.state("g") == "Empty"  # an id was handed out, nobody is a member yet
    member.member_id = member.joining.answer.member_id if member.joining else ""
    member.ask_to_join()
    assert host.state("g") == "PreparingRebalance"
    host.advance(3_000)
    assert host.state("g") == "CompletingRebalance"
    member.learn().sync({member.member_id: b"all"})
    assert host.state("g") == "Stable"
    member.leave()
    assert host.state("g") == "Empty"


def test_the_generation_grows_each_time_a_join_phase_completes_also_into_empty() -> None:
    host = Host()
    (member,) = stable(host, "a")
    assert member.generation == 1
    member.leave()
    assert host.classic("g").generation == 2
    (again,) = joined(host, "b")
    assert again.generation == 3


def test_an_emptied_group_keeps_its_protocol_type_and_forgets_the_protocol() -> None:
    host = Host()
    (member,) = stable(host, "a")
    member.leave()
    described = host.describe("g")
    assert (described.protocol_type, described.protocol_data) == ("consumer", "")
    group = host.classic("g")
    assert (group.protocol_name, group.leader_id) == (None, None)


def test_the_type_of_an_emptied_group_is_the_next_first_members() -> None:
    host = Host()
    (member,) = stable(host, "a")
    member.leave()
    stable(host, "w", protocol_type="connect", protocols=[("compatible", b"")])
    assert host.describe("g").protocol_type == "connect"


def test_members_of_two_groups_know_nothing_of_each_other() -> None:
    host = Host()
    (here,) = stable(host, "a", group_id="here")
    (there,) = stable(host, "b", group_id="there")
    assert here.leave() == 0
    assert (host.state("here"), host.state("there")) == ("Empty", "Stable")
    assert there.heartbeat() == 0


def test_a_member_id_is_the_client_id_and_a_random_uuid() -> None:
    host = Host()
    (member,) = joined(host, "some-client")
    name, _, uuid = member.member_id.partition("some-client-")
    assert (name, len(uuid), uuid[14], uuid[19] in "89ab") == ("", 36, "4", True)
    static = Member(host, "h", "client", instance_id="desk-7")
    static.join()
    host.advance(3_000)
    assert static.learn().member_id.startswith("desk-7-")


# --- a group object that its shard no longer holds


@pytest.mark.parametrize("wait", ["join", "sync", "session", "pending"])
def test_a_deadline_of_an_object_that_is_no_longer_the_group_does_nothing(wait: str) -> None:
    host = Host()
    if wait == "pending":
        Member(host).ask_to_join()
    elif wait == "join":
        (a,) = stable(host, "a")
        leave(host, "g", (a.member_id, None))
        Member(host, version=3).ask_to_join()
    else:
        (joined if wait == "sync" else stable)(host, "a")
    before = host.classic("g")
    before.abandon(ErrorCode.NOT_COORDINATOR, Outcome())
    now = host.state_of("g").groups["g"] = ClassicGroup("g")
    assert before.state_name == "Dead"
    written = len(host.log_of("g"))
    host.advance(600_000)
    assert (before.state_name, now.state_name, now.generation) == ("Dead", "Empty", 0)
    assert len(host.log_of("g")) == written


def test_every_state_is_entered_through_the_table() -> None:
    """In the code `state` is assigned in two places: where a group begins, and in transition_to."""
    sources = Path(classic.__path__[0]).rglob("*.py")
    assigned = [line for path in sources for line in path.read_text().splitlines() if re.search(r"\.state = ", line)]
    assert [line.strip() for line in assigned] == ["self.state = state", "self.state = target"]
