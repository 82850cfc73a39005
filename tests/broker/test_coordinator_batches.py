"""Transactions in __consumer_offsets: the partition knows them, and their markers go through the group coordinator."""

from __future__ import annotations

from pathlib import Path

import pytest

from kohort.broker.coordinator_host import CoordinatorHost
from kohort.broker.topics.catalog import CONSUMER_OFFSETS, Partition
from kohort.broker.topics.producer_state import PRODUCERS
from kohort.broker.topics.stable_offset import last_stable_offset
from kohort.broker.topics.txn_markers import write_marker
from kohort.coordinator.api import all_steps
from kohort.coordinator.offsets.txn_offset_commit import TXN_OFFSET_COMMIT, VerifiedCommit, look_up
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.txn_marker import TxnMarker
from kohort.storage.txn_index import AbortedTransaction
from tests.broker.broker_box import BrokerBox
from tests.coordinator.txn_words import txn_request

GROUP = "g"


class AnyCall:
    """A request of the test to the coordinator."""

    version = 5
    client_id = client_host = ""

    def __init__(self, box: BrokerBox) -> None:
        self.now, self.steady_ms = box.clock.now_ms(), box.clock.steady_ms()
        self.answers: list[object] = []

    def reply(self, response: object) -> None:
        self.answers.append(response)


def started(folder: Path) -> BrokerBox:
    box = BrokerBox(folder, kohort_offsets_sync_before_reply="false")
    box.broker.coordinator = CoordinatorHost(box.broker, box.clock)
    box.broker.coordinator.start()
    box.pass_time()
    return box


def commit(box: BrokerBox, producer_id: int, epoch: int = 0) -> None:
    request = txn_request(GROUP, {("t", 0): 5}, producer_id=producer_id, epoch=epoch)
    found = all_steps(look_up(box.broker.catalog, request))
    pending = box.broker.coordinator.runtime.shard_of(GROUP).state.offsets.pending
    verified = VerifiedCommit(request, found, pending.last_marker(producer_id))
    call = AnyCall(box)
    box.broker.coordinator.submit(GROUP, TXN_OFFSET_COMMIT, verified, call)  # type: ignore[arg-type]
    box.pass_time()
    (answer,) = call.answers
    assert answer.topics[0].partitions[0].error_code == 0  # type: ignore[attr-defined]


def end(box: BrokerBox, producer_id: int, epoch: int, commits: bool) -> ErrorCode:
    told: list[ErrorCode] = []
    marker = TxnMarker(producer_id, epoch, commits, 0, 2)
    write_marker(box.broker, CONSUMER_OFFSETS, place(box).index, marker, told.append)
    box.pass_time()
    (error,) = told
    return error


def place(box: BrokerBox) -> Partition:
    topic = box.broker.catalog.ensure_internal(CONSUMER_OFFSETS)
    return topic.partitions[box.broker.coordinator.runtime.shard_of(GROUP).partition]


def stable(box: BrokerBox) -> int:
    return last_stable_offset(box.broker, place(box))


@pytest.mark.parametrize("restarts", [False, True])
def test_an_open_transaction_holds_back_the_stable_offset_of_the_groups_partition(
    tmp_path: Path, restarts: bool
) -> None:
    box = started(tmp_path)
    box.topic()
    commit(box, 1)
    commit(box, 2)
    commit(box, 1)
    assert stable(box) == 0
    if restarts:
        box.crash()
        box = started(tmp_path)
        box.broker.had_transactions = True
        assert stable(box) == 0
    assert end(box, 1, 1, commits=True) is ErrorCode.NONE
    assert stable(box) == 1
    assert place(box).log.log_end_offset == 4
    assert end(box, 2, 1, commits=False) is ErrorCode.NONE
    assert stable(box) == 5
    index = place(box).log.active.txn_index
    assert index is not None
    assert list(index) == [AbortedTransaction(2, 1, 4, 5)]
    producers = place(box).extra[PRODUCERS].by_id
    assert {key: (each.epoch, each.coordinator_epoch) for key, each in producers.items()} == {1: (1, 0), 2: (1, 0)}
    box.close()


def test_a_marker_that_comes_too_late_is_refused_by_the_coordinator(tmp_path: Path) -> None:
    box = started(tmp_path)
    box.topic()
    commit(box, 1, epoch=3)
    assert end(box, 1, 3, commits=True) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert stable(box) == 0
    box.close()


def test_a_marker_for_a_partition_that_is_not_there_is_refused(tmp_path: Path) -> None:
    box = started(tmp_path)
    told: list[ErrorCode] = []
    box.broker.coordinator.write_marker(50, TxnMarker(1, 0, True, 0, 2), told.append)
    assert told == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    box.close()
