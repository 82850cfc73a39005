"""JoinGroup: its decisions in their order (the join phase itself is in test_join_phase.py)."""

from collections.abc import Iterator

import pytest

from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.join_group import JoinGroupResponse
from tests.coordinator.members import Member, joined, protocols, stable
from tests.coordinator.support import Host
from tests.group_requests import subscription

VERSIONS = range(10)
FLEXIBLE_NAME = 7  # from here on the protocol name of an error is null


def error_answer(version: int, error: ErrorCode, member_id: str) -> JoinGroupResponse:
    return JoinGroupResponse(0, error, -1, None, None if version >= FLEXIBLE_NAME else "", "", False, member_id, [])


# --- what is wrong whatever the group is


@pytest.mark.parametrize("version", VERSIONS)
def test_an_empty_group_id_is_invalid_and_the_member_id_comes_back(version: int) -> None:
    member = Member(Host(), "", version=version)
    member.member_id = "somebody"
    assert member.ask_to_join().answer == error_answer(version, ErrorCode.INVALID_GROUP_ID, "somebody")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("session_timeout_ms", [0, 5_999, 1_800_001, -1])
def test_a_session_timeout_outside_the_bounds_is_refused(version: int, session_timeout_ms: int) -> None:
    host = Host()
    member = Member(host, session_timeout_ms=session_timeout_ms, version=version)
    member.member_id = "somebody"
    assert member.ask_to_join().answer == error_answer(version, ErrorCode.INVALID_SESSION_TIMEOUT, "somebody")
    assert host.list_groups() == []


@pytest.mark.parametrize("session_timeout_ms", [6_000, 1_800_000])
def test_the_bounds_of_the_session_timeout_are_allowed(session_timeout_ms: int) -> None:
    member = Member(Host(), session_timeout_ms=session_timeout_ms)
    assert member.ask_to_join().error is ErrorCode.MEMBER_ID_REQUIRED


def test_an_empty_group_id_is_told_before_a_bad_session_timeout() -> None:
    assert Member(Host(), "", session_timeout_ms=1).ask_to_join().error is ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("version", VERSIONS)
def test_a_member_id_in_an_unknown_group_is_unknown(version: int) -> None:
    host = Host()
    member = Member(host, version=version)
    member.member_id = "somebody"
    assert member.ask_to_join().answer == error_answer(version, ErrorCode.UNKNOWN_MEMBER_ID, "somebody")
    assert host.list_groups() == []


# --- new members


@pytest.mark.parametrize("version", range(4, 10))
def test_a_new_member_gets_an_id_at_once_and_must_come_again(version: int) -> None:
    host = Host()
    host.disk.is_slow = True  # the group's first record is on its way: nobody waits for it
    call = Member(host, name="me", version=version).ask_to_join()
    answer = call.answer
    assert answer == error_answer(version, ErrorCode.MEMBER_ID_REQUIRED, answer.member_id)
    assert answer.member_id.startswith("me-")


@pytest.mark.parametrize("version", range(4))
def test_before_version_4_a_new_member_is_added_right_away(version: int) -> None:
    host = Host()
    member = Member(host, name="me", version=version)
    call = member.ask_to_join()
    assert not call.is_answered
    host.advance(3_000)
    assert call.error is ErrorCode.NONE
    assert call.answer.member_id.startswith("me-")


@pytest.mark.parametrize("version", range(5, 10))
def test_a_new_static_member_is_added_right_away(version: int) -> None:
    host = Host()
    member = Member(host, name="me", instance_id="desk", version=version)
    call = member.ask_to_join()
    host.advance(3_000)
    assert call.error is ErrorCode.NONE
    assert call.answer.member_id.startswith("desk-")
    assert call.answer.members[0].group_instance_id == "desk"


def test_version_0_uses_the_session_timeout_for_the_rebalance() -> None:
    host = Host()
    member = Member(host, session_timeout_ms=7_000, rebalance_timeout_ms=60_000, version=0)
    member.join()
    host.advance(3_000)
    (known,) = host.classic("g").members.values()
    assert known.rebalance_timeout_ms == 7_000


def test_version_1_brings_a_rebalance_timeout_of_its_own() -> None:
    host = Host()
    Member(host, session_timeout_ms=7_000, rebalance_timeout_ms=60_000, version=1).join()
    (known,) = host.classic("g").members.values()
    assert known.rebalance_timeout_ms == 60_000


def test_a_pending_id_expires_after_the_session_timeout() -> None:
    host = Host()
    member = Member(host, session_timeout_ms=8_000)
    member.member_id = member.ask_to_join().answer.member_id
    host.advance(8_000)
    assert member.ask_to_join().error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_pending_id_can_be_used_until_its_session_timeout() -> None:
    host = Host()
    member = Member(host, session_timeout_ms=8_000)
    member.member_id = member.ask_to_join().answer.member_id
    host.advance(7_999)
    assert not member.ask_to_join().is_answered


@pytest.mark.parametrize("version", range(5, 10))
def test_a_pending_id_with_an_instance_id_is_a_server_error_as_in_kafka(version: int) -> None:
    # Measured on Kafka 4.3.1: -1, with an empty member id. The id stays pending.
    host = Host()
    member = Member(host, version=version)
    member.member_id = member.ask_to_join().answer.member_id
    member.instance_id = "desk"
    assert member.ask_to_join().answer == error_answer(version, ErrorCode.UNKNOWN_SERVER_ERROR, "")
    member.instance_id = None
    assert not member.ask_to_join().is_answered


# --- protocols


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("protocol_type", "names"), [("", ["range"]), ("consumer", [])])
def test_an_empty_group_wants_a_protocol_type_and_at_least_one_protocol(
    version: int, protocol_type: str, names: list[str]
) -> None:
    host = Host()
    member = Member(host, protocol_type=protocol_type, protocols=protocols(*names), version=version)
    answer = member.ask_to_join().answer
    assert answer == error_answer(version, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    assert host.state("g") == "Empty"  # the group exists from now on


def test_a_newcomer_of_another_type_is_refused_before_it_gets_an_id() -> None:
    host = Host()
    stable(host, "a")
    assert Member(host, protocol_type="connect").ask_to_join().error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_newcomer_must_list_a_protocol_that_all_members_know() -> None:
    host = Host()
    first = Member(host, name="a", protocols=protocols("range", "sticky"))
    second = Member(host, name="b", protocols=protocols("sticky", "roundrobin"))
    first.join()
    second.join()
    host.advance(6_000)
    assert Member(host, protocols=protocols("range", "roundrobin")).ask_to_join().error == 23
    assert Member(host, protocols=protocols("roundrobin", "sticky")).ask_to_join().error == 79


def test_a_member_that_comes_back_with_unknown_protocols_is_refused_and_its_id_comes_back() -> None:
    host = Host()
    a, _ = stable(host, "a", "b")
    a.protocols = protocols("home-made")
    answer = a.ask_to_join().answer
    assert answer == error_answer(9, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, a.member_id)
    assert host.state("g") == "Stable"


def test_a_join_phase_that_everyone_has_left_takes_any_protocol_of_the_same_type() -> None:
    # Measured on Kafka 4.3.1: MEMBER_ID_REQUIRED for another protocol, INCONSISTENT_GROUP_PROTOCOL for another type.
    host = Host()
    member = Member(host)
    member.join()
    member.leave()
    assert host.state("g") == "PreparingRebalance"
    assert Member(host, protocols=protocols("other")).ask_to_join().error is ErrorCode.MEMBER_ID_REQUIRED
    assert Member(host, protocol_type="connect").ask_to_join().error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


# --- group.max.size


def test_ids_that_are_not_used_do_not_count_against_the_size() -> None:
    host = Host(max_size=2)
    members = [Member(host, name=name) for name in "abc"]
    for member in members:
        call = member.ask_to_join()
        assert call.error is ErrorCode.MEMBER_ID_REQUIRED
        member.member_id = call.answer.member_id
    calls = [member.ask_to_join() for member in members]
    assert [call.is_answered for call in calls] == [False, False, True]
    assert calls[2].answer == error_answer(9, ErrorCode.GROUP_MAX_SIZE_REACHED, "")


def test_a_full_group_takes_nobody_while_it_is_stable_or_being_assigned() -> None:
    host = Host(max_size=2)
    members = joined(host, "a", "b")
    assert Member(host).ask_to_join().error is ErrorCode.GROUP_MAX_SIZE_REACHED
    members[0].sync({})
    members[1].sync()
    assert host.state("g") == "Stable"
    assert Member(host).ask_to_join().error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert Member(host, instance_id="desk").ask_to_join().error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_members_of_a_full_group_can_rejoin() -> None:
    host = Host(max_size=2)
    a, b = stable(host, "a", "b")
    b.protocols = protocols("range", metadata=subscription("payments"))
    assert not b.join().is_answered
    assert not a.join().is_answered or a.joining.error == 0  # type: ignore[union-attr]
    assert b.joining is not None
    assert b.joining.error is ErrorCode.NONE


def test_a_parked_member_may_send_its_join_again_though_the_join_phase_is_full() -> None:
    host = Host(max_size=2)
    a, b = Member(host, name="a"), Member(host, name="b")
    a.join()
    b.join()
    assert not a.ask_to_join().is_answered
    host.advance(6_000)
    assert a.joining is not None
    assert a.joining.error is ErrorCode.NONE


def test_a_member_that_finds_the_join_phase_full_is_removed() -> None:
    host = Host(max_size=2)
    stable(host, "a", "b")
    host.config = host.runtime.config = type(host.config)(max_size=1)
    host.crash()  # a smaller limit: over capacity
    members = list(host.classic("g").members)
    a, b = (Member(host, name=name) for name in "ab")
    a.member_id, b.member_id = members
    assert not b.ask_to_join().is_answered
    refused = a.ask_to_join()
    assert refused.answer == error_answer(9, ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert list(host.classic("g").members) == [b.member_id]


# --- members that come back


def test_an_id_that_is_no_member_is_unknown() -> None:
    host = Host()
    stable(host, "a")
    stranger = Member(host)
    stranger.member_id = "stranger"
    assert stranger.ask_to_join().answer == error_answer(9, ErrorCode.UNKNOWN_MEMBER_ID, "stranger")


def test_an_id_in_an_empty_group_is_unknown() -> None:
    host = Host()
    (a,) = stable(host, "a")
    a.leave()
    assert a.ask_to_join().answer == error_answer(9, ErrorCode.UNKNOWN_MEMBER_ID, a.member_id)


def test_a_join_sent_again_during_the_join_phase_replaces_the_first_which_is_never_answered() -> None:
    host = Host()
    a = Member(host, name="a")
    first = a.join()
    a.protocols = protocols("range", metadata=subscription("payments"))
    second = a.ask_to_join()
    host.advance(3_000)
    assert not first.is_answered
    assert second.answer.members[0].metadata == subscription("payments")


def test_while_the_leader_assigns_an_unchanged_join_gets_the_current_generation() -> None:
    host = Host()
    leader, follower = joined(host, "a", "b")
    answer = follower.join().answer
    assert (answer.generation_id, answer.leader, list(answer.members)) == (1, leader.member_id, [])
    answer = leader.join().answer
    assert answer.generation_id == 1
    assert {each.member_id for each in answer.members} == {leader.member_id, follower.member_id}
    assert host.state("g") == "CompletingRebalance"


def test_while_the_leader_assigns_changed_protocols_begin_a_new_join_phase() -> None:
    host = Host()
    _, follower = joined(host, "a", "b")
    follower.protocols = protocols("range", metadata=subscription("payments"))
    assert not follower.join().is_answered
    assert host.state("g") == "PreparingRebalance"


@pytest.mark.parametrize(
    "changed",
    [protocols("range", "sticky"), protocols("sticky"), protocols("sticky", "range", metadata=b"other")],
    ids=["order", "names", "bytes"],
)
def test_names_order_and_bytes_of_the_protocols_all_count(changed: list[tuple[str, bytes]]) -> None:
    host = Host()
    _, follower = stable(host, "a", "b", protocols=protocols("sticky", "range"))
    follower.protocols = changed
    assert not follower.join().is_answered
    assert host.state("g") == "PreparingRebalance"


def test_a_follower_that_rejoins_unchanged_gets_the_current_generation() -> None:
    host = Host()
    leader, follower = stable(host, "a", "b")
    answer = follower.join().answer
    assert (answer.error_code, answer.generation_id, answer.leader) == (0, 1, leader.member_id)
    assert (answer.protocol_type, answer.protocol_name, list(answer.members)) == ("consumer", "range", [])
    assert host.state("g") == "Stable"


def test_a_leader_that_rejoins_unchanged_always_causes_a_rebalance() -> None:
    host = Host()
    leader, follower = stable(host, "a", "b")
    call = leader.join()
    assert not call.is_answered
    assert host.state("g") == "PreparingRebalance"
    follower.join()
    assert call.answer.generation_id == 2


def test_a_rejoin_does_not_change_client_id_and_host() -> None:
    # Measured on Kafka 4.3.1.
    host = Host()
    (a,) = stable(host, "first-name")
    a.name = "second-name"
    a.join()
    assert host.describe("g").members[0].client_id == "first-name"


# --- answers


@pytest.mark.parametrize("version", VERSIONS)
def test_the_answer_carries_what_the_version_has(version: int) -> None:
    host = Host()
    member = Member(host, version=version)
    member.join()
    host.advance(3_000)
    answer = member.learn().joining.answer  # type: ignore[union-attr]
    assert (answer.error_code, answer.generation_id, answer.protocol_name) == (0, 1, "range")
    assert answer.protocol_type == ("consumer" if version >= 7 else None)
    assert answer.leader == answer.member_id == member.member_id
    assert answer.skip_assignment is False
    assert [each.metadata for each in answer.members] == [subscription("orders")]


def test_only_the_leader_gets_the_member_list() -> None:
    host = Host()
    leader, follower = joined(host, "a", "b")
    assert leader.joining is not None
    assert follower.joining is not None
    assert leader.is_leader
    assert {each.member_id for each in leader.joining.answer.members} == {leader.member_id, follower.member_id}
    assert list(follower.joining.answer.members) == []
    assert follower.joining.answer.leader == leader.member_id


class NotLookedAt(tuple[tuple[str, bytes], ...]):
    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        raise AssertionError("every member was looked at")


def test_whether_somebody_can_join_is_known_without_a_look_at_every_member() -> None:
    """Else thousands who come at once keep the broker busy for the square of their number."""
    host = Host()
    joined(host, "a", "b")
    for member in host.classic("g").members.values():
        member.protocols = NotLookedAt(member.protocols)
    assert Member(host).ask_to_join().error is ErrorCode.MEMBER_ID_REQUIRED
    assert Member(host, protocols=protocols("other")).ask_to_join().error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


# --- ids that have no place in the log


@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_id_too_long_for_a_member_id_is_refused_and_the_group_works_on(version: int) -> None:
    host = Host()
    (a,) = stable(host, "a")
    answer = Member(host, name="c" * 32_731, version=version).ask_to_join().answer
    assert answer == error_answer(version, ErrorCode.UNKNOWN_SERVER_ERROR, "")
    assert a.heartbeat() is ErrorCode.NONE


def test_the_longest_client_id_that_leaves_room_for_a_member_id_is_taken() -> None:
    host = Host()
    for version in (3, 9):
        (member,) = stable(host, "c" * 32_730, group_id=f"g{version}", version=version)
        assert len(member.member_id) == 32_767


def test_an_instance_id_too_long_for_a_member_id_is_refused() -> None:
    member = Member(Host(), instance_id="\u00e4" * 16_366)
    assert member.ask_to_join().answer == error_answer(9, ErrorCode.UNKNOWN_SERVER_ERROR, "")


# --- the first record of a group


def test_first_contact_writes_an_empty_group() -> None:
    host = Host()
    Member(host).ask_to_join()
    ((kind, key, value),) = host.records_of("g")
    assert (kind, key.group) == (2, "g")
    assert (value.protocol_type, value.generation, value.protocol, value.leader) == ("", 0, None, None)
    assert (value.current_state_timestamp, list(value.members)) == (host.now, [])


def test_a_first_join_before_version_4_writes_it_too_and_the_join_phase_goes_on() -> None:
    host = Host()
    Member(host, version=3).join()
    assert len(host.records_of("g")) == 1
    assert host.state("g") == "PreparingRebalance"


def test_a_second_contact_writes_nothing() -> None:
    host = Host()
    Member(host).ask_to_join()
    Member(host).ask_to_join()
    assert len(host.records_of("g")) == 1


def test_a_first_join_that_is_refused_leaves_an_empty_group() -> None:
    host = Host()
    Member(host, protocols=[]).ask_to_join()
    host.crash()
    assert host.state("g") == "Empty"
