"""Share groups and transactions: with share.isolation.level=read_committed nobody gets what is open or was aborted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kohort.broker.call import PARKED
from kohort.broker.topics.producer_state import PRODUCERS
from kohort.broker.topics.txn_markers import write_marker
from kohort.coordinator.delivery.states import ACCEPT, GAP, RELEASE, Wish
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kohort.protocol.txn_marker import TxnMarker
from tests.broker.transaction_box import data
from tests.coordinator.delivery.support import Delivery
from tests.share.share_box import ShareBox, Sharer, acquired_of, partition_of
from tests.share_requests import RECORD_LIMIT


class TransactionShareBox(ShareBox):
    def __init__(self, folder: Path) -> None:
        super().__init__(
            folder, transaction_partition_verification_enable="false", kohort_offsets_sync_before_reply="false"
        )
        self.set(isolation_level="read_committed")
        self._sequences: dict[int, int] = {}

    def begin(self, producer_id: int, count: int = 2) -> None:
        first = self._sequences.get(producer_id, 0)
        self._sequences[producer_id] = first + count
        batch = data(self.now, first, producer_id=producer_id, count=count)
        answer = self.produce(batch, "t", 0, version=9, transactional_id="mine")
        assert answer.error_code == 0

    def end(self, producer_id: int, *, commit: bool) -> None:
        answers: list[ErrorCode] = []
        write_marker(self.broker, "t", 0, TxnMarker(producer_id, 0, commit, 0, 0), answers.append)
        while not answers:
            self.pass_time(1)
        assert answers == [ErrorCode.NONE]

    def abort(self, count: int) -> None:
        """A transaction with so many records, and its end."""
        self.begin(7, count)
        self.end(7, commit=False)

    def forget_producers(self) -> None:
        """As after a start of the broker: open transactions must be looked for in the log."""
        partition = self.broker.catalog.partition("t", 0)
        assert partition is not None
        self.broker.had_transactions = True
        del partition.extra[PRODUCERS]

    def start_offset(self) -> int:
        partition = self.broker.catalog.partition("t", 0)
        assert partition is not None
        share = self.led.find_or_load(self.key(), partition).share
        assert share is not None
        return share.window.start


@pytest.fixture
def box(tmp_path: Path) -> Iterator[TransactionShareBox]:
    made = TransactionShareBox(tmp_path / "data")
    yield made
    made.close()


@pytest.fixture
def member(box: TransactionShareBox) -> Sharer:
    return Sharer(box)


def test_records_behind_an_open_transaction_are_not_delivered(box: TransactionShareBox, member: Sharer) -> None:
    box.write(3)
    box.begin(7)
    box.write(4)
    assert member.acquire(0) == [(0, 2, 1)]
    assert member.acquire() == []
    box.end(7, commit=True)
    assert member.acquire() == [(3, 9, 1)]


def test_read_uncommitted_delivers_all_of_it(box: TransactionShareBox, member: Sharer) -> None:
    box.set(isolation_level="read_uncommitted")
    box.begin(7)
    box.write(1)
    assert member.acquire(0) == [(0, 2, 1)]
    box.end(7, commit=False)
    assert member.acquire() == [(3, 3, 1)]


def test_the_marker_wakes_a_member_that_waits(box: TransactionShareBox, member: Sharer) -> None:
    box.begin(7)
    assert member.fetch(0, max_wait_ms=10_000) is PARKED
    box.write(2)  # behind the open transaction: nobody can read that yet
    box.pass_time(100)
    assert member.answers == []
    box.end(7, commit=True)
    box.pass_time(1)
    (answer,) = member.answers
    assert acquired_of(partition_of(answer)) == [(0, 4, 1)]


def test_records_of_an_aborted_transaction_are_given_to_nobody(box: TransactionShareBox, member: Sharer) -> None:
    box.write(1)
    box.begin(7, 3)
    box.write(2)
    box.end(7, commit=False)
    answer = member.fetch(0, max_wait_ms=0)
    assert acquired_of(partition_of(answer)) == [(0, 0, 1), (4, 6, 1)]
    assert Sharer(box, "m2").acquire(0) == []
    assert member.result((0, 0, ACCEPT), (4, 6, ACCEPT)) == "NONE"
    assert box.start_offset() == 7
    box.write(1)
    assert member.acquire() == [(7, 7, 1)]


def test_a_fetch_that_finds_nothing_but_aborted_records_goes_on_behind_them(
    box: TransactionShareBox, member: Sharer
) -> None:
    box.begin(7, 3)
    box.begin(8, 1)
    box.end(7, commit=False)
    assert member.acquire(0) == []
    box.end(8, commit=True)
    assert member.acquire() == [(3, 5, 1)]


def test_of_two_producers_in_turn_only_the_aborted_ones_data_is_left_out(
    box: TransactionShareBox, member: Sharer
) -> None:
    for _ in range(3):
        box.begin(7, 2)
        box.begin(8, 1)
    box.end(7, commit=False)
    box.begin(7, 1)
    box.end(8, commit=True)
    box.end(7, commit=True)
    assert member.acquire(0) == [(2, 2, 1), (5, 5, 1), (8, 12, 1)]


def test_what_is_aborted_counts_for_the_records_that_a_fetch_wants(box: TransactionShareBox, member: Sharer) -> None:
    for _ in range(3):
        box.begin(7, 2)
        box.end(7, commit=False)
        box.write(2)
    wanted: list[Any] = []
    for _ in range(8):
        wanted += member.acquire(*(() if member.epoch else (0,)), max_records=2)
    assert [each for each in wanted if each[1] - each[0] > 0]
    delivered = {offset for first, last, _ in wanted for offset in range(first, last + 1)}
    assert delivered == {2, 3, 4, 7, 8, 9, 12, 13, 14}


def test_a_window_full_of_aborted_records_does_not_stay_full() -> None:
    share = Delivery(5, 5, 5, partition_max_record_locks=10)
    window = share.share.window
    found = share.log[:2]
    assert share.share.acquire(Wish("m", 100, 100, False), 0, found, 0, found) == []
    assert window.in_flight_count == 10
    assert share.share.can_acquire()
    assert share.fetch() == [(10, 14, 1)]


def test_a_change_of_the_isolation_level_holds_from_the_next_fetch_on(box: TransactionShareBox, member: Sharer) -> None:
    box.begin(7)
    assert member.acquire(0) == []
    box.set(isolation_level="read_uncommitted")
    assert member.acquire() == [(0, 1, 1)]
    box.write(1)
    box.set(isolation_level="read_committed")
    assert member.acquire() == []


def test_aborted_records_cannot_be_acknowledged(box: TransactionShareBox, member: Sharer) -> None:
    box.write(1)
    box.abort(2)
    assert member.acquire(0) == [(0, 0, 1), (3, 3, 1)]
    assert member.result((0, 3, ACCEPT)) == "INVALID_RECORD_STATE"
    assert member.result((0, 0, ACCEPT), (3, 3, GAP)) == "NONE"


def test_the_start_passes_aborted_records_with_the_next_acknowledgement(
    box: TransactionShareBox, member: Sharer
) -> None:
    box.abort(3)
    assert member.acquire(0) == [(3, 3, 1)]
    assert box.start_offset() == 0
    assert member.result((3, 3, GAP)) == "NONE"
    assert box.start_offset() == 4


def test_a_part_of_an_aborted_batch_is_left_out_too(box: TransactionShareBox, member: Sharer) -> None:
    box.abort(5)
    assert member.acquire(0, max_records=3, mode=RECORD_LIMIT) == []
    assert member.acquire(max_records=2, mode=RECORD_LIMIT) == []
    assert member.acquire(max_records=3, mode=RECORD_LIMIT) == [(5, 5, 1)]


def test_released_records_come_again_without_the_aborted_ones(box: TransactionShareBox, member: Sharer) -> None:
    box.write(1)
    box.abort(2)
    box.write(1)
    assert member.acquire(0) == [(0, 0, 1), (3, 4, 1)]
    assert member.result((0, 0, RELEASE), (3, 4, RELEASE)) == "NONE"
    assert member.acquire() == [(0, 0, 2), (3, 4, 2)]


def test_after_a_start_open_transactions_are_looked_for(box: TransactionShareBox, member: Sharer) -> None:
    box.write(1)
    box.begin(7)
    box.forget_producers()
    assert member.acquire(0) == [(0, 0, 1)]
    box.end(7, commit=False)
    assert member.acquire() == [(3, 3, 1)]


def test_aborted_records_that_somebody_has_are_taken_away(box: TransactionShareBox, member: Sharer) -> None:
    """The level of the group has changed meanwhile."""
    other = Sharer(box, "m2")
    box.set(isolation_level="read_uncommitted")
    box.abort(4)
    assert other.acquire(0) == [(0, 4, 1)]
    assert other.result((3, 3, RELEASE)) == "NONE"
    box.set(isolation_level="read_committed")
    assert member.acquire(0) == []
    assert other.result((0, 0, ACCEPT)) == "INVALID_RECORD_STATE"
    assert other.result((4, 4, GAP)) == "NONE"
    assert box.start_offset() == 5


def test_an_aborted_batch_into_which_a_deletion_cut_is_left_out(box: TransactionShareBox, member: Sharer) -> None:
    """Kafka 4.3.1 stumbles over it."""
    box.begin(7, 4)
    assert member.acquire(0) == []
    asked = DeleteRecordsTopic("t", [DeleteRecordsPartition(0, 2)])
    box.send(ApiKey.DELETE_RECORDS, DeleteRecordsRequest([asked], 1_000), 2)
    assert member.acquire() == []
    box.end(7, commit=False)
    assert member.acquire() == [(4, 4, 1)]
    assert member.result((4, 4, GAP)) == "NONE"
    assert box.start_offset() == 5


def test_many_aborted_transactions_are_left_out_of_one_fetch(box: TransactionShareBox, member: Sharer) -> None:
    for _ in range(100):
        box.abort(1)
    assert member.acquire(0) == [(2 * number + 1, 2 * number + 1, 1) for number in range(100)]


def test_a_slice_with_one_whole_batch_leaves_as_it_is(box: TransactionShareBox, member: Sharer) -> None:
    """Also with the beginning of another one: so does Kafka."""
    box.write(1, 1)
    found = partition_of(member.fetch(0, max_wait_ms=0, max_bytes=100))
    assert acquired_of(found) == [(0, 0, 1)]
    assert len(found.records) == 100
