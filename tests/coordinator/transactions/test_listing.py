"""DescribeTransactions and ListTransactions: as Kafka 4.3.1 answers."""

from __future__ import annotations

from typing import Any

import pytest

from kohort.coordinator.shard import Status
from kohort.coordinator.transactions.list_transactions import KNOWN_STATES
from tests.coordinator.transactions.support import TIMEOUT_MS, TransactionTestHost


@pytest.fixture
def host() -> TransactionTestHost:
    """`idle` is Empty, `open` is Ongoing since 30 s, `done` is CompleteCommit, `stuck` is PrepareAbort."""
    made = TransactionTestHost()
    made.producer("idle")
    made.produce(made.producer("open"), ("users", 2), ("orders", 1), ("orders", 0))
    done = made.producer("done")
    made.produce(done, ("orders", 0))
    made.end_well(done)
    stuck = made.producer("stuck")
    made.produce(stuck, ("orders", 0))
    made.end(stuck, commit=False)
    made.now += 30_000
    return made


def ids(answer: Any) -> set[str]:
    assert answer.error_code == 0
    return {each.transactional_id for each in answer.transaction_states}


def test_a_transactional_id_is_described(host: TransactionTestHost) -> None:
    found = host.describe("open")
    assert (found.error_code, found.transaction_state, found.transaction_timeout_ms) == (0, "Ongoing", TIMEOUT_MS)
    assert (found.producer_id, found.producer_epoch) == (1001, 0)
    assert found.transaction_start_time_ms == host.now - 30_000
    assert [(each.topic, list(each.partitions)) for each in found.topics] == [("users", [2]), ("orders", [0, 1])]
    assert host.describe("idle").transaction_start_time_ms == -1
    assert host.describe("done").topics == []


def test_unknown_and_empty_ids(host: TransactionTestHost) -> None:
    assert host.describe("nobody").error_code == 105
    assert host.describe("").error_code == 42


def test_a_shard_that_is_being_loaded_says_so(host: TransactionTestHost) -> None:
    host.shard_of("open").status = Status.LOADING
    assert host.describe("open").error_code == 14
    assert host.describe("").error_code == 42
    assert host.list().error_code == 14
    host.shard_of("open").status = Status.FAILED
    assert host.describe("open").error_code == 16
    assert "open" not in ids(host.list())


def test_all_are_listed(host: TransactionTestHost) -> None:
    answer = host.list(version=0)
    rows = {(each.transactional_id, each.producer_id, each.transaction_state) for each in answer.transaction_states}
    assert rows == {
        ("idle", 1000, "Empty"), ("open", 1001, "Ongoing"), ("done", 1002, "CompleteCommit"),
        ("stuck", 1003, "PrepareAbort"),
    }  # fmt: skip


def test_by_state(host: TransactionTestHost) -> None:
    answer = host.list(state_filters=["Ongoing", "ongoing", "Empty", "Nonsense", "ongoing"])
    assert ids(answer) == {"open", "idle"}
    assert list(answer.unknown_state_filters) == ["ongoing", "Nonsense"]
    assert ids(host.list(state_filters=["Dead", "PrepareEpochFence"])) == set()


def test_if_no_state_is_known_nothing_is_listed(host: TransactionTestHost) -> None:
    answer = host.list(state_filters=["Nonsense"])
    assert ids(answer) == set()
    assert list(answer.unknown_state_filters) == ["Nonsense"]


def test_by_producer_id(host: TransactionTestHost) -> None:
    assert ids(host.list(producer_id_filters=[1001, 1003, 1003, 77])) == {"open", "stuck"}
    assert ids(host.list(producer_id_filters=[1001], state_filters=["Empty"])) == set()


def test_by_duration(host: TransactionTestHost) -> None:
    assert ids(host.list(duration_filter=29_999)) == {"idle", "open", "done", "stuck"}  # one that never began is old
    assert ids(host.list(duration_filter=30_000)) == {"idle"}
    assert ids(host.list(duration_filter=-1)) == {"idle", "open", "done", "stuck"}


def test_by_pattern_which_matches_the_whole_id(host: TransactionTestHost) -> None:
    assert ids(host.list(transactional_id_pattern="op.*|id")) == {"open"}
    assert ids(host.list(transactional_id_pattern="")) == {"idle", "open", "done", "stuck"}


def test_the_names_of_states_are_kafkas() -> None:
    assert sorted(KNOWN_STATES) == [
        "CompleteAbort", "CompleteCommit", "Dead", "Empty", "Ongoing", "PrepareAbort", "PrepareCommit",
        "PrepareEpochFence",
    ]  # fmt: skip


def test_an_answer_waits_until_what_it_tells_is_durable(host: TransactionTestHost) -> None:
    from kohort.coordinator.transactions.describe_transactions import DESCRIBE_TRANSACTIONS
    from kohort.protocol.messages.describe_transactions import DescribeTransactionsRequest

    host.is_slow = True
    host.init_call("fresh")
    call = host.ask("fresh", DESCRIBE_TRANSACTIONS.api, DescribeTransactionsRequest(["fresh"]))
    assert not call.is_answered
    host.disk_catches_up()
    assert call.answer.transaction_states[0].transaction_state == "Empty"
