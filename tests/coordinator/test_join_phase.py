"""The join phase: how long it waits and how it ends; the choice of protocol and leader. Times are milliseconds."""

from collections import Counter

import pytest

from kohort.coordinator.classic.member import Member as GroupMember
from kohort.coordinator.classic.protocol_vote import choose_protocol
from kohort.protocol.error_codes import ErrorCode
from tests.coordinator.members import (
    Member,
    complete_joins,
    joined,
    leave,
    protocols,
    stable,
    static_members,
    sync_all,
)
from tests.coordinator.support import START, Host
from tests.group_requests import subscription

NONE = ErrorCode.NONE


def answered_after(member: Member) -> int:
    """Milliseconds from the start of the test to the answer of its JoinGroup."""
    assert member.joining is not None
    assert member.joining.answered_at is not None
    return member.joining.answered_at - START


# --- the first wait


def test_a_single_member_waits_for_the_initial_delay() -> None:
    host = Host()
    a = Member(host)
    a.join()
    host.advance(2_999)
    assert a.joining is not None
    assert not a.joining.is_answered
    host.advance(10_000)
    assert answered_after(a) == 3_000


def test_a_second_member_makes_the_first_wait_one_delay_longer() -> None:
    host = Host()
    a = Member(host, name="a", rebalance_timeout_ms=10_000)
    b = Member(host, name="b", rebalance_timeout_ms=10_000)
    a.join()
    host.advance(1_000)
    b.join()
    host.advance(20_000)
    assert (answered_after(a), answered_after(b)) == (6_000, 6_000)


def test_the_first_wait_ends_with_the_first_members_rebalance_timeout_though_others_have_longer_ones() -> None:
    host = Host()
    a = Member(host, name="a", rebalance_timeout_ms=4_000)
    b = Member(host, name="b", rebalance_timeout_ms=60_000)
    a.join()
    host.advance(1_000)
    b.join()
    host.advance(20_000)
    assert answered_after(a) == 4_000


def test_members_who_keep_arriving_stretch_the_first_wait_up_to_the_rebalance_timeout() -> None:
    host = Host()
    members = [Member(host, name=str(n), rebalance_timeout_ms=10_000) for n in range(6)]
    for member in members:
        member.join()
        host.advance(2_000)
    host.advance(20_000)
    # 3000 + 3000 + 3000 + 1000: what remains shrinks by each wait that has passed
    assert answered_after(members[0]) == 10_000
    assert members[4].joining is not None
    assert members[4].joining.answer.generation_id == 1
    assert answered_after(members[5]) > 10_000  # it came when the wait was over


def test_a_rebalance_timeout_below_the_delay_leaves_nothing_to_stretch() -> None:
    host = Host()
    a = Member(host, name="a", rebalance_timeout_ms=2_000)
    b = Member(host, name="b", rebalance_timeout_ms=60_000)
    a.join()
    host.advance(1_000)
    b.join()
    host.advance(20_000)
    assert answered_after(a) == 3_000


def test_with_a_delay_of_zero_the_first_member_is_answered_at_once() -> None:
    host = Host(initial_rebalance_delay_ms=0)
    a = Member(host)
    a.join()
    host.advance(0)
    assert answered_after(a) == 0


def test_the_flag_of_a_late_arrival_survives_the_join_phase_as_in_kafka() -> None:
    # Measured on Kafka 4.3.1: whoever arrives when nothing is left to stretch makes the next first wait longer.
    host = Host()
    members = [Member(host, name=name, rebalance_timeout_ms=4_000) for name in "abc"]
    members[0].join()
    host.advance(1_000)
    members[1].join()
    host.advance(2_500)
    members[2].join()
    host.advance(500)
    for member in members:
        assert answered_after(member) == 4_000
        member.learn().leave()
    assert host.state("g") == "Empty"
    alone = Member(host, name="d")
    before = host.now
    alone.join()
    host.advance(20_000)
    assert alone.joining is not None
    assert alone.joining.answered_at == before + 6_000


def test_the_first_wait_does_not_end_early_when_all_who_could_come_are_there() -> None:
    host = Host()
    a, b = Member(host, name="a"), Member(host, name="b")
    b.member_id = b.ask_to_join().answer.member_id  # pending
    a.join()
    b.ask_to_join()
    host.advance(2_999)
    assert a.joining is not None
    assert not a.joining.is_answered


def test_a_pending_id_that_expires_ends_the_first_wait_if_everyone_else_is_there() -> None:
    host = Host(min_session_timeout_ms=1_000)
    Member(host, name="b", session_timeout_ms=1_000).ask_to_join()
    a = Member(host, name="a")
    a.join()
    host.advance(20_000)
    assert answered_after(a) == 1_000


def test_a_pending_id_that_leaves_does_not_end_the_first_wait() -> None:
    host = Host()
    b = Member(host, name="b")
    b.member_id = b.ask_to_join().answer.member_id
    a = Member(host, name="a")
    a.join()
    host.advance(1_000)
    assert b.leave() is NONE
    host.advance(20_000)
    assert answered_after(a) == 3_000


def test_a_pending_id_does_not_hold_up_the_first_wait() -> None:
    host = Host()
    Member(host, name="b").ask_to_join()
    a = Member(host, name="a")
    a.join()
    host.advance(20_000)
    assert answered_after(a) == 3_000


def test_when_everyone_leaves_during_the_first_wait_the_group_becomes_empty_at_its_end() -> None:
    host = Host()
    a = Member(host)
    a.join()
    assert a.leave() is NONE
    host.advance(2_999)
    assert host.state("g") == "PreparingRebalance"
    host.advance(1)
    assert host.state("g") == "Empty"
    assert host.classic("g").generation == 1


def test_a_member_of_the_first_wait_that_leaves_is_told_that_it_is_unknown() -> None:
    host = Host()
    a = Member(host)
    call = a.join()
    a.leave()
    assert (call.error, call.answer.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")


# --- later waits


def test_a_rebalance_completes_as_soon_as_everyone_has_rejoined() -> None:
    host = Host()
    a, b = stable(host, "a", "b")
    newcomer = Member(host, name="c")
    newcomer.join()
    assert (a.heartbeat(), b.heartbeat()) == (27, 27)
    a.join()
    assert a.joining is not None
    assert not a.joining.is_answered
    b.join()
    assert a.joining.answer.generation_id == 2
    assert len(a.joining.answer.members) == 3
    assert newcomer.learn().generation == 2


def test_members_that_do_not_rejoin_are_dropped_after_the_longest_rebalance_timeout() -> None:
    host = Host()
    a, b = complete_joins(host, [Member(host, name="a", rebalance_timeout_ms=5_000), Member(host, name="b")])
    a.sync({})
    b.sync()
    a.protocols = protocols("range", metadata=b"")
    started = host.now
    call = a.join()
    for _ in range(31):
        b.heartbeat()
        host.advance(1_000)
    assert call.answered_at == started + 30_000  # b's rebalance timeout, the longest
    assert [each.member_id for each in call.answer.members] == [a.member_id]
    assert b.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_pending_id_blocks_a_rebalance_until_it_expires() -> None:
    host = Host(min_session_timeout_ms=1_000)
    a, _ = stable(host, "a", "b")
    Member(host, name="p", session_timeout_ms=2_500).ask_to_join()
    started = host.now
    b = Member(host, name="b")
    call = a.join()
    for member in host.describe("g").members:
        if member.client_id == "b":
            b.member_id = member.member_id
    b.ask_to_join()
    assert not call.is_answered
    host.advance(10_000)
    assert call.answered_at == started + 2_500


def test_a_pending_id_that_joins_or_leaves_lets_the_rebalance_go_on() -> None:
    for joins in (True, False):
        host = Host()
        a, b = stable(host, "a", "b")
        pending = Member(host, name="p")
        pending.member_id = pending.ask_to_join().answer.member_id
        call = a.join()
        b.join()
        assert not call.is_answered
        if joins:
            pending.ask_to_join()
        else:
            assert pending.leave() is NONE
        assert call.answer.generation_id == 2
        assert len(call.answer.members) == (3 if joins else 2)


def test_a_member_that_leaves_lets_the_rebalance_go_on() -> None:
    host = Host()
    a, b = stable(host, "a", "b")
    call = a.join()
    assert b.leave() is NONE
    assert [each.member_id for each in call.answer.members] == [a.member_id]


def test_a_session_that_ends_lets_the_rebalance_go_on() -> None:
    host = Host()
    a, _ = stable(host, "a", "b")
    host.advance(5_000)
    started = host.now
    call = a.join()
    host.advance(20_000)
    assert call.answered_at == started + 5_000


def test_a_silent_static_member_is_kept_and_a_silent_dynamic_one_is_not() -> None:
    host = Host()
    members = [Member(host, name="static", instance_id="desk", session_timeout_ms=100_000)]
    members += [Member(host, name=name, session_timeout_ms=100_000) for name in "ab"]
    _, a, b = complete_joins(host, members)
    next(m for m in members if m.is_leader).sync({})
    call = Member(host, name="c").join()
    a.join()
    host.advance(30_000)
    assert call.error is NONE
    assert {each.client_id for each in host.describe("g").members} == {"static", "a", "c"}
    assert b.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_silent_leader_is_followed_by_a_member_that_has_joined() -> None:
    host = Host()
    leader, follower = static_members(host, "one", "two", session_timeout_ms=100_000)
    assert leader.is_leader
    follower.protocols = protocols("range", metadata=subscription("payments"))
    call = follower.join()
    host.advance(30_000)
    assert call.answer.leader == follower.member_id
    assert {each.group_instance_id for each in call.answer.members} == {"one", "two"}


def test_while_only_silent_static_members_are_left_the_join_phase_is_prolonged() -> None:
    host = Host()
    leader, _ = complete_joins(
        host,
        [
            Member(host, name="s", instance_id="desk", session_timeout_ms=200_000),
            Member(host, name="d", session_timeout_ms=200_000),
        ],
    )
    other = Member(host, name="c")
    other.join()
    other.leave()
    assert host.state("g") == "PreparingRebalance"
    host.advance(30_000)  # d is dropped, s is kept: nobody is there to lead
    assert host.state("g") == "PreparingRebalance"
    assert {each.client_id for each in host.describe("g").members} == {"s"}
    call = leader.join()
    assert call.answer.generation_id == 2


@pytest.mark.parametrize("rebalance_timeout_ms", [0, -1])
def test_a_silent_static_member_without_patience_holds_up_nobody_but_its_group(rebalance_timeout_ms: int) -> None:
    host = Host()
    members = [
        Member(host, name="patient", instance_id="one"),
        Member(host, name="hasty", instance_id="two", rebalance_timeout_ms=rebalance_timeout_ms),
    ]
    complete_joins(host, members)
    sync_all(members)
    leave(host, "g", ("", "one"))
    purgatory = host.state_of("g").purgatory
    purgatory.expire(host.steady_ms)  # its rebalance timeout is over at once, and nobody is there to lead
    deadline = purgatory.next_deadline()
    assert deadline is not None
    assert deadline > host.steady_ms  # else the broker would look again and again, and never do anything else
    host.advance(9_999)
    assert host.state("g") == "PreparingRebalance"
    host.advance(1)
    assert host.state("g") == "Empty"  # its session ends the waiting


def test_a_generation_is_not_written_before_the_leader_has_assigned() -> None:
    host = Host()
    joined(host, "a", "b")
    assert [value.generation for _, _, value in host.records_of("g")] == [0]


# --- protocols


def vote(*lists: str) -> str:
    members = [
        GroupMember(str(n), None, "", "", 1, 1, [(name, b"") for name in names.split()])
        for n, names in enumerate(lists)
    ]
    return choose_protocol(members, Counter(name for names in lists for name in set(names.split())))


def test_the_protocol_that_most_members_like_best_wins() -> None:
    assert vote("range sticky", "sticky range", "sticky range") == "sticky"


def test_only_protocols_that_everyone_knows_can_win() -> None:
    assert vote("sticky range", "sticky range", "range") == "range"


def test_a_member_votes_for_the_first_of_its_own_list_that_everyone_knows() -> None:
    assert vote("x roundrobin range", "y range roundrobin", "z range roundrobin") == "range"


@pytest.mark.parametrize(
    ("names", "winner"),
    [
        ("roundrobin range", "range"),
        ("range sticky", "sticky"),
        ("cooperative-sticky roundrobin", "roundrobin"),
        ("default sticky", "default"),
        ("cooperative-sticky range", "range"),
    ],
)
def test_a_tie_is_broken_by_the_bucket_of_a_java_hash_map(names: str, winner: str) -> None:
    one, other = names.split()
    assert vote(f"{one} {other}", f"{other} {one}") == winner
    assert vote(f"{other} {one}", f"{one} {other}") == winner


def test_members_are_shown_with_the_metadata_of_the_chosen_protocol() -> None:
    host = Host()
    first = Member(host, name="a", protocols=[("range", b"a-range"), ("sticky", b"a-sticky")])
    second = Member(host, name="b", protocols=[("sticky", b"b-sticky")])
    complete_joins(host, [first, second])
    assert first.joining is not None
    assert first.joining.answer.protocol_name == "sticky"
    assert [each.metadata for each in first.joining.answer.members] == [b"a-sticky", b"b-sticky"]


# --- the leader


def test_the_first_member_leads() -> None:
    members = joined(Host(), "a", "b", "c")
    assert members[0].is_leader


def test_when_the_leader_leaves_another_leads() -> None:
    host = Host()
    a, b, c = stable(host, "a", "b", "c")
    a.leave()
    b.join()
    call = c.join()
    assert call.answer.leader in (b.member_id, c.member_id)


def test_subscriptions_that_make_no_sense_do_not_stop_the_join_phase() -> None:
    # Kafka 4.3.1 throws inside for a topic count beyond the bytes, and the group is wedged for good: not copied.
    host = Host()
    huge = b"\x00\x00\x7f\xff\xff\xff"
    member = Member(host, protocols=[("range", huge)])
    member.join()
    host.advance(3_000)
    assert member.joining is not None
    assert member.joining.error is NONE
    assert host.classic("g").subscribed_topics is None
