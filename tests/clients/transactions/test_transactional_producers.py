"""Transactional producers of each client commit, abort, time out, are fenced, crash and come back.

KOHORT_TEST_BROKER=kafka tells the same story to a real Kafka.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.group_broker import AnyBroker, GroupBroker, KafkaBroker
from tests.clients.transactions.looking import (
    committed_offsets,
    create_topics,
    read_committed,
    transaction_state,
    wait_until,
)
from tests.clients.transactions.producer_process import ProducerProcess
from tests.clients.transactions.programs import producers

SETTINGS = {"transaction_abort_timed_out_transaction_cleanup_interval_ms": "100"}
PARTITIONS = 2
LONG_MS, SHORT_MS = 60_000, 1_000
WITHOUT_OFFSETS = ("franz_go",)  # it commits offsets in sessions of a group only: see test_exactly_once.py


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnyBroker]:
    kind = KafkaBroker if os.environ.get("KOHORT_TEST_BROKER") == "kafka" else GroupBroker
    with kind(tmp_path_factory.mktemp("transactions"), **SETTINGS) as running:
        yield running


class Story:
    """The producers of one client, its topic and its group."""

    def __init__(self, client: str, broker: AnyBroker, folder: Path) -> None:
        self.client, self.topic, self.group = client, client, f"{client}-group"
        self._broker = broker
        self._command, self._errors = producers(client, broker.address), folder / f"{client}.err"
        create_topics(broker.client, **{self.topic: PARTITIONS})
        self.program = self.begin_program()

    def begin_program(self) -> ProducerProcess:
        self.program = ProducerProcess(self._command, self._errors)
        return self.program

    def open(self, producer: str, timeout_ms: int = LONG_MS, *, transactional_id: str | None = None) -> None:
        self.program.must(producer, "open", transactional_id or f"{self.client}-{producer}", timeout_ms)

    def write(self, producer: str, value: str, offset: int | None = None) -> None:
        self.program.must(producer, "begin")
        for partition in range(PARTITIONS):
            self.program.must(producer, "send", self.topic, partition, value)
        if offset is not None and self.client not in WITHOUT_OFFSETS:
            self.program.must(producer, "offsets", self.group, self.topic, 0, offset)

    def expect_offset(self, offset: int) -> None:
        if self.client not in WITHOUT_OFFSETS:
            assert committed_offsets(self._broker.client, self.group) == {(self.topic, 0): offset}

    def wait_for_state(self, producer: str, state: str) -> None:
        transactional_id = f"{self.client}-{producer}"
        wait_until(lambda: transaction_state(self._broker.client, transactional_id) == state, lambda: state)

    def told(self, producer: str) -> tuple[str | None, bool]:
        """What the client says to a commit that must fail, and whether it can go on when it aborts then."""
        return self.program.tell(producer, "commit"), self.program.tell(producer, "abort") is None

    def seen(self) -> Counter[str]:
        """What is in every partition; all partitions have the same."""
        first, *others = read_committed(self._broker.client, self.topic, PARTITIONS).values()
        assert all(first == other for other in others), (first, others)
        return first


# What each client says when it commits a transaction that has timed out, and one that a second instance has fenced;
# and whether it goes on when it aborts then.
TOO_LATE = {
    "confluent": ("_FENCED", False),
    "java": ("InvalidTxnStateException", False),
    "java_3_9": ("ProducerFencedException", False),
    "kafka_python": ("ProducerFencedError", False),
    "aiokafka": ("ProducerFenced", False),
    "franz_go": ("INVALID_TXN_STATE", True),
    "sarama": ("error code 90", False),
    "sarama_oldest": ("error code 47", False),
}
FENCED = TOO_LATE | {"java": ("ProducerFencedException", False), "franz_go": ("PRODUCER_FENCED", True)}


@pytest.mark.kafka
@pytest.mark.parametrize("client", TOO_LATE)
def test_producers_commit_abort_time_out_are_fenced_and_crash(client: str, broker: AnyBroker, tmp_path: Path) -> None:
    story = Story(client, broker, tmp_path)
    with story.program as program:
        story.open("a")
        for number in range(3):
            story.write("a", f"committed-{number}", offset=5 + number)
            program.must("a", "commit")
        story.write("a", "aborted", offset=9)
        program.must("a", "abort")
        story.expect_offset(7)
        story.write("a", "after-the-abort", offset=10)
        program.must("a", "commit")

        story.open("slow", SHORT_MS)
        program.must("slow", "begin")
        program.must("slow", "send", story.topic, 0, "timed-out")
        story.wait_for_state("slow", "CompleteAbort")
        too_late = story.told("slow")
        story.open("slow-again", LONG_MS, transactional_id=f"{client}-slow")
        story.write("slow-again", "after-the-timeout")
        program.must("slow-again", "commit")

        story.write("a", "fenced", offset=11)
        story.open("second", transactional_id=f"{client}-a")
        fenced = story.told("a")
        story.expect_offset(10)
        story.write("second", "of-the-second", offset=12)
        program.must("second", "commit")

        story.write("second", "crashed", offset=13)
        program.kill()
    with story.begin_program() as program:
        story.open("third", transactional_id=f"{client}-a")
        story.expect_offset(12)
        story.write("third", "of-the-third", offset=14)
        program.must("third", "commit")
        program.must("third", "close")
    story.expect_offset(14)
    whole = [*(f"committed-{number}" for number in range(3)), "after-the-abort", "after-the-timeout"]
    assert story.seen() == Counter([*whole, "of-the-second", "of-the-third"])
    assert too_late == TOO_LATE[client]
    assert fenced == FENCED[client]
