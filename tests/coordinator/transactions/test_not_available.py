"""What is said while the coordinator cannot answer: what can be told without it comes first, as in Kafka's order."""

from __future__ import annotations

import pytest

from kohort.coordinator.shard import Status
from tests.coordinator.transactions.support import TransactionTestHost

T0 = ("orders", 0)
STATES = [
    (Status.LOADING, "COORDINATOR_LOAD_IN_PROGRESS"),
    (Status.NOT_OWNED, "NOT_COORDINATOR"),
    (Status.FAILED, "NOT_COORDINATOR"),
]
each_state = pytest.mark.parametrize(("status", "error"), STATES)


@pytest.fixture
def host() -> TransactionTestHost:
    return TransactionTestHost()


@each_state
@pytest.mark.parametrize("version", range(6))
def test_init_producer_id(host: TransactionTestHost, status: Status, error: str, version: int) -> None:
    host.producer()
    host.shard_of().status = status
    assert host.init(version=version).error == error
    assert host.init(version=version, timeout_ms=0).error == "INVALID_TRANSACTION_TIMEOUT"
    assert host.init("", version=version).error == "INVALID_REQUEST"


@each_state
@pytest.mark.parametrize("version", range(4))
def test_partitions_and_offsets(host: TransactionTestHost, status: Status, error: str, version: int) -> None:
    tx = host.producer()
    host.shard_of().status = status
    assert host.add(tx, T0, version=version) == error
    assert host.add_offsets(tx, "g", version=version) == error
    assert [host.produce(tx, T0), host.verify(tx, T0)] == [error] * 2


@each_state
@pytest.mark.parametrize("version", range(6))
def test_end_txn(host: TransactionTestHost, status: Status, error: str, version: int) -> None:
    tx = host.producer()
    host.add(tx, T0)
    host.shard_of().status = status
    for commit in (True, False):
        assert host.end(tx, commit=commit, version=version).error == error
    assert host.end(tx._replace(transactional_id=""), commit=True, version=version).error == "INVALID_REQUEST"


@each_state
def test_markers_that_are_written_meanwhile_end_nothing(host: TransactionTestHost, status: Status, error: str) -> None:
    tx = host.producer()
    host.add(tx, T0)
    host.end(tx, commit=True)
    (event,) = host.markers
    host.shard_of().status = status
    assert host.written(event) == error
    assert host.state() == "PrepareCommit"
