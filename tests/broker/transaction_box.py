"""A broker box whose transaction coordinator says what the test wants, and batches of transactional producers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kohort.broker.topics.catalog import Partition
from kohort.broker.topics.producer_state import PRODUCERS, Producers
from kohort.broker.topics.stable_offset import last_stable_offset
from kohort.broker.topics.txn_markers import write_marker
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.record_batch import build_batch
from kohort.protocol.txn_marker import TxnMarker
from kohort.storage.disk import Disk
from tests.broker.broker_box import BrokerBox


class Asked:
    """One question to the coordinator that waits for its answer."""

    def __init__(self, who: tuple[str, int, int], partitions: list[tuple[str, int]], add: bool) -> None:
        self.who = who
        self.partitions = partitions
        self.add = add


class ChosenAnswers:
    """A transaction coordinator that answers what it is told to, at once or when it is told to."""

    def __init__(self) -> None:
        self.answers: list[ErrorCode] = []  # used up from the front; afterwards NONE
        self.by_partition: dict[tuple[str, int], ErrorCode] = {}
        self.asked: list[Asked] = []
        self.waiting: list[Callable[[ErrorCode], None]] = []
        self.waits = False

    def verify_or_add(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[tuple[str, int]],
        *,
        add: bool,
        done: Callable[[ErrorCode], None],
    ) -> None:
        self.asked.append(Asked((transactional_id, producer_id, producer_epoch), list(partitions), add))
        if self.waits:
            self.waiting.append(done)
            return
        known = next((self.by_partition[each] for each in partitions if each in self.by_partition), ErrorCode.NONE)
        done(self.answers.pop(0) if self.answers else known)


class TransactionBox(BrokerBox):
    def __init__(self, folder: Path | str, disk: Disk | None = None, **overrides: str) -> None:
        super().__init__(folder, disk, **{"kohort_offsets_sync_before_reply": "false"} | overrides)
        self.coordinator = ChosenAnswers()
        self.broker.__dict__["transactions"] = self.coordinator

    def partition(self, index: int = 0, topic: str = "t") -> Partition:
        found = self.broker.catalog.partition(topic, index)
        assert found is not None
        return found

    def producers(self, index: int = 0) -> Producers:
        known: Producers = self.partition(index).extra[PRODUCERS]
        return known

    def stable(self, index: int = 0) -> int:
        return last_stable_offset(self.broker, self.partition(index))

    def write(
        self, sequence: int, *, producer_id: int = 7, epoch: int = 0, count: int = 1, version: int = 12,
        partition: int = 0, transactional: bool = True, transactional_id: str | None = "mine", topic: str = "t",
    ) -> Any:  # fmt: skip
        """The offset that the records got, or the name of the error."""
        batch = data(self.now, sequence, producer_id=producer_id, epoch=epoch, count=count, transactional=transactional)
        answer = self.produce(batch, topic, partition, version=version, transactional_id=transactional_id)
        return told(answer)

    def end(
        self, *, commit: bool = True, producer_id: int = 7, epoch: int = 0, coordinator_epoch: int = 0,
        version: int = 0, partition: int = 0, topic: str = "t",
    ) -> str:  # fmt: skip
        """Write a marker, and name the answer. `version`: of transactions."""
        answers: list[ErrorCode] = []
        marker = TxnMarker(producer_id, epoch, commit, coordinator_epoch, version)
        write_marker(self.broker, topic, partition, marker, answers.append)
        while not answers:
            self.pass_time(1)
        return answers[0].name


def told(answer: Any) -> Any:
    return answer.base_offset if answer.error_code == 0 else ErrorCode(answer.error_code).name


def data(
    now: int, sequence: int, *, producer_id: int = 7, epoch: int = 0, count: int = 1, transactional: bool = True
) -> bytes:
    return build_batch(
        [(b"k", b"v")] * count, timestamp=now, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence,
        transactional=transactional,
    )  # fmt: skip
