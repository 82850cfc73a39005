"""Acknowledging: the types, what is refused, and what happens when a write fails."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kohort.coordinator.delivery.acknowledge import (
    BATCH_NOT_ACQUIRED,
    BATCH_OF_ANOTHER,
    BEGINS_BEHIND,
    ENDS_BEHIND,
    NO_RENEWAL,
    OFFSET_NOT_ACQUIRED,
    OFFSET_OF_ANOTHER,
    UNKNOWN,
)
from kohort.coordinator.delivery.states import (
    ACCEPT,
    ACKNOWLEDGED,
    ARCHIVED,
    AVAILABLE,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    RUNS_AT_ONCE,
    StateBatch,
)
from kohort.protocol.error_codes import ErrorCode
from tests.coordinator.delivery.support import LOCK_MS, Delivery, log_of


@pytest.fixture
def delivery() -> Delivery:
    made = Delivery(5, 5)
    assert made.fetch(batch_size=5) == [(0, 4, 1), (5, 9, 1)]
    return made


# --- types ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "state", "letter"),
    [(GAP, ARCHIVED, "x"), (ACCEPT, ACKNOWLEDGED, "+"), (RELEASE, AVAILABLE, "a"), (REJECT, ARCHIVED, "x")],
)
def test_what_becomes_of_records(delivery: Delivery, kind: int, state: int, letter: str) -> None:
    delivery.tell((5, 9, kind))
    assert delivery.states == "AAAAA" + letter * 5
    assert delivery.persist() == [(5, 9, state, 1)]
    assert delivery.states == "AAAAA" + letter * 5


def test_one_type_for_each_record(delivery: Delivery) -> None:
    delivery.tell((1, 6, [ACCEPT, REJECT, RELEASE, GAP, ACCEPT, ACCEPT]))
    assert delivery.states == "A+xax++AAA"
    assert delivery.persist() == [
        (1, 1, ACKNOWLEDGED, 1),
        (2, 2, ARCHIVED, 1),
        (3, 3, AVAILABLE, 1),
        (4, 4, ARCHIVED, 1),
        (5, 6, ACKNOWLEDGED, 1),
    ]


def test_the_start_offset_passes_final_records(delivery: Delivery) -> None:
    delivery.acknowledge((5, 9, ACCEPT))
    assert delivery.start == 0
    delivery.acknowledge((0, 2, [ACCEPT, REJECT, GAP]))
    assert delivery.start == 3
    delivery.acknowledge((3, 4, ACCEPT))
    assert (delivery.start, delivery.end, delivery.states) == (10, 10, "")


def test_the_start_offset_that_is_written_is_the_one_before_the_change(delivery: Delivery) -> None:
    delivery.tell((0, 4, ACCEPT))
    delivery.tell((5, 9, ACCEPT))
    assert [(write.start_offset, write.complete_count) for write in delivery.writes] == [(0, 5), (0, 10)]


def test_an_acknowledgement_may_span_batches(delivery: Delivery) -> None:
    delivery.accept(0, 9)
    assert delivery.start == 10


def test_counts_of_what_happened(delivery: Delivery) -> None:
    delivery.acknowledge((0, 4, [ACCEPT, ACCEPT, RELEASE, REJECT, GAP]))
    counts = delivery.share.counts
    assert (counts.acquired, counts.accepted, counts.released, counts.rejected) == (10, 2, 1, 1)
    delivery.pass_time()
    assert counts.timed_out == 5


# --- too many deliveries ----------------------------------------------------------------------------------------------


def test_a_record_that_is_released_too_often_is_archived() -> None:
    delivery = Delivery(2, delivery_count_limit=2)
    delivery.fetch()
    delivery.acknowledge((0, 1, RELEASE))
    delivery.fetch()
    assert delivery.acknowledge((0, 1, RELEASE)) is None
    assert (delivery.start, delivery.share.counts.archived) == (2, 2)


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_below_the_start_offset_everything_is_fine(delivery: Delivery) -> None:
    delivery.accept(0, 4)
    assert delivery.acknowledge((0, 4, REJECT)) is None
    assert delivery.writes == []


def test_beyond_what_was_ever_acquired(delivery: Delivery) -> None:
    assert delivery.acknowledge((5, 10, ACCEPT)) == ENDS_BEHIND
    assert delivery.acknowledge((10, 12, ACCEPT)) == BEGINS_BEHIND
    assert ENDS_BEHIND.error == BEGINS_BEHIND.error == ErrorCode.INVALID_REQUEST


def test_nothing_was_acquired() -> None:
    assert Delivery(5).acknowledge((0, 4, ACCEPT)) == UNKNOWN
    assert UNKNOWN.error == ErrorCode.INVALID_RECORD_STATE


def test_records_that_nobody_has(delivery: Delivery) -> None:
    delivery.acknowledge((5, 9, RELEASE))
    assert delivery.acknowledge((5, 9, ACCEPT)) == BATCH_NOT_ACQUIRED
    delivery.acknowledge((0, 1, RELEASE))
    assert delivery.acknowledge((1, 2, ACCEPT)) == OFFSET_NOT_ACQUIRED


def test_records_of_another_member(delivery: Delivery) -> None:
    assert delivery.acknowledge((0, 4, ACCEPT), member="other") == BATCH_OF_ANOTHER
    delivery.accept(0, 0)
    assert delivery.acknowledge((1, 2, ACCEPT), member="other") == OFFSET_OF_ANOTHER


def test_records_that_were_acknowledged_already(delivery: Delivery) -> None:
    delivery.accept(5, 9)
    assert delivery.acknowledge((5, 9, ACCEPT)) == BATCH_NOT_ACQUIRED


def test_records_whose_change_is_being_written(delivery: Delivery) -> None:
    delivery.tell((0, 4, ACCEPT))
    assert delivery.tell((0, 4, ACCEPT)) == BATCH_NOT_ACQUIRED
    delivery.tell((5, 6, ACCEPT))
    assert delivery.tell((6, 7, ACCEPT)) == OFFSET_NOT_ACQUIRED


def test_one_refusal_takes_back_the_whole_list(delivery: Delivery) -> None:
    delivery.accept(8, 8)
    assert delivery.acknowledge((0, 4, ACCEPT), (5, 6, REJECT), (7, 9, ACCEPT)) == OFFSET_NOT_ACQUIRED
    assert delivery.states == "AAAAAAAA+A"
    assert delivery.share.window.complete_count == 1
    delivery.accept(0, 7)
    delivery.accept(9, 9)
    assert delivery.start == 10


# --- renewing ---------------------------------------------------------------------------------------------------------


def test_a_renewed_lock_begins_anew(delivery: Delivery) -> None:
    delivery.now = LOCK_MS - 1
    assert delivery.acknowledge((0, 4, RENEW)) is None
    assert delivery.writes == []  # nothing to persist
    delivery.pass_time(1)
    assert delivery.states == "AAAAAaaaaa"
    delivery.pass_time(LOCK_MS)
    assert delivery.states == "aaaaaaaaaa"


def test_single_records_are_renewed_beside_others_that_are_accepted(delivery: Delivery) -> None:
    delivery.now = LOCK_MS - 1
    delivery.acknowledge((0, 2, [ACCEPT, RENEW, ACCEPT]))
    delivery.pass_time(1)
    assert delivery.states == "+A+aaaaaaa"
    assert delivery.start == 1


def test_renewing_may_be_forbidden() -> None:
    delivery = Delivery(2, renew_acknowledge_enable=False)
    delivery.fetch()
    assert delivery.acknowledge((0, 1, RENEW)) == NO_RENEWAL
    assert delivery.acknowledge((0, 0, RENEW)) == NO_RENEWAL


# --- the write fails --------------------------------------------------------------------------------------------------


def test_while_it_is_written_a_released_record_is_not_delivered(delivery: Delivery) -> None:
    delivery.tell((0, 4, RELEASE))
    assert delivery.fetch() == []
    delivery.persist()
    assert delivery.fetch() == [(0, 4, 2)]


@pytest.mark.parametrize("kind", [ACCEPT, RELEASE, REJECT])
def test_after_a_failed_write_the_member_has_the_records_again(delivery: Delivery, kind: int) -> None:
    delivery.tell((0, 4, kind))
    delivery.fail()
    assert delivery.states == "AAAAAAAAAA"
    assert delivery.share.window.complete_count == 0
    assert delivery.acknowledge((0, 4, kind)) is None


def test_after_a_failed_write_an_expired_lock_frees_the_records(delivery: Delivery) -> None:
    delivery.tell((0, 4, ACCEPT))
    delivery.now = LOCK_MS
    delivery.fail()
    assert delivery.states == "aaaaaAAAAA"
    assert delivery.fetch() == [(0, 4, 2)]


def test_after_a_failed_write_an_expired_lock_archives_records_that_were_delivered_too_often() -> None:
    delivery = Delivery(2, delivery_count_limit=1)
    delivery.fetch()
    delivery.tell((0, 1, ACCEPT))
    delivery.now = LOCK_MS
    delivery.fail()
    assert delivery.states == "xx"
    assert delivery.share.window.complete_count == 2


def test_a_lock_does_not_expire_while_its_record_is_being_acknowledged(delivery: Delivery) -> None:
    delivery.tell((0, 4, ACCEPT))
    delivery.now = LOCK_MS
    write = delivery.share.expire(delivery.now)
    assert write is not None
    assert write.batches == [(5, 9, AVAILABLE, 1)]
    assert delivery.share.next_deadline() is None
    delivery.persist()
    assert delivery.start == 5


def test_the_start_offset_waits_for_the_write(delivery: Delivery) -> None:
    delivery.tell((0, 9, ACCEPT))
    assert delivery.start == 0
    delivery.persist()
    assert delivery.start == 10


def test_a_change_below_the_start_of_the_log_is_not_taken_back(delivery: Delivery) -> None:
    delivery.tell((0, 4, RELEASE))
    delivery.share.log_starts_at(3)
    delivery.fail()
    assert delivery.states == "xxxAAAAAAA"


# --- sessions and locks -----------------------------------------------------------------------------------------------


def test_the_end_of_a_session_releases_what_its_member_has() -> None:
    delivery = Delivery(2, 2)
    delivery.fetch(2)
    delivery.fetch(2, member="other")
    delivery.release()
    assert delivery.persist() == [(0, 1, AVAILABLE, 1)]
    assert delivery.states == "aaAA"


def test_a_member_without_records_releases_nothing(delivery: Delivery) -> None:
    delivery.release("other")
    assert delivery.writes == []


def test_an_expired_lock_frees_the_record_at_once_and_writes_that(delivery: Delivery) -> None:
    delivery.pass_time(LOCK_MS - 1)
    assert delivery.states == "AAAAAAAAAA"
    delivery.pass_time(1)
    assert delivery.states == "aaaaaaaaaa"
    assert delivery.fetch(batch_size=5) == [(0, 4, 2), (5, 9, 2)]
    assert delivery.fail() == [(0, 9, AVAILABLE, 1)]  # that changes nothing any more
    assert delivery.states == "AAAAAAAAAA"


def test_an_expired_lock_archives_what_was_delivered_too_often() -> None:
    delivery = Delivery(2, delivery_count_limit=1)
    delivery.fetch()
    delivery.pass_time()
    assert delivery.states == "xx"
    assert delivery.persist() == [(0, 1, ARCHIVED, 1)]
    assert (delivery.start, delivery.share.counts.timed_out, delivery.share.counts.archived) == (2, 2, 2)


def test_locks_expire_each_at_its_time() -> None:
    delivery = Delivery(1, 1)
    delivery.fetch(1)
    delivery.now = 10_000
    delivery.fetch(1)
    assert delivery.share.next_deadline() == LOCK_MS
    delivery.pass_time(20_000)
    assert delivery.states == "aA"
    assert delivery.share.next_deadline() == 40_000


def test_a_lock_is_as_long_as_the_setting_says_when_the_record_is_acquired() -> None:
    delivery = Delivery(1, record_lock_duration_ms=1_000)
    delivery.fetch()
    assert delivery.share.next_deadline() == 1_000


def test_the_state_that_is_persisted_is_loaded_again(delivery: Delivery) -> None:
    delivery.acknowledge((2, 7, [ACCEPT, RELEASE, REJECT, RELEASE, ACCEPT, ACCEPT]))
    kept = [
        StateBatch(2, 2, ACKNOWLEDGED, 1),
        StateBatch(3, 3, AVAILABLE, 1),
        StateBatch(4, 4, ARCHIVED, 1),
        StateBatch(5, 5, AVAILABLE, 1),
        StateBatch(6, 7, ACKNOWLEDGED, 1),
    ]
    loaded = Delivery(5, 5, persisted=kept)
    assert loaded.fetch() == [(0, 1, 1), (3, 3, 2), (5, 5, 2), (8, 9, 1)]


def test_runs_are_joined_in_every_batch_that_was_changed() -> None:
    delivery = Delivery(100, 100, 100)
    delivery.fetch(batch_size=100)
    kinds = [ACCEPT, RELEASE] * 150
    delivery.acknowledge((1, 298, kinds[1:299]))
    delivery.acknowledge((0, 0, RELEASE), (299, 299, RELEASE))
    delivery.fetch(batch_size=100)
    delivery.acknowledge(*[(offset, offset, ACCEPT) for offset in range(300) if delivery.states[offset] == "A"])
    assert delivery.start == 300


def test_after_many_small_changes_there_are_few_runs() -> None:
    delivery = Delivery(100, 100)
    delivery.fetch(batch_size=100)
    delivery.acknowledge(*[(offset, offset, ACCEPT) for offset in range(1, 200)])
    assert [len(run) for run in delivery.share.window.runs()] == [1, 99, 100]


# --- many runs --------------------------------------------------------------------------------------------------------


def split_delivery(count: int) -> Delivery:
    """So many acquired records, each of them a run of its own."""
    delivery = Delivery(2 * count, partition_max_record_locks=2 * count)
    delivery.fetch(2 * count)
    delivery.acknowledge(*((at, at, ACCEPT) for at in range(1, 2 * count, 2)))
    return delivery


def test_locks_of_very_many_runs_expire_in_several_steps() -> None:
    delivery = split_delivery(2 * RUNS_AT_ONCE + 1)
    delivery.pass_time()
    assert delivery.states.count("a") == RUNS_AT_ONCE
    assert delivery.share.next_deadline() == LOCK_MS
    delivery.pass_time(0)
    delivery.pass_time(0)
    assert delivery.states.count("a") == 2 * RUNS_AT_ONCE + 1
    assert delivery.share.next_deadline() is None
    assert [len(write.batches) for write in delivery.writes] == [RUNS_AT_ONCE, RUNS_AT_ONCE, 1]


def test_very_many_runs_are_released_in_several_steps() -> None:
    delivery = split_delivery(RUNS_AT_ONCE + 1)
    delivery.release()
    assert [len(write.batches) for write in delivery.writes] == [RUNS_AT_ONCE, 1]
    delivery.persist()
    assert delivery.states.count("a") == RUNS_AT_ONCE + 1


def test_what_a_member_acquires_in_its_next_session_is_not_released_with_the_last_one() -> None:
    delivery = split_delivery(RUNS_AT_ONCE + 1)
    delivery.log += log_of(3, first=2 * RUNS_AT_ONCE + 2)
    delivery.settings = replace(delivery.settings, partition_max_record_locks=10_000)
    releasing = delivery.share.release("m")
    delivery.writes.append(next(releasing))
    first = delivery.share.next_fetch_offset()
    assert delivery.fetch(10_000) == [(first, first + 2, 1)]
    delivery.writes += releasing
    delivery.persist()
    assert delivery.states.count("A") == 3
