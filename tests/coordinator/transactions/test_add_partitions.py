"""AddPartitionsToTxn, AddOffsetsToTxn, and what Produce and TxnOffsetCommit ask: as Kafka 4.3.1 answers."""

from __future__ import annotations

import pytest

from tests.coordinator.transactions.support import TransactionTestHost
from tests.transaction_requests import Identity

T0, T1, U0 = ("orders", 0), ("orders", 1), ("users", 0)


@pytest.fixture
def host() -> TransactionTestHost:
    return TransactionTestHost()


def test_the_first_partition_begins_the_transaction(host: TransactionTestHost) -> None:
    tx = host.producer()
    host.now += 5
    assert host.add(tx, T0, T1) == "NONE"
    assert host.state() == "Ongoing"
    assert host.transaction().started_ms == host.now
    began = host.now
    host.now += 7
    assert host.add(tx, U0) == "NONE"
    assert host.transaction().partitions == {"orders": {0, 1}, "users": {0}}
    assert (host.transaction().started_ms, host.transaction().updated_ms) == (began, began + 7)


def test_a_partition_that_is_in_it_writes_nothing(host: TransactionTestHost) -> None:
    tx = host.producer()
    host.add(tx, T0, T1)
    records = len(host.log())
    assert host.add(tx, T1) == "NONE"
    assert host.produce(tx, T0) == "NONE"
    assert len(host.log()) == records


@pytest.mark.parametrize(("version", "error"), [(0, "INVALID_PRODUCER_EPOCH"), (1, "INVALID_PRODUCER_EPOCH"),
                                                (2, "PRODUCER_FENCED"), (3, "PRODUCER_FENCED")])  # fmt: skip
@pytest.mark.parametrize("step", [-1, 1])
def test_another_epoch_is_fenced_older_or_higher(
    host: TransactionTestHost, version: int, error: str, step: int
) -> None:
    host.producer()
    tx = host.producer()
    wrong = tx._replace(epoch=tx.epoch + step)
    assert host.add(wrong, T0, version=version) == error
    assert host.add_offsets(wrong, "g", version=version) == error
    assert host.produce(wrong, T0) == "PRODUCER_FENCED"
    assert host.verify(wrong, T0) == "PRODUCER_FENCED"


def test_unknown_ids(host: TransactionTestHost) -> None:
    tx = host.producer()
    for who in (Identity("nobody", 5, 0), tx._replace(producer_id=5)):
        assert host.add(who, T0) == "INVALID_PRODUCER_ID_MAPPING"
        assert host.add_offsets(who, "g") == "INVALID_PRODUCER_ID_MAPPING"
        assert host.produce(who, T0) == "INVALID_PRODUCER_ID_MAPPING"
        assert host.verify(who, T0) == "INVALID_PRODUCER_ID_MAPPING"


def test_an_empty_transactional_id_is_invalid(host: TransactionTestHost) -> None:
    who = Identity("", 5, 0)
    assert host.add(who, T0) == "INVALID_REQUEST"
    assert host.add_offsets(who, "g") == "INVALID_REQUEST"
    assert host.produce(who, T0) == "INVALID_REQUEST"
    assert host.verify(who, T0) == "INVALID_REQUEST"


@pytest.mark.parametrize("commit", [True, False])
def test_while_markers_are_written_all_come_again_even_with_a_wrong_id(
    host: TransactionTestHost, *, commit: bool
) -> None:
    tx = host.producer()
    host.add(tx, T0)
    host.end(tx, commit=commit, version=4)
    for who in (tx, tx._replace(producer_id=5), tx._replace(epoch=9)):
        assert host.add(who, T1) == "CONCURRENT_TRANSACTIONS"
        assert host.produce(who, T1) == "CONCURRENT_TRANSACTIONS"
        assert host.add_offsets(who, "g") == "CONCURRENT_TRANSACTIONS"
    assert host.verify(tx, T0) == "CONCURRENT_TRANSACTIONS"
    assert host.verify(tx._replace(producer_id=5), T0) == "INVALID_PRODUCER_ID_MAPPING"  # verifying looks first
    assert host.verify(tx._replace(epoch=9), T0) == "PRODUCER_FENCED"


@pytest.mark.parametrize("commit", [True, False])
def test_the_next_transaction_begins_empty(host: TransactionTestHost, *, commit: bool) -> None:
    tx = host.producer()
    host.add(tx, T0)
    host.end_well(tx, commit=commit, version=4)
    host.now += 50
    assert host.add(tx, U0) == "NONE"
    assert host.transaction().partitions == {"users": {0}}
    assert host.transaction().started_ms == host.now


def test_an_empty_list_begins_a_transaction_too(host: TransactionTestHost) -> None:
    tx = host.producer()
    call = host.add_call(tx)
    assert list(call.answer.results_by_topic_v3_and_below) == []
    assert host.state() == "Ongoing"
    host.end_well(tx)
    assert host.state() == "CompleteCommit"


def test_a_transaction_that_does_not_fit_into_a_record_grows_no_more(host: TransactionTestHost) -> None:
    tx = host.producer()
    half = [(f"{number:04}{'x' * 240}", 0) for number in range(2_500)]
    assert host.add(tx, *half) == "NONE"
    assert host.add(tx, *(("y" + topic, 0) for topic, _ in half)) == "UNKNOWN_SERVER_ERROR"
    assert host.add(tx, half[0]) == "NONE"
    assert host.add(tx, ("one more", 0)) == "NONE"
    assert host.end(tx, commit=True).error == "NONE"


def test_offsets_add_the_partition_of_the_group(host: TransactionTestHost) -> None:
    tx = host.producer()
    assert host.add_offsets(tx, "g") == "NONE"
    assert host.add_offsets(tx, "") == "NONE"
    assert host.transaction().partitions == {"__consumer_offsets": {3, 0}}


def test_verifying_tells_what_was_added_and_changes_nothing(host: TransactionTestHost) -> None:
    tx = host.producer()
    assert host.verify(tx, T0) == "TRANSACTION_ABORTABLE"
    host.add(tx, T0)
    records = len(host.log())
    assert host.verify(tx, T0) == "NONE"
    assert host.verify(tx, T1) == "TRANSACTION_ABORTABLE"
    assert host.verify(tx, T0, T1) == "TRANSACTION_ABORTABLE"
    assert len(host.log()) == records
    host.end_well(tx)
    assert host.verify(tx._replace(epoch=1), T0) == "TRANSACTION_ABORTABLE"


def test_the_record_tells_whether_the_client_is_a_new_one(host: TransactionTestHost) -> None:
    tx = host.producer()
    host.add(tx, T0)
    assert host.transaction().client_version == 0
    host.produce(tx, T1)
    assert host.transaction().client_version == 2
    host.add_offsets(tx, "g")
    assert host.transaction().client_version == 0
