"""DescribeGroups, ListGroups and DeleteGroups."""

import pytest

from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.delete_groups import DeleteGroupsRequest
from kohort.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from kohort.protocol.messages.list_groups import ListedGroup, ListGroupsRequest
from tests.coordinator.members import Member, commit, fetch, joined, stable, static_members
from tests.coordinator.support import Host
from tests.group_requests import subscription

NONE = ErrorCode.NONE
NOT_ASKED = -2147483648


# --- DescribeGroups


@pytest.mark.parametrize("version", range(7))
def test_a_stable_group_is_described_with_protocol_metadata_and_assignment(version: int) -> None:
    host = Host()
    (member,) = static_members(host, "desk")
    described = host.describe("g", version)
    assert (described.error_code, described.group_id, described.group_state) == (0, "g", "Stable")
    assert (described.protocol_type, described.protocol_data) == ("consumer", "range")
    assert described.authorized_operations == NOT_ASKED
    (shown,) = described.members
    assert (shown.member_id, shown.client_id, shown.client_host) == (member.member_id, "desk", "/10.0.0.7")
    assert shown.group_instance_id == ("desk" if version >= 4 else None)
    assert (shown.member_metadata, shown.member_assignment) == (subscription("orders"), b"for desk")


@pytest.mark.parametrize("version", range(7))
def test_in_other_states_there_is_no_protocol_and_no_metadata_but_assignments(version: int) -> None:
    host = Host()
    a, _ = stable(host, "a", "b")
    a.join()
    described = host.describe("g", version)
    assert (described.group_state, described.protocol_type, described.protocol_data) == (
        "PreparingRebalance",
        "consumer",
        "",
    )
    assert [(each.member_metadata, each.member_assignment) for each in described.members] == [
        (b"", b"for a"),
        (b"", b"for b"),
    ]


def test_while_the_leader_assigns_it_is_the_same() -> None:
    host = Host()
    joined(host, "a")
    described = host.describe("g")
    assert (described.group_state, described.protocol_data) == ("CompletingRebalance", "")
    assert [(each.member_metadata, each.member_assignment) for each in described.members] == [(b"", b"")]


@pytest.mark.parametrize("version", range(7))
def test_an_unknown_group_is_dead_and_in_version_6_not_found(version: int) -> None:
    described = Host().describe("ghost", version)
    error, text = (ErrorCode.GROUP_ID_NOT_FOUND, "Group ghost not found.") if version == 6 else (NONE, None)
    assert described == DescribedGroup(error, text, "ghost", "Dead", "", "", [], NOT_ASKED)


def test_the_empty_group_id_is_allowed() -> None:
    host = Host()
    assert host.describe("", 5).group_state == "Dead"
    commit(host, "", {("orders", 0): 1})
    assert host.describe("").group_state == "Empty"


@pytest.mark.parametrize("version", range(3, 7))
def test_authorized_operations_are_shown_when_asked_for(version: int) -> None:
    host = Host()
    stable(host, "a")
    answer = host.ask(DescribeGroupsRequest(["g"], True), version)
    assert answer.groups[0].authorized_operations > 0


def test_several_groups_at_once() -> None:
    host = Host()
    stable(host, "a", group_id="one")
    commit(host, "two", {("orders", 0): 1})
    answer = host.ask(DescribeGroupsRequest(["one", "ghost", "two"]), 5)
    assert {each.group_id: each.group_state for each in answer.groups} == {
        "one": "Stable",
        "ghost": "Dead",
        "two": "Empty",
    }


# --- ListGroups


@pytest.fixture
def host() -> Host:
    """One group in each state that lasts, and a simple one."""
    host = Host()
    stable(host, "a", group_id="stable", session_timeout_ms=60_000)
    (gone,) = stable(host, "b", group_id="empty")
    gone.leave()
    joined(host, "c", group_id="completing")
    Member(host, "preparing", "d").join()
    commit(host, "simple", {("orders", 0): 1})
    Member(host, "pending", "e").ask_to_join()
    return host


def names(listed: list[ListedGroup]) -> set[str]:
    return {each.group_id for each in listed}


ALL = {"stable", "empty", "completing", "preparing", "simple", "pending"}


def test_every_group_is_listed_with_type_and_state(host: Host) -> None:
    listed = {each.group_id: (each.protocol_type, each.group_state, each.group_type) for each in host.list_groups()}
    assert listed == {
        "stable": ("consumer", "Stable", "classic"),
        "empty": ("consumer", "Empty", "classic"),
        "completing": ("consumer", "CompletingRebalance", "classic"),
        "preparing": ("consumer", "PreparingRebalance", "classic"),
        "simple": ("", "Empty", "classic"),
        "pending": ("", "Empty", "classic"),
    }


@pytest.mark.parametrize("version", range(6))
def test_each_version_lists_all(version: int, host: Host) -> None:
    assert names(host.list_groups(version=version)) == ALL


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize(
    ("states", "found"),
    [
        (["Stable"], {"stable"}),
        (["sTABLE", " empty "], {"stable", "empty", "simple", "pending"}),
        (["CompletingRebalance", "preparingrebalance"], {"completing", "preparing"}),
        (["Dead"], set()),
        (["nonsense"], set()),
        (["nonsense", "Stable"], {"stable"}),
        ([], ALL),
    ],
)
def test_states_are_filtered_without_regard_to_case_and_space(
    version: int, states: list[str], found: set[str], host: Host
) -> None:
    assert names(host.list_groups(states, version=version)) == found


@pytest.mark.parametrize(
    ("types", "found"),
    [(["classic"], ALL), (["Classic", "consumer"], ALL), (["consumer"], set()), (["share"], set()), (["x"], set())],
)
def test_types_are_filtered_without_regard_to_case(types: list[str], found: set[str], host: Host) -> None:
    assert names(host.list_groups(types=types)) == found


def test_both_filters_must_match(host: Host) -> None:
    assert names(host.list_groups(["Stable"], ["classic"])) == {"stable"}
    assert names(host.list_groups(["Stable"], ["consumer"])) == set()


def test_an_empty_broker_lists_nothing() -> None:
    assert list(Host().ask(ListGroupsRequest()).groups) == []


# --- DeleteGroups


@pytest.mark.parametrize("version", range(3))
def test_only_empty_groups_can_be_deleted(version: int, host: Host) -> None:
    assert host.delete(*sorted(ALL), "ghost", version=version) == {
        "stable": ErrorCode.NON_EMPTY_GROUP,
        "completing": ErrorCode.NON_EMPTY_GROUP,
        "preparing": ErrorCode.NON_EMPTY_GROUP,
        "empty": NONE,
        "simple": NONE,
        "pending": NONE,
        "ghost": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    assert names(host.list_groups()) == {"stable", "completing", "preparing"}


def test_all_offsets_go_with_the_group_tombstones_first(host: Host) -> None:
    commit(host, "simple", {("orders", 1): 1, ("payments", 0): 1})
    assert host.delete("simple") == {"simple": NONE}
    assert fetch(host, "simple") == {}
    assert [(kind, value) for kind, _, value in host.records_of("simple")[-4:]] == [
        (1, None),
        (1, None),
        (1, None),
        (2, None),
    ]
    host.crash()
    assert "simple" not in names(host.list_groups())


def test_a_group_named_twice_is_deleted_once(host: Host) -> None:
    answer = host.ask(DeleteGroupsRequest(["simple", "simple"]))
    assert [(each.group_id, each.error_code) for each in answer.results] == [("simple", 0)]


def test_the_empty_group_id_can_be_deleted() -> None:
    host = Host()
    assert host.delete("") == {"": ErrorCode.GROUP_ID_NOT_FOUND}
    commit(host, "", {("orders", 0): 1})
    assert host.delete("") == {"": NONE}


def test_a_deletion_is_answered_when_all_partitions_have_written_it(host: Host) -> None:
    host.disk.is_slow = True
    call = host.send(DeleteGroupsRequest(["simple", "empty", "ghost"]))
    host.write_one()
    host.settle()
    assert not call.is_answered
    host.disk_catches_up()
    assert {each.group_id: each.error_code for each in call.answer.results} == {"simple": 0, "empty": 0, "ghost": 69}


def test_a_deleted_group_can_be_made_again_and_starts_from_the_beginning(host: Host) -> None:
    host.delete("empty")
    (again,) = joined(host, "b", group_id="empty")
    assert again.generation == 1


def test_a_group_deleted_while_an_id_is_pending_does_not_know_it_later(host: Host) -> None:
    pending = Member(host, "pending")
    pending.member_id = pending.ask_to_join().answer.member_id
    host.delete("pending")
    assert pending.ask_to_join().error is ErrorCode.UNKNOWN_MEMBER_ID
    host.advance(20_000)  # the old id's deadline disturbs nobody
    assert "pending" not in names(host.list_groups())
