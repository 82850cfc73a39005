"""Transactions that take too long are aborted, and transactional ids that nobody uses are forgotten."""

from __future__ import annotations

import pytest

from kohort.coordinator.transactions.headers import CAUSE, CLIENT
from kohort.coordinator.transactions.transaction import LAST_EPOCH, NO_TIMEOUT_MS
from tests.coordinator.transactions.support import TIMEOUT_MS, Got, TransactionTestHost
from tests.transaction_requests import Identity

T0, T1 = ("orders", 0), ("orders", 1)
DAY_MS = 86_400_000
HOUR_MS = 3_600_000


@pytest.fixture
def host() -> TransactionTestHost:
    return TransactionTestHost()


def opened(host: TransactionTestHost, transactional_id: str = "tx") -> Identity:
    tx = host.producer(transactional_id)
    host.produce(tx, T0)
    return tx


def test_a_transaction_that_takes_longer_than_its_timeout_is_aborted(host: TransactionTestHost) -> None:
    opened(host)
    host.advance(TIMEOUT_MS)
    assert host.state() == "Ongoing"  # not later than the timeout yet
    host.advance(10_000)
    assert host.state() == "PrepareAbort"
    (markers,) = host.markers
    assert (markers.producer_epoch, markers.commit, markers.transaction_version) == (1, False, 2)
    host.markers_are_written()
    assert host.state() == "CompleteAbort"
    assert host.ended[0].cause == "timeout"


def test_the_timeout_counts_from_the_first_partition(host: TransactionTestHost) -> None:
    tx = host.producer()
    host.advance(10 * TIMEOUT_MS)
    host.produce(tx, T0)
    host.advance(50_000)
    host.produce(tx, T1)
    host.advance(10_000)
    assert host.state() == "Ongoing"
    host.advance(10_000)
    assert host.state() == "PrepareAbort"


def test_a_producer_that_was_timed_out(host: TransactionTestHost) -> None:
    tx = opened(host)
    host.advance(TIMEOUT_MS + 10_000)
    host.markers_are_written()
    assert host.end(tx, commit=True).error == "INVALID_TXN_STATE"
    assert host.end(tx, commit=False) == ("NONE", 1000, 1)
    assert host.end(tx, commit=False, version=4).error == "PRODUCER_FENCED"
    assert host.produce(tx, T0) == "PRODUCER_FENCED"
    assert host.init(producer_id=1000, epoch=0) == ("NONE", 1000, 1)


def test_an_old_client_is_fenced_by_its_timeout_too(host: TransactionTestHost) -> None:
    tx = host.producer()
    host.add(tx, T0)
    host.advance(TIMEOUT_MS + 10_000)
    host.markers_are_written()
    assert host.end(tx, commit=True, version=3).error == "PRODUCER_FENCED"
    assert host.add(tx, T0) == "PRODUCER_FENCED"


def test_a_transaction_without_timeout_is_never_aborted(host: TransactionTestHost) -> None:
    tx = host.producer()
    host.transaction().timeout_ms = NO_TIMEOUT_MS
    host.produce(tx, T0)
    host.advance(DAY_MS)
    assert host.state() == "Ongoing"


def test_the_time_before_a_crash_counts(host: TransactionTestHost) -> None:
    opened(host)
    host.advance(50_000)
    host.crash()
    assert host.state() == "Ongoing"
    host.advance(10_000)
    assert host.state() == "Ongoing"
    host.advance(10_000)
    assert host.state() == "PrepareAbort"


def test_a_clock_that_is_set_back_before_a_load_keeps_no_transaction_open(host: TransactionTestHost) -> None:
    opened(host)
    host.now -= HOUR_MS
    host.crash()
    host.advance(TIMEOUT_MS + 10_000)
    assert host.state() == "PrepareAbort"


def test_without_the_id_that_has_to_follow_the_abort_comes_later(host: TransactionTestHost) -> None:
    host.producer()
    tx = host.put_epoch(LAST_EPOCH)
    host.produce(tx, T0)
    host.has_producer_ids = False
    host.advance(TIMEOUT_MS + 10_000)
    assert host.state() == "Ongoing"
    host.has_producer_ids = True
    host.advance(10_000)
    assert host.state() == "PrepareAbort"


def test_very_many_late_transactions_are_aborted_in_pieces(host: TransactionTestHost) -> None:
    for number in range(1_000):
        opened(host, f"tx-{number}")
    host.advance(TIMEOUT_MS + 10_000)
    assert len(host.markers) == 1_000
    host.markers_are_written()
    assert all(host.state(f"tx-{number}") == "CompleteAbort" for number in range(1_000))
    assert not any(shard.state.open for shard in host.runtime.shards)


def test_no_abort_while_markers_are_written(host: TransactionTestHost) -> None:
    tx = opened(host)
    host.end(tx, commit=True)
    host.advance(10 * TIMEOUT_MS)
    assert host.state() == "PrepareCommit"
    assert len(host.markers) == 1


@pytest.mark.parametrize("state", ["Empty", "CompleteCommit", "CompleteAbort"])
def test_a_transactional_id_that_nobody_uses_is_forgotten_after_seven_days(
    host: TransactionTestHost, state: str
) -> None:
    tx = host.producer()
    if state != "Empty":
        host.produce(tx, T0)
        tx = host.end_well(tx, commit=state == "CompleteCommit")
    host.advance(7 * DAY_MS - HOUR_MS)
    assert host.describe("tx").transaction_state == state
    host.advance(HOUR_MS)
    assert host.describe("tx").error_code == 105
    assert host.log()[-1][0] is None
    assert host.produce(tx, T0) == "INVALID_PRODUCER_ID_MAPPING"
    assert host.end(tx, commit=True) == Got("INVALID_PRODUCER_ID_MAPPING")
    host.crash()
    assert host.describe("tx").error_code == 105
    assert host.init() == ("NONE", 1001, 0)


def test_use_keeps_a_transactional_id(host: TransactionTestHost) -> None:
    tx = host.producer()
    host.advance(6 * DAY_MS)
    host.produce(tx, T0)
    tx = host.end_well(tx)
    host.advance(6 * DAY_MS)
    assert host.describe("tx").error_code == 0


def test_an_id_whose_markers_cannot_be_written_is_kept(host: TransactionTestHost) -> None:
    host.end(opened(host), commit=True)
    host.advance(30 * DAY_MS)
    assert host.state() == "PrepareCommit"


def test_very_many_ids_are_forgotten_in_pieces(host: TransactionTestHost) -> None:
    for number in range(3_000):
        host.producer(f"tx-{number}")
    host.advance(7 * DAY_MS)
    assert not any(shard.state.transactions for shard in host.runtime.shards)


# --- what the records tell


def test_records_tell_who_and_why(host: TransactionTestHost) -> None:
    tx = opened(host)
    tx = host.end_well(tx)
    host.produce(tx, T0)
    host.init()
    host.markers_are_written()
    headers = [dict(headers) for _, headers in host.log()]
    assert headers == [{CLIENT: b"app"}, {}, {CAUSE: b"client"}, {}, {}, {CAUSE: b"fenced"}, {}]


def test_records_tell_nothing_if_they_shall_not() -> None:
    host = TransactionTestHost(audit_headers=False)
    host.end_well(opened(host))
    assert not any(headers for _, headers in host.log())
