"""Restarts, failing writes, and news that comes too late: a transaction goes on where its log says it is."""

from __future__ import annotations

import pytest

from kohort.protocol.messages.log_transaction_log import TransactionLogKey, TransactionLogValue
from kohort.protocol.record_batch import build_batch
from kohort.protocol.transaction_records import TRANSACTION_LOG, TRANSACTION_STATE
from tests.coordinator.support import START
from tests.coordinator.transactions.support import Got, TransactionTestHost

T0, T1 = ("orders", 0), ("orders", 1)


@pytest.fixture
def host() -> TransactionTestHost:
    return TransactionTestHost()


# --- kill -9


@pytest.mark.parametrize("commit", [True, False])
def test_a_decided_transaction_gets_its_markers_again(host: TransactionTestHost, *, commit: bool) -> None:
    tx = host.producer()
    host.produce(tx, T0, T1)
    host.end(tx, commit=commit)
    before = host.markers[0]
    host.crash()
    (markers,) = host.markers
    assert markers[:6] == before[:6]
    assert host.end(tx, commit=commit).error == "CONCURRENT_TRANSACTIONS"
    host.markers_are_written()
    assert host.state() == ("CompleteCommit" if commit else "CompleteAbort")
    assert host.end(tx, commit=commit) == ("NONE", 1000, 1)
    assert host.ended[0].cause == ""  # nobody knows any more


def test_an_open_transaction_goes_on(host: TransactionTestHost) -> None:
    tx = host.producer()
    host.produce(tx, T0)
    host.crash()
    assert host.markers == []
    assert host.produce(tx, T1) == "NONE"
    host.end(tx, commit=True)
    assert host.markers[0].partitions == {"orders": {0, 1}}


def test_what_was_not_durable_has_not_happened(host: TransactionTestHost) -> None:
    tx = host.producer()
    host.produce(tx, T0)
    host.is_slow = True
    assert host.end_call(tx, commit=True).answer is None
    assert host.markers == []  # a marker never comes before the decision is durable
    host.crash()
    assert host.state() == "Ongoing"
    assert host.end(tx, commit=False) == ("NONE", 1000, 1)


def test_a_complete_one_needs_nothing(host: TransactionTestHost) -> None:
    tx = host.producer()
    host.produce(tx, T0)
    host.end_well(tx)
    host.crash()
    assert host.markers == []
    assert host.state() == "CompleteCommit"


# --- a slow disk


def test_answers_wait_for_the_disk_and_so_do_markers(host: TransactionTestHost) -> None:
    tx = host.producer()
    host.is_slow = True
    added = host.add_call(tx, T0)
    ended = host.end_call(tx, commit=True)  # a client that does not wait for its answers
    assert (added.answer, ended.answer, host.markers) == (None, None, [])
    host.disk_catches_up()
    assert added.answer is not None
    assert ended.answer.error_code == 0
    assert len(host.markers) == 1


def test_the_next_transaction_need_not_wait_for_the_end_of_the_last_one_to_be_durable(
    host: TransactionTestHost,
) -> None:
    tx = host.producer()
    host.add(tx, T0)
    host.end(tx, commit=True, version=4)
    host.is_slow = True
    assert host.add(tx, T1) == "CONCURRENT_TRANSACTIONS"
    assert host.written_call(host.markers[0]).answer is None
    call = host.add_call(tx, T1)
    assert call.answer is None  # it waits for both records
    host.disk_catches_up()
    assert host.added(call) == "NONE"
    assert host.transaction().partitions == {"orders": {1}}


# --- failing writes


def test_a_write_that_fails_is_retried_by_the_client(host: TransactionTestHost) -> None:
    tx = host.producer()
    host.is_slow = True
    added = host.add_call(tx, T0)
    host.disk_fails()
    assert host.added(added) == "NOT_COORDINATOR"
    assert host.state() == "Empty"
    assert host.add(tx, T0) == "NONE"


def test_a_decision_that_cannot_be_written_is_no_decision(host: TransactionTestHost) -> None:
    tx = host.producer()
    host.produce(tx, T0)
    host.is_slow = True
    ended = host.end_call(tx, commit=True)
    host.disk_fails()
    assert ended.answer.error_code == 16
    assert (host.state(), host.markers) == ("Ongoing", [])
    assert host.end(tx, commit=True) == ("NONE", 1000, 1)


def test_a_new_transactional_id_whose_record_fails_is_unknown(host: TransactionTestHost) -> None:
    host.is_slow = True
    call = host.init_call("tx")
    host.disk_fails()
    assert call.answer.error_code == 16
    assert host.describe("tx").error_code == 105
    assert host.init() == ("NONE", 1001, 0)  # an id is not given twice


# --- news that comes too late


def test_markers_of_a_shard_that_was_loaded_again_end_nothing(host: TransactionTestHost) -> None:
    tx = host.producer()
    host.produce(tx, T0)
    host.end(tx, commit=True)
    (old,) = host.markers
    host.crash()
    (new,) = host.markers
    assert host.written(old) == "NONE"
    assert host.state() == "PrepareCommit"
    host.written(new)
    assert host.state() == "CompleteCommit"


def test_the_same_news_twice_is_told_once(host: TransactionTestHost) -> None:
    tx = host.producer()
    host.produce(tx, T0)
    host.end(tx, commit=True)
    (markers,) = host.markers
    host.written(markers)
    records = len(host.log())
    host.written(markers)
    assert (len(host.log()), len(host.ended)) == (records, 1)


def test_news_about_an_id_that_was_forgotten_is_nothing(host: TransactionTestHost) -> None:
    tx = host.producer()
    host.produce(tx, T0)
    host.end(tx, commit=True)
    (markers,) = host.markers
    host.written(markers)
    host.advance(8 * 86_400_000)
    host.written(markers)
    assert "tx" not in host.shard_of().state.transactions


# --- what other brokers have written


def put(host: TransactionTestHost, value: TransactionLogValue | None, version: int | None = None) -> None:
    key = TRANSACTION_STATE.encode_key(TRANSACTION_LOG, TransactionLogKey("tx"))
    raw = None if value is None else TRANSACTION_STATE.encode_value(TRANSACTION_LOG, value, version)
    partition = host.shard_of().partition
    log = host.batches.setdefault(partition, [])
    log.append(build_batch([(key, raw)], timestamp=START, base_offset=len(log)))
    host.crash()


def test_records_of_older_clusters_are_understood(host: TransactionTestHost) -> None:
    put(host, TransactionLogValue(7, producer_epoch=3, transaction_timeout_ms=5, transaction_partitions=None), 0)
    assert host.init() == ("NONE", 7, 4)


def test_a_state_that_nobody_knows_is_passed_over(host: TransactionTestHost) -> None:
    put(host, TransactionLogValue(7, transaction_status=99))
    assert host.shard_of().unreadable_count == 1
    assert host.init() == Got("NONE", 1000, 0)


def test_a_tombstone_of_an_unknown_id_is_nothing(host: TransactionTestHost) -> None:
    put(host, None)
    assert host.describe("tx").error_code == 105
