"""Acquiring records: batches, limits, delivery counts, and records that their consumers may fail at."""

from __future__ import annotations

import pytest

from kohort.coordinator.delivery.states import (
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    RELEASE,
    LogBatch,
    StateBatch,
)
from kohort.coordinator.delivery.window import BrokenState
from tests.coordinator.delivery.support import Delivery, log_of


def deliver_in_vain(delivery: Delivery, times: int) -> None:
    for _ in range(times):
        delivery.fetch()
        delivery.release()
        delivery.persist()


# --- new records ------------------------------------------------------------------------------------------------------


def test_an_available_record_is_acquired_by_one_member() -> None:
    delivery = Delivery(5)
    assert delivery.fetch() == [(0, 4, 1)]
    assert delivery.fetch(member="other") == []
    assert (delivery.start, delivery.end, delivery.states) == (0, 4, "AAAAA")


def test_whole_batches_of_the_log_are_acquired() -> None:
    delivery = Delivery(4, 4, 4)
    assert delivery.fetch(5) == [(0, 7, 1)]
    assert delivery.fetch(1) == [(8, 11, 1)]


def test_in_the_mode_record_limit_no_more_than_wanted_is_acquired() -> None:
    delivery = Delivery(4, 4)
    assert delivery.fetch(3, strictly=True) == [(0, 2, 1)]
    assert (delivery.states, delivery.counts) == ("AAAa", [1, 1, 1, 0])
    assert delivery.fetch(3, strictly=True) == [(3, 3, 1), (4, 5, 1)]
    assert delivery.fetch(30, strictly=True) == [(6, 7, 1)]


def test_ranges_are_cut_where_batches_of_the_log_begin() -> None:
    delivery = Delivery(2, 2, 2, 2, 1)
    assert delivery.fetch(batch_size=3) == [(0, 3, 1), (4, 7, 1), (8, 8, 1)]


def test_ranges_are_not_cut_in_the_mode_record_limit() -> None:
    assert Delivery(2, 2, 2).fetch(batch_size=1, strictly=True) == [(0, 5, 1)]


def test_nothing_is_acquired_for_no_records_or_of_an_empty_log() -> None:
    assert Delivery(3).fetch(0) == []
    assert Delivery(3).fetch(-1) == []
    assert Delivery().fetch() == []


def test_the_first_batch_may_begin_before_the_start_offset() -> None:
    delivery = Delivery(10, start=4)
    assert delivery.fetch() == [(4, 9, 1)]


def test_offsets_that_the_log_does_not_have_are_acquired_with_what_is_around_them() -> None:
    delivery = Delivery(log=[LogBatch(0, 2), LogBatch(10, 12)])
    assert delivery.fetch() == [(0, 12, 1)]  # the client reports the gap


# --- the limit of records in flight -----------------------------------------------------------------------------------


def test_the_window_holds_a_limited_number_of_records() -> None:
    delivery = Delivery(*[1] * 200, partition_max_record_locks=100)
    assert delivery.fetch() == [(0, 99, 1)]
    assert not delivery.share.can_acquire()
    delivery.accept(0, 9)
    assert delivery.share.can_acquire()
    assert delivery.fetch() == [(100, 109, 1)]


def test_the_last_batch_may_exceed_the_limit() -> None:
    assert Delivery(8, 8, partition_max_record_locks=10).fetch() == [(0, 15, 1)]


def test_final_records_count_until_the_start_offset_has_passed_them() -> None:
    delivery = Delivery(*[1] * 20, partition_max_record_locks=10)
    delivery.fetch()
    delivery.accept(5, 9)
    assert not delivery.share.can_acquire()


def test_a_full_window_gives_what_is_available_in_it_and_nothing_behind_it() -> None:
    delivery = Delivery(*[1] * 20, partition_max_record_locks=10)
    delivery.fetch()
    delivery.acknowledge((3, 4, RELEASE))
    assert delivery.share.can_acquire()
    assert delivery.share.next_fetch_offset() == 3
    assert delivery.fetch() == [(3, 4, 2)]
    assert not delivery.share.can_acquire()


# --- records that were delivered before -------------------------------------------------------------------------------


def test_released_records_come_again_with_a_higher_count_and_new_ones_behind_them() -> None:
    delivery = Delivery(5)
    delivery.fetch()
    delivery.acknowledge((0, 4, RELEASE))
    delivery.log = log_of(5, 5)
    assert delivery.fetch() == [(0, 4, 2), (5, 9, 1)]


def test_a_part_of_a_batch_comes_again() -> None:
    delivery = Delivery(10)
    delivery.fetch()
    delivery.acknowledge((2, 3, RELEASE), (6, 7, RELEASE))
    assert delivery.fetch() == [(2, 3, 2), (6, 7, 2)]
    assert delivery.states == "AAAAAAAAAA"


def test_a_batch_whose_records_are_all_released_is_one_run() -> None:
    delivery = Delivery(10)
    delivery.fetch()
    for offset in range(10):
        delivery.acknowledge((offset, offset, RELEASE))
    assert len(list(delivery.share.window.runs())) == 1
    assert delivery.fetch() == [(0, 9, 2)]


def test_a_fetch_that_finds_a_part_of_a_batch_acquires_that_part() -> None:
    delivery = Delivery(3, 3)
    delivery.fetch()  # one batch in the window
    delivery.release()
    delivery.persist()
    assert delivery.fetch(batches=1) == [(0, 2, 2)]
    assert delivery.states == "AAAaaa"


def test_the_limit_of_the_mode_record_limit_holds_for_old_and_new_records_together() -> None:
    delivery = Delivery(4)
    delivery.fetch()
    delivery.release()
    delivery.persist()
    delivery.log = log_of(4, 4)
    assert delivery.fetch(6, strictly=True) == [(0, 3, 2), (4, 5, 1)]


def test_records_that_vanished_from_the_log_are_archived() -> None:
    delivery = Delivery(3, 3, 3)
    delivery.fetch(batch_size=1)
    delivery.release()
    delivery.persist()
    del delivery.log[0]  # compaction
    assert delivery.fetch() == [(3, 5, 2), (6, 8, 2)]
    assert (delivery.start, delivery.share.counts.archived) == (3, 3)


# --- isolating a bad record -------------------------------------------------------------------------------------------


def test_a_batch_that_was_delivered_often_is_halved_each_time() -> None:
    delivery = Delivery(16, delivery_count_limit=10)
    deliver_in_vain(delivery, 5)
    assert delivery.fetch() == [(0, 7, 6)]
    delivery.release()
    delivery.persist()
    assert delivery.fetch() == [(0, 3, 7)]


def test_a_batch_that_was_delivered_often_comes_without_others() -> None:
    delivery = Delivery(4, 4)
    delivery.fetch(batches=1)
    delivery.release()
    delivery.persist()
    delivery.fetch(batches=1)
    delivery.release()
    delivery.persist()
    delivery.fetch(batches=1)
    delivery.release()
    delivery.persist()  # three of five deliveries
    assert delivery.fetch() == [(0, 1, 4)]


def test_other_records_are_delivered_without_a_batch_that_was_delivered_often() -> None:
    persisted = [StateBatch(0, 3, AVAILABLE, 1), StateBatch(4, 7, AVAILABLE, 3)]
    delivery = Delivery(4, 4, persisted=persisted)
    assert delivery.fetch() == [(0, 3, 2)]
    assert delivery.fetch() == [(4, 5, 4)]


def test_the_last_attempt_is_made_with_one_record_alone() -> None:
    persisted = [StateBatch(0, 3, AVAILABLE, 4), StateBatch(4, 5, AVAILABLE, 1)]
    delivery = Delivery(4, 2, persisted=persisted)
    assert delivery.fetch() == [(0, 0, 5)]
    assert delivery.fetch() == [(1, 1, 5)]


def test_in_a_split_batch_a_last_attempt_does_not_follow_other_records() -> None:
    delivery = Delivery(4, delivery_count_limit=4)
    delivery.fetch()
    for _ in range(2):
        delivery.acknowledge((3, 3, RELEASE))
        delivery.fetch()
    delivery.acknowledge((1, 3, RELEASE))
    assert delivery.counts == [1, 1, 1, 3]
    assert delivery.fetch() == [(1, 2, 2)]
    assert delivery.fetch() == [(3, 3, 4)]


def test_with_a_limit_of_two_there_is_no_last_attempt_alone() -> None:
    delivery = Delivery(4, delivery_count_limit=2)
    deliver_in_vain(delivery, 1)
    assert delivery.fetch() == [(0, 3, 2)]


# --- what was persisted -----------------------------------------------------------------------------------------------


def test_a_share_partition_goes_on_with_what_was_persisted() -> None:
    persisted = [StateBatch(2, 4, ACKNOWLEDGED, 1), StateBatch(5, 6, AVAILABLE, 2), StateBatch(7, 8, ARCHIVED, 5)]
    delivery = Delivery(10, start=2, persisted=persisted)
    assert (delivery.start, delivery.end) == (5, 8)
    assert delivery.fetch() == [(5, 6, 3), (9, 9, 1)]


def test_what_lies_between_persisted_batches_is_fetched() -> None:
    persisted = [StateBatch(4, 5, ACKNOWLEDGED, 1), StateBatch(8, 9, AVAILABLE, 1)]
    delivery = Delivery(12, persisted=persisted)
    assert delivery.share.next_fetch_offset() == 0
    assert delivery.fetch() == [(0, 3, 1), (6, 7, 1), (8, 9, 2), (10, 11, 1)]


def test_the_start_offset_does_not_pass_what_is_missing() -> None:
    delivery = Delivery(10, persisted=[StateBatch(2, 9, ACKNOWLEDGED, 1)])
    assert (delivery.start, delivery.share.next_fetch_offset()) == (0, 0)
    assert delivery.fetch(1) == [(0, 1, 1)]
    delivery.accept(0, 1)
    assert delivery.start == 2  # what is behind it is passed with the next records
    delivery.log = log_of(10, 2)
    assert delivery.fetch() == [(10, 11, 1)]
    delivery.accept(10, 11)
    assert delivery.start == 12


def test_a_full_window_moves_on_once_nothing_is_missing_in_it() -> None:
    persisted = [StateBatch(2, 5, ACKNOWLEDGED, 1), StateBatch(6, 9, ACKNOWLEDGED, 1)]
    delivery = Delivery(10, 4, persisted=persisted, partition_max_record_locks=10)
    assert delivery.fetch() == [(0, 1, 1)]
    assert not delivery.share.can_acquire()  # two records are locked
    delivery.accept(0, 1)
    assert delivery.share.can_acquire()
    assert delivery.fetch() == [(10, 13, 1)]


def test_what_was_missing_and_has_vanished_is_passed() -> None:
    delivery = Delivery(log=log_of(8, first=2), persisted=[StateBatch(2, 5, AVAILABLE, 1)])
    assert delivery.share.next_fetch_offset() == 0
    assert delivery.fetch() == [(2, 5, 2), (6, 9, 1)]
    delivery.accept(2, 9)
    assert delivery.start == 10


def test_what_has_vanished_is_passed_behind_a_batch_that_is_final() -> None:
    """The gap is looked for from offset 1 on, and begins at 2."""
    persisted = [StateBatch(0, 0, AVAILABLE, 2), StateBatch(1, 1, ARCHIVED, 1), StateBatch(5, 12, AVAILABLE, 1)]
    log = [LogBatch(0, 0), LogBatch(13, 13)]
    delivery = Delivery(log=log, persisted=persisted, partition_max_record_locks=12)
    assert delivery.fetch(batches=1) == [(0, 0, 3)]
    assert delivery.fetch() == []
    delivery.accept(0, 0)
    assert delivery.fetch() == [(13, 13, 1)]


@pytest.mark.parametrize("limit", [1, 3])
def test_missing_records_are_acquired_up_to_the_next_batch(limit: int) -> None:
    delivery = Delivery(10, persisted=[StateBatch(4, 9, ACKNOWLEDGED, 1)])
    assert delivery.fetch(limit) == [(0, 3, 1)]


# --- the log starts later ---------------------------------------------------------------------------------------------


def test_the_start_offset_follows_the_log() -> None:
    delivery = Delivery(4, 4)
    assert delivery.share.log_starts_at(4)
    assert (delivery.start, delivery.end) == (4, 4)
    assert delivery.fetch() == [(4, 7, 1)]
    assert not delivery.share.log_starts_at(3)
    assert delivery.start == 4


def test_available_records_below_the_log_are_archived() -> None:
    delivery = Delivery(4, 4)
    delivery.fetch()
    delivery.acknowledge((2, 5, RELEASE))
    delivery.share.log_starts_at(4)
    assert delivery.states == "AAxxaaAA"
    assert delivery.share.counts.archived == 2
    assert delivery.fetch() == [(4, 5, 2)]


def test_acquired_records_below_the_log_are_archived_when_they_come_back() -> None:
    delivery = Delivery(4)
    delivery.fetch()
    delivery.share.log_starts_at(2)
    assert delivery.states == "AAAA"
    delivery.release()
    assert delivery.persist() == [(0, 1, ARCHIVED, 1), (2, 3, AVAILABLE, 1)]
    assert delivery.start == 2


def test_acquired_records_below_the_log_are_archived_when_their_locks_expire() -> None:
    delivery = Delivery(4)
    delivery.fetch()
    delivery.share.log_starts_at(2)
    delivery.pass_time()
    assert delivery.persist() == [(0, 1, ARCHIVED, 1), (2, 3, AVAILABLE, 1)]


def test_final_records_below_the_log_are_not_counted_any_more() -> None:
    delivery = Delivery(6)
    delivery.fetch()
    delivery.accept(2, 5)
    assert delivery.share.window.complete_count == 4
    delivery.share.log_starts_at(4)
    assert delivery.share.window.complete_count == 2


def test_the_log_may_start_behind_the_window() -> None:
    delivery = Delivery(4)
    delivery.fetch()
    delivery.share.log_starts_at(9)
    assert (delivery.start, delivery.end, delivery.share.next_fetch_offset()) == (9, 9, 9)
    delivery.pass_time()
    delivery.persist()
    assert delivery.start == 9
    delivery.log = log_of(3, first=9)
    assert delivery.fetch() == [(9, 11, 1)]


# --- records of aborted transactions ----------------------------------------------------------------------------------


def test_what_was_aborted_is_archived_and_not_delivered() -> None:
    delivery = Delivery(2, 3, 2, aborted=[LogBatch(2, 4)])
    assert delivery.fetch() == [(0, 1, 1), (5, 6, 1)]
    assert (delivery.states, delivery.counts) == ("AAxxxAA", [1] * 7)
    assert delivery.share.window.complete_count == 3
    assert delivery.share.counts.acquired == 4


def test_ranges_are_cut_around_what_was_aborted() -> None:
    delivery = Delivery(2, 2, 2, 2, 2, aborted=[LogBatch(0, 1), LogBatch(4, 5), LogBatch(6, 7)])
    assert delivery.fetch(batch_size=3) == [(2, 3, 1), (8, 9, 1)]


def test_what_was_aborted_is_left_out_again_after_a_crash() -> None:
    delivery = Delivery(2, 2, 2, aborted=[LogBatch(2, 3)], persisted=[StateBatch(4, 5, ACKNOWLEDGED, 1)])
    assert delivery.fetch() == [(0, 1, 1)]
    delivery.accept(0, 1)
    assert delivery.share.next_fetch_offset() == 6


def test_a_full_window_of_what_was_aborted_makes_room() -> None:
    delivery = Delivery(4, 4, aborted=[LogBatch(0, 3)], partition_max_record_locks=4)
    assert delivery.fetch() == []
    assert delivery.share.can_acquire()
    assert delivery.fetch() == [(4, 7, 1)]


# --- states that no leader has written: any client may do so ----------------------------------------------------------


def test_a_record_that_was_delivered_as_often_as_can_be_counted() -> None:
    delivery = Delivery(2, persisted=[StateBatch(0, 1, AVAILABLE, 2**15 - 1)])
    assert delivery.fetch() == [(0, 0, 2**15 - 1)]
    delivery.release()
    assert delivery.persist() == [(0, 0, ARCHIVED, 2**15 - 1)]


@pytest.mark.parametrize("state", [-1, 5, 9])
def test_records_cannot_be_in_any_other_state(state: int) -> None:
    with pytest.raises(BrokenState, match="has no state that records can be in"):
        Delivery(2, persisted=[StateBatch(0, 1, state, 1)])


def test_a_record_that_is_acquired_by_nobody_is_freed_with_the_next_locks_that_expire() -> None:
    delivery = Delivery(2, 2, persisted=[StateBatch(0, 1, ACQUIRED, 1)])
    assert delivery.fetch() == [(2, 3, 1)]
    delivery.pass_time()
    delivery.persist()
    assert delivery.fetch() == [(0, 1, 2), (2, 3, 2)]
