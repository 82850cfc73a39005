"""InitProducerId with a transactional id, in every state: as Kafka 4.3.1 answers."""

from __future__ import annotations

import pytest

from kohort.coordinator.transactions.transaction import LAST_EPOCH
from tests.coordinator.transactions.support import Got, TransactionTestHost

T0 = ("orders", 0)


@pytest.fixture
def host() -> TransactionTestHost:
    return TransactionTestHost()


def test_a_new_transactional_id_gets_epoch_0_and_each_later_call_a_higher_one(host: TransactionTestHost) -> None:
    assert host.init() == ("NONE", 1000, 0)
    assert host.init() == ("NONE", 1000, 1)
    assert host.init("another") == ("NONE", 1001, 0)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_the_timeout_has_limits(host: TransactionTestHost, timeout_ms: int) -> None:
    assert host.init(timeout_ms=timeout_ms).error == "INVALID_TRANSACTION_TIMEOUT"
    assert host.init(timeout_ms=1).error == "NONE"
    assert host.init(timeout_ms=900_000).error == "NONE"


def test_an_empty_transactional_id_is_invalid_and_so_is_half_of_an_identity(host: TransactionTestHost) -> None:
    assert host.init("").error == "INVALID_REQUEST"
    assert host.init(producer_id=7).error == "INVALID_REQUEST"
    assert host.init(epoch=7).error == "INVALID_REQUEST"


def test_what_an_unknown_transactional_id_says_it_is_does_not_matter(host: TransactionTestHost) -> None:
    assert host.init(producer_id=77_777, epoch=5) == ("NONE", 1000, 0)
    assert host.init(producer_id=1000, epoch=5).error == "PRODUCER_FENCED"  # it never had that epoch


def test_without_an_id_from_the_broker_the_client_comes_again(host: TransactionTestHost) -> None:
    host.has_producer_ids = False
    assert host.init().error == "COORDINATOR_LOAD_IN_PROGRESS"
    assert "tx" not in host.shard_of().state.transactions
    host.has_producer_ids = True
    assert host.init().error == "NONE"


# --- KIP-360


def test_a_producer_that_names_what_it_has_gets_the_next_epoch_and_the_same_answer_again(
    host: TransactionTestHost,
) -> None:
    host.init()
    assert host.init(producer_id=1000, epoch=0) == ("NONE", 1000, 1)
    assert host.init(producer_id=1000, epoch=0) == ("NONE", 1000, 1)
    assert host.init(producer_id=1000, epoch=1) == ("NONE", 1000, 2)


def test_after_a_restart_the_answer_is_not_repeated(host: TransactionTestHost) -> None:
    host.init()
    host.init(producer_id=1000, epoch=0)
    host.crash()
    assert host.init(producer_id=1000, epoch=0).error == "PRODUCER_FENCED"
    assert host.init(producer_id=1000, epoch=1) == ("NONE", 1000, 2)


@pytest.mark.parametrize("epoch", [1, 3, 9])
def test_an_older_or_a_higher_epoch_is_fenced(host: TransactionTestHost, epoch: int) -> None:
    for _ in range(3):
        host.init()
    assert host.epoch() == 2
    assert host.init(producer_id=1000, epoch=epoch).error == "PRODUCER_FENCED"
    assert host.init(producer_id=1000, epoch=epoch, version=4).error == "PRODUCER_FENCED"
    assert host.init(producer_id=1000, epoch=epoch, version=3).error == "INVALID_PRODUCER_EPOCH"


def test_who_takes_over_without_an_identity_fences_those_before(host: TransactionTestHost) -> None:
    host.init()
    host.init()
    assert host.init(producer_id=1000, epoch=0).error == "PRODUCER_FENCED"


def test_another_producer_id_is_fenced(host: TransactionTestHost) -> None:
    host.init()
    assert host.init(producer_id=1001, epoch=0).error == "PRODUCER_FENCED"


# --- the states


@pytest.mark.parametrize("commit", [True, False])
def test_an_ended_transaction_is_followed_by_a_new_epoch(host: TransactionTestHost, *, commit: bool) -> None:
    tx = host.producer()
    host.add(tx, T0)
    host.end_well(tx, commit=commit)
    assert host.init() == ("NONE", 1000, 2)
    assert host.state() == "Empty"
    assert host.transaction().partitions == {}


@pytest.mark.parametrize("commit", [True, False])
def test_while_markers_are_written_the_client_comes_again(host: TransactionTestHost, *, commit: bool) -> None:
    tx = host.producer()
    host.add(tx, T0)
    host.end(tx, commit=commit)
    assert host.init().error == "CONCURRENT_TRANSACTIONS"
    assert host.init(producer_id=5, epoch=5).error == "CONCURRENT_TRANSACTIONS"  # whatever is wrong with it
    host.markers_are_written()
    assert host.init() == ("NONE", 1000, 2)


def test_an_open_transaction_is_aborted_first_with_a_higher_epoch(host: TransactionTestHost) -> None:
    tx = host.producer()
    host.add(tx, T0)
    assert host.init() == ("CONCURRENT_TRANSACTIONS", -1, -1)
    assert host.state() == "PrepareAbort"
    (markers,) = host.markers
    assert (markers.producer_id, markers.producer_epoch, markers.commit) == (1000, 1, False)
    assert markers.transaction_version == 2  # also for an old client: only a higher epoch fences it
    host.markers_are_written()
    assert host.init() == ("NONE", 1000, 2)


def test_whose_transaction_is_aborted_is_not_looked_at_beyond_its_id(host: TransactionTestHost) -> None:
    tx = host.producer()
    host.add(tx, T0)
    assert host.init(producer_id=1000, epoch=25).error == "CONCURRENT_TRANSACTIONS"
    assert host.state() == "PrepareAbort"


def test_another_producer_id_cannot_abort(host: TransactionTestHost) -> None:
    tx = host.producer()
    host.add(tx, T0)
    assert host.init(producer_id=1001, epoch=0).error == "PRODUCER_FENCED"
    assert host.state() == "Ongoing"


def test_the_producer_that_was_aborted_gets_the_epoch_of_the_abort_without_a_second_bump(
    host: TransactionTestHost,
) -> None:
    tx = host.producer()
    host.add(tx, T0)
    host.init()
    host.markers_are_written()
    assert host.init(producer_id=1000, epoch=0) == ("NONE", 1000, 1)


def test_the_new_timeout_counts_from_then_on(host: TransactionTestHost) -> None:
    host.init(timeout_ms=5)
    host.init(timeout_ms=77)
    host.crash()
    assert host.transaction().timeout_ms == 77


# --- the end of the epochs


def test_after_the_last_epoch_comes_a_new_producer_id(host: TransactionTestHost) -> None:
    host.init()
    host.put_epoch(LAST_EPOCH)
    assert host.init() == ("NONE", 1001, 0)
    assert host.transaction().previous_producer_id == 1000


def test_a_producer_that_did_not_hear_of_its_new_id_is_told_again(host: TransactionTestHost) -> None:
    host.init()
    host.put_epoch(LAST_EPOCH)
    assert host.init(producer_id=1000, epoch=LAST_EPOCH) == ("NONE", 1001, 0)
    assert host.init(producer_id=1000, epoch=LAST_EPOCH) == ("NONE", 1001, 0)
    assert host.init(producer_id=1000, epoch=LAST_EPOCH - 1).error == "PRODUCER_FENCED"


def test_one_that_took_the_new_id_over_fences_it(host: TransactionTestHost) -> None:
    host.init()
    host.put_epoch(LAST_EPOCH)
    host.init()
    assert host.init(producer_id=1000, epoch=LAST_EPOCH).error == "PRODUCER_FENCED"


def test_another_epoch_of_an_id_without_epochs_is_fenced(host: TransactionTestHost) -> None:
    host.init()
    host.put_epoch(LAST_EPOCH)
    assert host.init(producer_id=1000, epoch=7).error == "PRODUCER_FENCED"


def test_an_abort_at_the_last_epoch_has_a_marker_above_it_and_a_new_id_after_it(host: TransactionTestHost) -> None:
    host.init()
    tx = host.put_epoch(LAST_EPOCH)
    host.add(tx, T0)
    assert host.init().error == "CONCURRENT_TRANSACTIONS"
    assert host.markers[0].producer_epoch == LAST_EPOCH + 1
    host.markers_are_written()
    assert (host.transaction().producer_id, host.epoch()) == (1001, 0)
    assert host.init() == ("NONE", 1001, 1)


def test_no_abort_without_the_id_that_has_to_follow(host: TransactionTestHost) -> None:
    host.init()
    tx = host.put_epoch(LAST_EPOCH)
    host.add(tx, T0)
    host.has_producer_ids = False
    assert host.init().error == "COORDINATOR_LOAD_IN_PROGRESS"
    assert host.state() == "Ongoing"


def test_no_new_id_can_be_had_at_the_last_epoch(host: TransactionTestHost) -> None:
    host.init()
    host.put_epoch(LAST_EPOCH)
    host.has_producer_ids = False
    assert host.init() == Got("COORDINATOR_LOAD_IN_PROGRESS")
    assert host.epoch() == LAST_EPOCH
