"""Share groups and transactions: with share.isolation.level=read_committed nobody gets what is open or was aborted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kohort.broker.call import PARKED
from kohort.broker.topics.txn_markers import write_marker
from kohort.coordinator.delivery.states import ACCEPT, Wish
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.txn_marker import TxnMarker
from tests.broker.transaction_box import data
from tests.coordinator.delivery.support import Delivery
from tests.share.share_box import ShareBox, Sharer, acquired_of, partition_of


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
