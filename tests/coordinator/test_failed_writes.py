"""A disk that refuses: everyone who waits is told to come again, once, and the shard starts over from its log."""

from kohort.coordinator.shard import Status
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.delete_groups import DeleteGroupsRequest
from tests.coordinator.members import (
    Member,
    assign,
    commit,
    delete_offsets,
    errors_of,
    fetch,
    joined,
    send_fetch,
    stable,
)
from tests.coordinator.support import Host

NONE = ErrorCode.NONE
FAILED = ErrorCode.NOT_COORDINATOR
NOT_AVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_commit_that_is_not_written_is_not_acknowledged_and_not_remembered() -> None:
    host = Host()
    (a,) = stable(host, "a")
    assert a.commit({("orders", 0): 1}) is NONE
    host.disk.is_slow = True
    call = a.send_commit({("orders", 0): 2, ("orders", 1): 2})
    host.disk_fails()
    assert set(errors_of(call).values()) == {FAILED}
    host.load()
    assert fetch(host, "g") == {("orders", 0): 1}
    assert a.commit({("orders", 0): 2}) is NONE


def test_partitions_that_were_refused_keep_their_own_error() -> None:
    host = Host()
    host.disk.is_slow = True
    call = commit(host, "g", {("orders", 0): 1, ("orders", 99): 1})
    host.disk_fails(NOT_AVAILABLE)
    assert errors_of(call) == {("orders", 99): 3, ("orders", 0): NOT_AVAILABLE}


def test_an_assignment_that_is_not_written_fails_every_sync_and_the_last_generation_is_back() -> None:
    host = Host()
    leader, follower = stable(host, "a", "b")
    leader.join()
    follower.join()
    waiting = follower.learn().sync()
    host.disk.is_slow = True
    call = leader.learn().sync(assign([leader, follower]))
    late = follower.sync()
    host.disk_fails()
    assert (call.error, waiting.error, late.error) == (FAILED, FAILED, FAILED)
    assert (call.answer.assignment, call.answer.protocol_type) == (b"", None)
    host.load()
    assert host.state("g") == "Stable"
    assert leader.heartbeat() is ErrorCode.ILLEGAL_GENERATION
    assert leader.heartbeat(1) is NONE


def test_parked_joins_and_syncs_of_the_shard_are_answered_too() -> None:
    host = Host(partition_count=1)
    _, follower = joined(host, "a", "b", group_id="g2")
    parked_sync = follower.sync()
    parked_join = Member(host, "g1").join()
    host.disk.is_slow = True
    commit(host, "g3", {("orders", 0): 1})
    host.disk_fails(NOT_AVAILABLE)
    assert (parked_join.error, parked_join.answer.member_id) == (NOT_AVAILABLE, "")
    assert parked_sync.error is NOT_AVAILABLE


def test_a_waiting_join_is_told_when_the_first_record_of_its_group_is_not_written() -> None:
    host = Host()
    host.disk.is_slow = True
    call = Member(host, version=3).join()
    host.disk_fails()
    assert call.error is FAILED
    host.load()
    assert host.list_groups() == []


def test_only_the_shard_that_failed_starts_over() -> None:
    host = Host()
    (a,) = stable(host, "a", group_id="orders")
    (b,) = stable(host, "b", group_id="g1")
    host.disk.is_slow = True
    a.send_commit({("orders", 0): 1})
    host.disk_fails()
    assert host.shard_of("orders").status is Status.LOADING
    assert b.commit({("orders", 0): 1}) is NONE
    assert a.commit({("orders", 0): 1}) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert a.heartbeat() is NONE
    host.load()
    assert a.commit({("orders", 0): 1}) is NONE


def test_every_write_on_its_way_fails_with_the_first_and_everyone_is_told_once() -> None:
    host = Host()
    host.disk.is_slow = True
    calls = [commit(host, "g", {("orders", n): n}) for n in range(3)]
    waiting = send_fetch(host, "g")
    assert len(host.disk.on_the_way) == 3
    host.disk_fails()  # Call.reply would refuse a second answer
    assert [set(errors_of(call).values()) for call in calls] == [{FAILED}] * 3
    assert waiting.answer.groups[0].error_code == FAILED
    host.load()
    assert fetch(host, "g") == {}


def test_a_write_that_made_it_after_an_earlier_one_failed_answers_nobody_again() -> None:
    host = Host()
    host.disk.is_slow = True
    first, second = (commit(host, "g", {("orders", n): n}) for n in range(2))
    one, other = host.disk.on_the_way
    host.disk.on_the_way = []
    host.runtime.write_failed(one, FAILED)
    host.runtime.written(other, host.steady_ms)
    host.runtime.write_failed(other, FAILED)
    host.settle()
    assert set(errors_of(first).values()) == set(errors_of(second).values()) == {FAILED}
    assert host.shard_of("g").status is Status.LOADING


def test_a_reload_that_began_is_not_thrown_away_by_a_late_failure() -> None:
    host = Host()
    host.disk.is_slow = True
    for n in range(2):
        commit(host, "g", {("orders", n): n})
    one, other = host.disk.on_the_way
    host.disk.on_the_way, host.disk.is_slow = [], False
    host.runtime.write_failed(one, FAILED)
    host.load()
    commit(host, "g", {("orders", 5): 5})
    host.runtime.write_failed(other, FAILED)
    assert fetch(host, "g") == {("orders", 5): 5}


def test_reads_wait_for_writes_and_fail_with_them_in_every_version() -> None:
    for version in range(1, 11):
        host = Host()
        commit(host, "g", {("orders", 0): 1})
        host.disk.is_slow = True
        commit(host, "g", {("orders", 0): 2})
        call = send_fetch(host, "g", [("orders", 0)], version=version)
        assert not call.is_answered
        host.disk_fails()
        if version == 1:
            (partition,) = call.answer.topics[0].partitions
            assert (partition.error_code, partition.committed_offset) == (FAILED, -1)
        elif version < 8:
            assert (call.error, list(call.answer.topics)) == (FAILED, [])
        else:
            (group,) = call.answer.groups
            assert (group.error_code, list(group.topics)) == (FAILED, [])


def test_a_read_of_what_is_being_written_waits_for_the_last_write() -> None:
    host = Host()
    host.disk.is_slow = True
    commit(host, "g", {("orders", 0): 1})
    commit(host, "g", {("orders", 0): 2})
    call = send_fetch(host, "g")
    host.write_one()
    host.settle()
    assert not call.is_answered
    host.disk_catches_up()
    assert call.answer.groups[0].topics[0].partitions[0].committed_offset == 2


def test_deletions_that_are_not_written_are_told_to_come_again() -> None:
    host = Host()
    commit(host, "g", {("orders", 0): 1})
    host.disk.is_slow = True
    call = delete_offsets(host, "g", ("orders", 0))
    host.disk_fails()
    assert (call.error, list(call.answer.topics)) == (FAILED, [])
    host.load()
    host.disk.is_slow = True
    call = host.send(DeleteGroupsRequest(["g", "ghost"]))
    host.disk_fails()
    assert {each.group_id: each.error_code for each in call.answer.results} == {
        "g": FAILED,
        "ghost": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    host.load()
    assert fetch(host, "g") == {("orders", 0): 1}


# --- a disk that takes its time


def test_who_waits_for_the_disk_is_not_gone() -> None:
    """Its connection waits for an answer, so that its heartbeats cannot be heard."""
    host = Host()
    a, b = stable(host, "a", "b")  # sessions of ten seconds
    host.disk.is_slow = True
    waiting = a.send_commit({("orders", 0): 1})
    host.advance(65_000)
    host.disk_catches_up()
    assert set(errors_of(waiting).values()) == {NONE}
    host.advance(3_000)
    assert (a.heartbeat(), b.heartbeat()) == (NONE, NONE)
    host.advance(9_999)
    assert a.heartbeat() is NONE
    host.advance(1)
    assert b.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_other_shards_do_not_wait_for_that() -> None:
    host = Host()
    (a,) = stable(host, "a")
    other = Member(host, "other")
    other.join()
    host.advance(3_000)
    assert host.runtime.shard_of("g") is not host.runtime.shard_of("other")
    host.disk.is_slow = True
    a.send_commit({("orders", 0): 1})
    host.advance(60_000)
    assert not host.classic("other").members
    assert host.classic("g").members


def test_a_write_that_takes_less_than_a_second_holds_nobody_up() -> None:
    host = Host()
    stable(host, "a")
    host.advance(9_500)
    host.disk.is_slow = True
    shard = host.runtime.shard_of("g")
    neighbour = next(name for name in map(str, range(1_000)) if host.runtime.shard_of(name) is shard)
    commit(host, neighbour, {("orders", 0): 1})
    assert shard.in_flight
    host.advance(500)
    assert host.classic("g").members == {}
