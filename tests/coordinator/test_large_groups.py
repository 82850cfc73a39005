"""Classic groups with so many members that what a rebalance leaves to do is done in pieces, between other requests."""

from __future__ import annotations

from kohort.coordinator.classic.delayed_join import FEW_MEMBERS
from kohort.coordinator.group_shard import LARGE_RECORD_BYTES
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.coordinator.consumer.words import Answer, Group
from tests.coordinator.members import NONE, Member, complete_joins, leader_of
from tests.coordinator.support import FakeTopics, Host
from tests.group_requests import subscription

MANY = FEW_MEMBERS + 20
SESSION_MS = 10_000


def a_large_group(host: Host, size: int = 0) -> list[Member]:
    """A stable group. `size`: bytes of each member's assignment."""
    members = [Member(host, name=f"m{number}", version=3) for number in range(MANY)]
    complete_joins(host, members)
    sync(members, size)
    return members


def sync(members: list[Member], size: int = 0) -> None:
    leader = leader_of(members)
    calls = [member.sync() for member in members if member is not leader]
    calls.append(leader.sync({member.member_id: bytes(size) for member in members}))
    assert {call.error for call in calls} == {NONE}


def test_members_of_a_large_group_have_their_sessions() -> None:
    host = Host()
    (a, b, *_) = a_large_group(host)
    host.advance(SESSION_MS - 1_000)
    assert a.heartbeat() is NONE
    host.advance(2_000)
    assert set(host.classic("g").members) == {a.member_id}
    assert (a.heartbeat(), b.heartbeat()) == (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID)


def test_a_member_whose_session_begins_in_a_later_piece_is_not_removed_for_its_old_one() -> None:
    host = Host()
    members = a_large_group(host)
    *others, last = sorted(members, key=lambda member: not member.is_leader)  # the leader begins
    for member in others:
        member.ask_to_join()
    for _ in range(2):  # longer than a session: those who wait for an answer are not removed
        host.advance(SESSION_MS - 1_000)
        assert last.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    host.does_pieces_at_once = False
    last.ask_to_join()
    assert {member.learn().generation for member in members} == {2}
    host.advance(SESSION_MS - 1)
    assert len(host.classic("g").members) == MANY


def test_the_topics_of_a_generation_are_those_of_its_members_whoever_joins_later() -> None:
    host = Host(topics=FakeTopics(orders=1, payments=1))
    a = Member(host, name="a", protocols=[("range", subscription("orders"))])
    complete_joins(host, [a])
    sync([a])
    Member(host, name="b", protocols=[("range", subscription("payments"))]).join()
    assert host.classic("g").subscribed_topics == frozenset({"orders"})


def test_a_group_whose_record_is_very_large_is_loaded_in_several_steps() -> None:
    host = Host(partition_count=1)
    members = a_large_group(host, size=LARGE_RECORD_BYTES // MANY)
    host.crash(load=False)
    (shard,) = host.runtime.shards
    steps = sum(1 for batch in host.disk.batches[0] for _ in shard.load_chunk(batch, len(batch)))
    assert steps > 0
    sessions = sum(1 for _ in host.runtime.loaded(shard, host.steady_ms, host.now))
    assert sessions > 0
    assert {member.heartbeat() for member in members} == {NONE}


def test_very_many_members_of_a_consumer_group_are_sent_away_in_pieces() -> None:
    host = Host(partition_count=1)
    group = Group(host)
    names = [f"member-{number}" for number in range(MANY)]
    for name in names:
        assert isinstance(group.join(name, ()), Answer)
    host.disk.is_slow = True
    host.does_pieces_at_once = False
    call = host.send(
        LeaveGroupRequest("billing", "", [MemberIdentity(name, None, None) for name in (*names, "nobody")])
    )
    assert 0 < len(group.object.members) < MANY
    assert group.object.members.keys() >= {names[-1]}
    while host.runtime.go_on(host.steady_ms, host.now):
        host.settle()
    assert not call.is_answered
    host.disk_catches_up()
    errors = [each.error_code for each in call.answer.members]
    assert errors == [NONE] * MANY + [ErrorCode.UNKNOWN_MEMBER_ID]
    assert group.state == "Empty"
    host.crash()
    assert group.state == "Empty"
