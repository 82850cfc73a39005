"""The markers of a transaction that is decided: who gets one, and when the transaction is over."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest

from kohort.broker.broker import Broker
from kohort.broker.transactions import marker_sender
from kohort.broker.transactions.marker_sender import MAX_DELAY_S, MarkerSender
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.txn_marker import TxnMarker
from kohort.storage.memory_disk import MemoryDisk
from tests.broker.transaction_box import TransactionBox

MARKER = TxnMarker(7, 1, False, 0, 2)
FINAL = [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED]


@pytest.fixture
def box() -> Iterator[TransactionBox]:
    made = TransactionBox("/data", MemoryDisk())
    made.topic("t", 3)
    yield made
    made.close()


class Sent:
    """Markers for some partitions of the topic t, or of others."""

    def __init__(self, box: TransactionBox, **partitions: set[int]) -> None:
        self.is_stale = self.is_over = False
        MarkerSender(box.broker).send(MARKER, partitions, lambda: self.is_stale, self._over)

    def _over(self) -> None:
        assert not self.is_over
        self.is_over = True


def test_when_every_partition_has_its_marker_the_transaction_is_over(box: TransactionBox) -> None:
    for partition in (0, 2):
        box.write(0, partition=partition)
    sent = Sent(box, t={0, 1, 2})
    box.pass_time(1)
    assert sent.is_over
    assert [box.partition(each).log.log_end_offset for each in range(3)] == [2, 1, 2]
    assert [box.stable(each) for each in range(3)] == [2, 1, 2]


def test_a_transaction_without_partitions_is_over_at_once(box: TransactionBox) -> None:
    assert Sent(box).is_over


def test_a_topic_that_was_deleted_needs_no_marker(box: TransactionBox) -> None:
    box.write(0)
    sent = Sent(box, t={0}, gone={0, 1})
    box.pass_time(1)
    assert sent.is_over
    assert box.stable() == 2


@pytest.mark.parametrize("refusal", FINAL)
def test_a_partition_that_refuses_its_marker_keeps_the_others_from_nothing(
    box: TransactionBox, refusal: ErrorCode, caplog: pytest.LogCaptureFixture
) -> None:
    for partition in range(3):
        box.write(0, partition=partition)
    is_newer = refusal is ErrorCode.INVALID_PRODUCER_EPOCH
    assert box.end(partition=0, epoch=5 if is_newer else 0, coordinator_epoch=0 if is_newer else 1_000) == "NONE"
    with caplog.at_level(logging.ERROR):
        sent = Sent(box, t={0, 1, 2})
        box.pass_time(60_000)
    assert not sent.is_over
    assert [box.stable(each) for each in range(3)] == [2, 2, 2]  # nobody waits in the other two
    assert [refusal.name in record.getMessage() for record in caplog.records] == [True]  # and it is told once


class Refusing:
    """Partitions that say `errors` before they take a marker."""

    def __init__(self, errors: list[ErrorCode]) -> None:
        self.errors = errors
        self.asked: list[tuple[str, int]] = []

    def write_marker(
        self, broker: Broker, topic: str, partition: int, marker: TxnMarker, done: Callable[[ErrorCode], None]
    ) -> None:
        self.asked.append((topic, partition))
        done(self.errors.pop(0) if self.errors else ErrorCode.NONE)


def test_a_partition_that_cannot_take_its_marker_now_is_asked_again(
    box: TransactionBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing = Refusing([ErrorCode.KAFKA_STORAGE_ERROR] * 3)
    monkeypatch.setattr(marker_sender, "write_marker", refusing.write_marker)
    sent = Sent(box, t={0})
    for _ in range(8):
        box.pass_time(50)
    assert sent.is_over
    assert refusing.asked == [("t", 0)] * 4


def test_it_is_asked_for_ever_but_not_often(box: TransactionBox, monkeypatch: pytest.MonkeyPatch) -> None:
    refusing = Refusing([ErrorCode.KAFKA_STORAGE_ERROR] * 1_000)
    monkeypatch.setattr(marker_sender, "write_marker", refusing.write_marker)
    Sent(box, t={0})
    for _ in range(600):
        box.pass_time(1_000)
    assert 600 / MAX_DELAY_S <= len(refusing.asked) <= 600 / MAX_DELAY_S + 10


def test_what_another_coordinator_sends_is_not_sent_any_more(
    box: TransactionBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing = Refusing([ErrorCode.KAFKA_STORAGE_ERROR])
    monkeypatch.setattr(marker_sender, "write_marker", refusing.write_marker)
    sent = Sent(box, t={0})
    sent.is_stale = True
    box.pass_time(60_000)
    assert (len(refusing.asked), sent.is_over) == (1, False)


def test_the_markers_of_very_many_partitions_give_way_to_others(box: TransactionBox) -> None:
    box.topic("wide", 1_000)
    sent = Sent(box, wide=set(range(1_000)))
    assert not sent.is_over
    box.pass_time(1)
    assert sent.is_over
