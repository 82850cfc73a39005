"""EndTxn: the table of the old versions, that of the new one, and what markers follow. As Kafka 4.3.1 answers."""

from __future__ import annotations

import pytest

from kohort.coordinator.transactions.transaction import LAST_EPOCH
from tests.coordinator.transactions.support import Got, TransactionTestHost
from tests.transaction_requests import Identity

T0, T1 = ("orders", 0), ("orders", 1)
OLD = (0, 1, 2, 3, 4)


@pytest.fixture
def host() -> TransactionTestHost:
    return TransactionTestHost()


def in_state(host: TransactionTestHost, state: str) -> Identity:
    """A producer whose transactional id is in this state; its epoch is the stored one."""
    tx = host.producer()
    if state != "Empty":
        host.add(tx, T0)
    if state.startswith("Complete"):
        tx = host.end_well(tx, commit=state == "CompleteCommit")
    assert host.state() == state
    return tx


# --- both


@pytest.mark.parametrize("version", range(6))
def test_what_is_refused_in_every_version(host: TransactionTestHost, version: int) -> None:
    tx = in_state(host, "Ongoing")
    assert host.end(tx._replace(transactional_id=""), commit=True, version=version).error == "INVALID_REQUEST"
    unknown = tx._replace(transactional_id="nobody")
    assert host.end(unknown, commit=True, version=version).error == "INVALID_PRODUCER_ID_MAPPING"
    other_id = tx._replace(producer_id=5)
    assert host.end(other_id, commit=True, version=version).error == "INVALID_PRODUCER_ID_MAPPING"
    fenced = "INVALID_PRODUCER_EPOCH" if version < 2 else "PRODUCER_FENCED"
    for epoch in (-1, 1, 7):
        # One epoch below the stored one is a repetition in version 5; here the stored one is 0.
        wrong = tx._replace(epoch=epoch)
        expected = "PRODUCER_FENCED" if version == 5 else fenced
        assert host.end(wrong, commit=True, version=version).error == expected
    assert host.state() == "Ongoing"


@pytest.mark.parametrize("commit", [True, False])
def test_every_partition_gets_a_marker_and_then_the_transaction_is_complete(
    host: TransactionTestHost, *, commit: bool
) -> None:
    tx = host.producer()
    host.produce(tx, T0, T1)
    host.add_offsets(tx, "g")
    assert host.end(tx, commit=commit) == ("NONE", 1000, 1)
    assert host.state() == ("PrepareCommit" if commit else "PrepareAbort")
    (markers,) = host.markers
    assert markers.partitions == {"orders": {0, 1}, "__consumer_offsets": {3}}
    assert (markers.producer_id, markers.producer_epoch, markers.commit) == (1000, 1, commit)
    host.markers_are_written()
    assert host.state() == ("CompleteCommit" if commit else "CompleteAbort")
    (ended,) = host.ended
    assert (ended.result, ended.cause, ended.partitions) == ("commit" if commit else "abort", "client", 3)


# --- versions 0 to 4


@pytest.mark.parametrize("version", OLD)
@pytest.mark.parametrize("commit", [True, False])
def test_old_versions_keep_the_epoch(host: TransactionTestHost, version: int, *, commit: bool) -> None:
    tx = host.producer()
    host.produce(tx, T0)  # also if a newer client has begun it
    assert host.end(tx, commit=commit, version=version).error == "NONE"
    (markers,) = host.markers
    assert (markers.producer_epoch, markers.transaction_version) == (0, 0)
    host.markers_are_written()
    assert host.epoch() == 0
    assert host.add(tx, T0) == "NONE"


@pytest.mark.parametrize("version", OLD)
@pytest.mark.parametrize(
    ("state", "commit", "error"),
    [
        ("Empty", True, "INVALID_TXN_STATE"),
        ("Empty", False, "INVALID_TXN_STATE"),
        ("CompleteCommit", True, "NONE"),
        ("CompleteCommit", False, "INVALID_TXN_STATE"),
        ("CompleteAbort", True, "INVALID_TXN_STATE"),
        ("CompleteAbort", False, "NONE"),
    ],
)
def test_old_versions_where_nothing_is_open(
    host: TransactionTestHost, version: int, state: str, error: str, *, commit: bool
) -> None:
    tx = in_state(host, state)
    records = len(host.log())
    assert host.end(tx, commit=commit, version=version).error == error
    assert (host.state(), len(host.log())) == (state, records)


@pytest.mark.parametrize("version", OLD)
def test_old_versions_look_at_ids_before_they_say_that_markers_are_written(
    host: TransactionTestHost, version: int
) -> None:
    tx = in_state(host, "Ongoing")
    host.end(tx, commit=True, version=version)
    for commit in (True, False):
        assert host.end(tx, commit=commit, version=version).error == "CONCURRENT_TRANSACTIONS"
    wrong = tx._replace(producer_id=5)
    assert host.end(wrong, commit=True, version=version).error == "INVALID_PRODUCER_ID_MAPPING"


# --- version 5


@pytest.mark.parametrize(
    ("state", "commit", "is_repeated", "answer"),
    [
        ("Ongoing", True, False, "bump"),
        ("Ongoing", False, False, "bump"),
        ("Ongoing", True, True, "PRODUCER_FENCED"),
        ("Ongoing", False, True, "PRODUCER_FENCED"),
        ("Empty", True, False, "INVALID_TXN_STATE"),
        ("Empty", False, False, "bump"),
        ("Empty", True, True, "PRODUCER_FENCED"),
        ("Empty", False, True, "PRODUCER_FENCED"),
        ("CompleteCommit", True, False, "INVALID_TXN_STATE"),
        ("CompleteCommit", False, False, "bump"),
        ("CompleteCommit", True, True, "the same"),
        ("CompleteCommit", False, True, "INVALID_TXN_STATE"),
        ("CompleteAbort", True, False, "INVALID_TXN_STATE"),
        ("CompleteAbort", False, False, "bump"),
        ("CompleteAbort", True, True, "INVALID_TXN_STATE"),
        ("CompleteAbort", False, True, "the same"),
    ],
)
def test_the_table_of_version_5(
    host: TransactionTestHost, state: str, answer: str, *, commit: bool, is_repeated: bool
) -> None:
    tx = in_state(host, state)
    asking = tx._replace(epoch=tx.epoch - 1) if is_repeated else tx
    got = host.end(asking, commit=commit)
    if answer == "bump":
        assert got == ("NONE", tx.producer_id, tx.epoch + 1)
        assert host.state() == ("PrepareCommit" if commit else "PrepareAbort")
        host.markers_are_written()
        assert host.epoch() == tx.epoch + 1
    elif answer == "the same":
        assert got == ("NONE", tx.producer_id, tx.epoch)
        assert host.state() == state
    else:
        assert got == (answer, -1, -1)
        assert host.state() == state


@pytest.mark.parametrize("epoch", [-5, 9])
@pytest.mark.parametrize("state", ["Empty", "Ongoing", "CompleteCommit", "CompleteAbort"])
def test_other_epochs_are_fenced(host: TransactionTestHost, state: str, epoch: int) -> None:
    tx = in_state(host, state)
    assert host.end(tx._replace(epoch=epoch), commit=False) == Got("PRODUCER_FENCED")


def test_while_markers_are_written_all_come_again_whatever_their_ids(host: TransactionTestHost) -> None:
    tx = in_state(host, "Ongoing")
    host.end(tx, commit=True)
    for who in (tx, tx._replace(epoch=1), tx._replace(epoch=77), tx._replace(producer_id=5)):
        assert host.end(who, commit=True) == Got("CONCURRENT_TRANSACTIONS")


@pytest.mark.parametrize("commit", [True, False])
def test_the_epoch_of_an_older_client_that_has_ended_its_transaction_is_given_to_nobody(
    host: TransactionTestHost, commit: bool
) -> None:
    zombie = host.producer()
    newer = host.producer()
    host.add(newer, T0)
    host.end(newer, commit=commit, version=3)
    host.markers_are_written()
    assert host.epoch() == newer.epoch == zombie.epoch + 1
    assert host.end(zombie, commit=commit).error == "PRODUCER_FENCED"


def test_an_abort_of_nothing_has_both_records_and_no_markers(host: TransactionTestHost) -> None:
    tx = in_state(host, "Empty")
    host.end(tx, commit=False)
    assert host.markers[0].partitions == {}
    host.markers_are_written()
    statuses = [value.transaction_status for value, _ in host.log()]
    assert statuses == [0, 3, 5]


def test_a_repeated_commit_is_fenced_once_the_next_transaction_has_begun(host: TransactionTestHost) -> None:
    tx = in_state(host, "Ongoing")
    after = host.end_well(tx)
    host.produce(after, T0)
    assert host.end(tx, commit=True).error == "PRODUCER_FENCED"


# --- the end of the epochs


@pytest.mark.parametrize("commit", [True, False])
def test_the_last_epoch_ends_with_a_new_producer_id(host: TransactionTestHost, *, commit: bool) -> None:
    host.producer()
    tx = host.put_epoch(LAST_EPOCH)
    host.produce(tx, T0)
    assert host.end(tx, commit=commit) == ("NONE", 1001, 0)
    (markers,) = host.markers
    assert (markers.producer_id, markers.producer_epoch) == (1000, LAST_EPOCH + 1)
    assert host.transaction().next_producer_id == 1001
    host.markers_are_written()
    assert (host.transaction().producer_id, host.epoch()) == (1001, 0)
    assert host.end(tx, commit=commit) == ("NONE", 1001, 0)  # asked again
    assert host.end(tx, commit=not commit).error == "INVALID_TXN_STATE"
    assert host.produce(Identity("tx", 1001, 0), T0) == "NONE"
    assert host.end(tx, commit=commit).error == "INVALID_PRODUCER_ID_MAPPING"  # the next one has begun


def test_the_new_producer_id_survives_a_crash_between_the_decision_and_the_end(host: TransactionTestHost) -> None:
    host.producer()
    tx = host.put_epoch(LAST_EPOCH)
    host.produce(tx, T0)
    host.end(tx, commit=True)
    host.crash()
    assert host.markers[0].producer_epoch == LAST_EPOCH + 1
    host.markers_are_written()
    assert (host.transaction().producer_id, host.epoch()) == (1001, 0)


def test_old_versions_end_at_the_last_epoch_as_at_any_other(host: TransactionTestHost) -> None:
    host.producer()
    tx = host.put_epoch(LAST_EPOCH)
    host.produce(tx, T0)
    host.end_well(tx, version=4)
    assert (host.transaction().producer_id, host.epoch()) == (1000, LAST_EPOCH)
    assert host.init() == ("NONE", 1001, 0)


def test_no_decision_without_the_id_that_has_to_follow(host: TransactionTestHost) -> None:
    host.producer()
    tx = host.put_epoch(LAST_EPOCH)
    host.produce(tx, T0)
    host.has_producer_ids = False
    assert host.end(tx, commit=True).error == "COORDINATOR_LOAD_IN_PROGRESS"
    assert host.state() == "Ongoing"
    host.has_producer_ids = True
    assert host.end(tx, commit=True) == ("NONE", 1001, 0)
