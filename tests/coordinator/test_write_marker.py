"""Markers in the log of a group's shard: they commit or drop what is pending, unless they come too late."""

from __future__ import annotations

import pytest

from kohort.coordinator.pending_offsets import PendingOffsets
from kohort.coordinator.shard import Status
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.txn_marker import TxnMarker
from tests.coordinator.members import commit, delete_offsets, fetch, fetched, send_fetch
from tests.coordinator.support import Host
from tests.coordinator.txn_words import Producer, write_marker

NONE = ErrorCode.NONE
FENCED, LATE = ErrorCode.TRANSACTION_COORDINATOR_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH
AGAIN = ErrorCode.NOT_LEADER_OR_FOLLOWER
PLACE, OTHER = ("orders", 0), ("orders", 1)
LOADED_AGAIN = pytest.mark.parametrize("loaded_again", [False, True])


def pending(host: Host) -> PendingOffsets:
    return host.state_of("g").offsets.pending


@LOADED_AGAIN
@pytest.mark.parametrize("commits", [False, True])
def test_a_marker_decides_what_becomes_of_pending_offsets(commits: bool, loaded_again: bool) -> None:
    host = Host()
    commit(host, "g", {PLACE: 10})
    producer = Producer(host)
    producer.commit({PLACE: 20, OTHER: 30})
    assert fetch(host, "g") == {PLACE: 10}
    assert fetched(send_fetch(host, "g", [PLACE], require_stable=True))[PLACE].error_code == 88
    if loaded_again:
        host.crash()
    assert producer.end(commits) is NONE
    if loaded_again:
        host.crash()
    assert fetch(host, "g") == ({PLACE: 20, OTHER: 30} if commits else {PLACE: 10})
    assert fetched(send_fetch(host, "g", [PLACE], require_stable=True))[PLACE].error_code == 0
    assert host.state("g") == "Empty"


@LOADED_AGAIN
def test_the_later_record_in_the_log_wins(loaded_again: bool) -> None:
    host = Host()
    producer = Producer(host)
    producer.commit({PLACE: 200})
    commit(host, "g", {PLACE: 150, OTHER: 150})
    producer.commit({OTHER: 200})
    producer.end(commit=True)
    if loaded_again:
        host.crash()
    assert fetch(host, "g") == {PLACE: 150, OTHER: 200}


@LOADED_AGAIN
def test_a_marker_is_about_its_own_producer_and_all_groups_of_its_partition(loaded_again: bool) -> None:
    host = Host(partition_count=1)
    one, other = Producer(host, 7), Producer(host, 8)
    one.commit({PLACE: 1}, "g")
    one.commit({PLACE: 2}, "h")
    other.commit({PLACE: 3}, "g")
    one.end(commit=True)
    if loaded_again:
        host.crash()
    assert (fetch(host, "g"), fetch(host, "h")) == ({PLACE: 1}, {PLACE: 2})
    assert fetched(send_fetch(host, "g", [PLACE], require_stable=True))[PLACE].error_code == 88
    assert fetched(send_fetch(host, "h", [PLACE], require_stable=True))[PLACE].error_code == 0
    other.end(commit=True)
    assert fetch(host, "g") == {PLACE: 3}


# --- markers that come too late


@LOADED_AGAIN
def test_an_old_coordinator_is_fenced(loaded_again: bool) -> None:
    host = Host()
    Producer(host).commit({PLACE: 1})
    assert write_marker(host, "g", TxnMarker(7, 1, True, 5, 2)).error is NONE
    Producer(host, epoch=1).commit({PLACE: 2})
    if loaded_again:
        host.crash()
    assert write_marker(host, "g", TxnMarker(7, 2, False, 4, 2)).error is FENCED
    assert write_marker(host, "g", TxnMarker(7, 2, True, 5, 2)).error is NONE
    assert fetch(host, "g") == {PLACE: 2}


@LOADED_AGAIN
@pytest.mark.parametrize("version", [0, 1, 2])
def test_an_old_producer_is_fenced(version: int, loaded_again: bool) -> None:
    host = Host()
    Producer(host, epoch=3).commit({PLACE: 1})
    if loaded_again:
        host.crash()
    assert write_marker(host, "g", TxnMarker(7, 2, False, 9, version)).error is LATE
    same = write_marker(host, "g", TxnMarker(7, 3, True, 0, version))
    assert same.error is (LATE if version == 2 else NONE)  # version 2 bumps the epoch with each marker
    assert write_marker(host, "g", TxnMarker(7, 4, True, 0, version)).error is NONE
    assert fetch(host, "g") == {PLACE: 1}


@LOADED_AGAIN
def test_a_marker_that_is_sent_again_is_written_again(loaded_again: bool) -> None:
    host = Host()
    Producer(host).commit({PLACE: 1})
    marker = TxnMarker(7, 1, True, 0, 2)
    assert write_marker(host, "g", marker).error is NONE
    if loaded_again:
        host.crash()
    assert write_marker(host, "g", marker).error is NONE
    assert len(host.log_of("g")) == 3


def test_a_marker_of_a_producer_that_has_written_nothing_fences_its_old_epochs() -> None:
    host = Host()
    assert write_marker(host, "g", TxnMarker(7, 5, False, 0, 2)).error is NONE
    assert Producer(host, epoch=4).commit({PLACE: 1}) is LATE
    assert host.list_groups() == []


def test_producers_are_forgotten_after_a_while_unless_their_transaction_is_open() -> None:
    host = Host()
    Producer(host, 7).commit({PLACE: 1})
    write_marker(host, "g", TxnMarker(7, 5, False, 3, 2))
    Producer(host, 8, epoch=5).commit({PLACE: 1})
    pending(host).expire(host.now - 1)
    assert list(pending(host).producers) == [7, 8]
    pending(host).expire(host.now)
    assert list(pending(host).producers) == [8]
    assert write_marker(host, "g", TxnMarker(7, 0, False, 0, 2)).error is NONE


# --- while the log cannot be written


def test_a_shard_that_is_being_loaded_lets_the_sender_come_again() -> None:
    host = Host(load=False)
    assert write_marker(host, "g", TxnMarker(7, 1, True, 0, 2)).error is AGAIN
    host.load()
    assert write_marker(host, "g", TxnMarker(7, 1, True, 0, 2)).error is NONE


@pytest.mark.parametrize("status", [Status.NOT_OWNED, Status.FAILED, Status.STALLED])
def test_so_does_one_that_is_not_served(status: Status) -> None:
    host = Host()
    host.shard_of("g").status = status
    assert write_marker(host, "g", TxnMarker(7, 1, True, 0, 2)).error is AGAIN


def test_a_write_that_fails_is_tried_again_and_what_was_pending_stays_so() -> None:
    host = Host()
    producer = Producer(host)
    producer.commit({PLACE: 1})
    host.disk.is_slow = True
    marker = write_marker(host, "g", TxnMarker(7, 1, True, 0, 2))
    assert not marker.is_answered
    host.disk_fails()
    assert marker.error is AGAIN
    host.load()
    assert fetch(host, "g") == {}
    assert fetched(send_fetch(host, "g", [PLACE], require_stable=True))[PLACE].error_code == 88
    assert producer.end(commit=True) is NONE
    assert fetch(host, "g") == {PLACE: 1}


def test_a_full_disk_makes_the_sender_come_again_and_a_second_marker_changes_nothing() -> None:
    host = Host()
    Producer(host).commit({PLACE: 1})
    host.disk.is_slow = True
    marker = write_marker(host, "g", TxnMarker(7, 1, True, 0, 2))
    (write,) = host.disk.on_the_way
    host.runtime.stall(write, ErrorCode.NOT_COORDINATOR)
    host.settle()
    assert marker.error is AGAIN
    assert write_marker(host, "g", TxnMarker(7, 1, True, 0, 2)).error is AGAIN
    host.disk_catches_up()
    assert write_marker(host, "g", TxnMarker(7, 1, True, 0, 2)).error is NONE
    assert fetch(host, "g") == {PLACE: 1}
    host.crash()
    assert fetch(host, "g") == {PLACE: 1}


# --- what happens to pending offsets before the marker comes


@LOADED_AGAIN
def test_deleted_offsets_and_groups_have_nothing_pending_any_more(loaded_again: bool) -> None:
    host = Host(partition_count=1)
    producer = Producer(host)
    producer.commit({PLACE: 1, OTHER: 2}, "g")
    producer.commit({PLACE: 1}, "h")
    delete_offsets(host, "g", PLACE)
    assert host.delete("h") == {"h": 0}
    if loaded_again:
        host.crash()
    assert pending(host).has("g", *OTHER)
    assert not pending(host).has("g", *PLACE)
    assert not pending(host).has_any("h")
    producer.end(commit=True)
    assert fetch(host, "g") == {OTHER: 2}
    assert [group.group_id for group in host.list_groups()] == ["g"]


def test_a_transaction_stays_open_even_if_all_its_offsets_were_deleted() -> None:
    host = Host()
    producer = Producer(host)
    producer.commit({PLACE: 1})
    delete_offsets(host, "g", PLACE)
    assert not pending(host)
    assert pending(host).is_open(7, 0)
    assert producer.end(commit=True) is NONE
    assert fetch(host, "g") == {}


def test_a_topic_that_is_deleted_takes_pending_offsets_along() -> None:
    host = Host()
    producer = Producer(host)
    producer.commit({PLACE: 1, ("payments", 0): 2})
    host.delete_topic("orders")
    producer.end(commit=True)
    assert fetch(host, "g") == {("payments", 0): 2}


def test_several_producers_may_have_the_same_offset_pending() -> None:
    host = Host()
    one, other = Producer(host, 7), Producer(host, 8)
    one.commit({PLACE: 1})
    other.commit({PLACE: 2})
    one.commit({PLACE: 3})
    one.end(commit=False)
    assert pending(host).has("g", *PLACE)
    other.end(commit=True)
    assert not pending(host).has_any("g")
    assert fetch(host, "g") == {PLACE: 2}


def test_who_reads_an_offset_of_another_group_is_not_told_of_open_transactions() -> None:
    host = Host(partition_count=1)
    commit(host, "h", {PLACE: 5})
    Producer(host).commit({PLACE: 1}, "g")
    assert fetched(send_fetch(host, "h", [PLACE], require_stable=True))[PLACE].committed_offset == 5
