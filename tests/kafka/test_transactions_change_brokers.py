"""Transactions go on when Kohort takes the place of a Kafka in the middle of them, and when a Kafka takes it back.

Both brokers run on the same data folder, one after the other: with clean stops, after which each believes what the
files of the other say (indexes of aborted transactions, snapshots of producers), and with kills, after which they look
into the logs.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kohort.broker.dump import dump
from kohort.printable import printable_json
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.storage.txn_index import ENTRY_BYTES
from tests.clients.kohort import KohortProcess
from tests.kafka.jars import dump_log
from tests.kafka.server import KafkaServer
from tests.parity.peer import Peer
from tests.parity.scenarios.coordinators import warm_up
from tests.parity.transaction_story import TV0, TransactionalProducer, TransactionStory

pytestmark = pytest.mark.kafka

CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
# A Kafka that was killed registers again when the session of its former life is over.
KAFKA_SETTINGS = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "500"}
HEADER_VALUES = re.compile(r" headerValues: \[[^]]*\]")


class Brokers:
    """A Kafka, and a Kohort that takes its place."""

    def __init__(self, folder: Path, *, clean: bool) -> None:
        self._folder = folder
        self._clean = clean
        self._kafka = KafkaServer(folder / "kafka", KAFKA_SETTINGS)
        self._kohort: KohortProcess | None = None
        self.data = self._kafka.data
        self.address = self._kafka.address

    def change(self) -> None:
        if self._kohort is None:
            self.become_kohort()
        else:
            self.become_kafka()

    def become_kohort(self) -> None:
        if self._clean:
            self._kafka.stop()
        else:
            self._kafka.process.kill()
            self._kafka.process.wait()
        said = (self.data / CLEAN_SHUTDOWN).read_bytes() if self._clean else b""
        self._kohort = KohortProcess(self._folder / "kohort", log_dirs=str(self.data), node_id="1")
        self._said = said
        self.address = self._kohort.address

    def become_kafka(self) -> None:
        self.stop_kohort()
        if self._clean:  # Kafka is to believe the files as they are
            (self.data / CLEAN_SHUTDOWN).write_bytes(self._said)
        self._kafka.start_again()
        self.address = self._kafka.address

    def stop_kohort(self) -> None:
        kohort, self._kohort = self._kohort, None
        assert kohort is not None
        if self._clean:
            assert kohort.stop() == 0, kohort.log_tail()
        else:
            kill(kohort)

    def stop(self) -> None:
        if self._kohort is not None:
            kill(self._kohort)
        self._kafka.stop()


def kill(kohort: KohortProcess) -> None:
    kohort.process.kill()
    kohort.process.wait()
    assert kohort.process.stdout is not None
    kohort.process.stdout.close()


class Movers:
    """Transactional producers, which carry on with whatever broker there is."""

    def __init__(self, brokers: Brokers) -> None:
        self.brokers = brokers
        self.peer = Peer("broker", brokers.address)
        self.peer.begin("movers", 5)
        warm_up(self.peer)
        self.story = TransactionStory(self.peer, ApiKey.END_TXN)
        self.topic = self.story.topic("", 2)
        self.producers: list[TransactionalProducer] = []

    def producer(self, suffix: str, *, is_old: bool = False) -> TransactionalProducer:
        made = self.story.begun(suffix, versions=TV0 | {ApiKey.END_TXN: 4} if is_old else None)
        self.producers.append(made)
        return made

    def move(self) -> None:
        """To the broker that is there now. It knows what the other one did."""
        before = self.look()
        for connected in (self.story._admin, *self.producers):
            connected.hang_up()
        self.peer.hang_up()
        self.brokers.change()
        self.peer.address = self.brokers.address
        self.peer.wait_until(self.story._has_loaded, "the coordinators to load")
        self.peer.wait_until(self.story._has_coordinators, "producer ids")
        assert self.look() == before

    def look(self) -> list[Any]:
        """Transactions, what both kinds of readers get, and the group's offsets."""
        kept = len(self.peer.exchanges)
        transactions = [self.story.look_at(each.transactional_id) for each in self.producers]
        self.story.note_records((self.topic, 0), (self.topic, 1))
        self.story.fetch({self.topic: [0, 1]}, stable=True)
        noted = [each.answer for each in self.peer.exchanges[kept:]]
        del self.peer.exchanges[kept:]
        return [
            [(each.transaction_state, each.producer_id, each.producer_epoch, each.transaction_timeout_ms,
              each.transaction_start_time_ms, sorted((t.topic, sorted(t.partitions)) for t in each.topics))
             for each in transactions],
            noted[:-1],
            self.offsets_in(noted[-1]),
        ]  # fmt: skip

    def offsets(self) -> list[tuple[int, str]]:
        self.story.fetch({self.topic: [0, 1]}, stable=True)
        return self.offsets_in(self.peer.exchanges.pop().answer)

    @staticmethod
    def offsets_in(answer: Any) -> list[tuple[int, str]]:
        (group,) = answer.groups
        return [
            (each.committed_offset, ErrorCode(each.error_code).name)
            for topic in group.topics
            for each in sorted(topic.partitions, key=lambda one: one.partition_index)
        ]


UNSTABLE = (-1, "UNSTABLE_OFFSET_COMMIT")
GOOD = ErrorCode.NONE


def produced(answer: Any) -> str:
    return ErrorCode(answer.responses[0].partition_responses[0].error_code).name


@pytest.mark.parametrize("clean", [True, pytest.param(False, marks=pytest.mark.story)])
def test_open_transactions_go_on_with_the_other_broker(tmp_path: Path, *, clean: bool) -> None:
    brokers = Brokers(tmp_path, clean=clean)
    try:
        go_on(brokers)
        brokers.stop_kohort()
        kafkas_tool_reads_what_we_wrote(brokers.data, clean=clean)
    finally:
        brokers.stop()


def go_on(brokers: Brokers) -> None:
    movers = Movers(brokers)
    story, topic = movers.story, movers.topic
    story.commit({(topic, 0): 1, (topic, 1): 1})
    new, old, done = movers.producer("-new"), movers.producer("-old", is_old=True), movers.producer("-done")
    done.begin((topic, 0), records=2)
    done.abort()
    new.begin((topic, 0), records=2)
    new.commit_offsets({(topic, 0): 7})
    old.begin((topic, 1))
    old.add_offsets()
    old.commit_offsets({(topic, 1): 8})
    assert movers.offsets() == [UNSTABLE] * 2

    movers.move()  # to Kohort
    assert produced(new.produce((topic, 0), sequence=1)) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert [produced(new.produce((topic, 0))), produced(new.produce((topic, 1)))] == ["NONE"] * 2
    assert new.commit_it().error_code == GOOD
    assert produced(old.produce((topic, 1))) == "NONE"
    assert old.abort().error_code == GOOD
    assert movers.offsets() == [(7, "NONE"), (1, "NONE")]
    assert new.end(epoch=new.epoch - 1).error_code == GOOD  # again: the answer was lost, as it were
    for commit in (False, True, False):
        done.begin((topic, 1), records=3)
        assert done.end(commit).error_code == GOOD
    new.begin((topic, 0), (topic, 1), records=4)
    new.commit_offsets({(topic, 0): 9})
    old.begin((topic, 1))
    old.add_offsets()
    old.commit_offsets({(topic, 1): 10})

    movers.move()  # and back
    assert produced(new.produce((topic, 1))) == "NONE"
    assert new.abort().error_code == GOOD
    assert produced(old.produce((topic, 1))) == "NONE"
    assert old.commit_it().error_code == GOOD
    assert movers.offsets() == [(7, "NONE"), (10, "NONE")]
    done.begin((topic, 1))
    new.begin((topic, 0))

    movers.move()  # and once more to Kohort
    for producer in (done, new):
        assert producer.commit_it().error_code == GOOD
    again = story.producer("-old")
    assert again.init().error_code == GOOD
    assert again.epoch == old.epoch + 1
    stable = [story._fetched((topic, index), 1) for index in (0, 1)]
    assert [each.last_stable_offset - each.high_watermark for each in stable] == [0, 0]
    story.close()


def kafkas_tool_reads_what_we_wrote(data: Path, *, clean: bool) -> None:
    """Records of transactional ids, line for line as our own tool does; aborted transactions, and producers."""
    folders = sorted(data.glob("__transaction_state-*"))
    logs = [str(file) for folder in folders for file in sorted(folder.glob("*.log")) if file.stat().st_size]
    assert logs
    printed, complaints = dump_log("--transaction-log-decoder", "--deep-iteration", "--files", ",".join(logs))
    assert complaints == ""
    out = io.StringIO()
    assert dump(logs, out=out) == 0
    ours = [HEADER_VALUES.sub("", line) for line in out.getvalue().splitlines()]
    assert ours == [printable_json(line) for line in printed.splitlines()]
    assert "headerKeys: [kohort.cause]" in out.getvalue()

    indexes = [file for file in sorted(data.glob("movers-*/*.txnindex")) if file.stat().st_size]
    rows = lines_about(indexes, "producerId: ")
    assert len(rows) == sum(file.stat().st_size // ENTRY_BYTES for file in indexes) == 6
    if clean:
        snapshots = sorted(data.glob("movers-*/*.snapshot"))
        found = lines_about(snapshots, "producerId: ")
        assert len(found) >= 5
        assert all("producerEpoch: " in line and "currentTxnFirstOffset: " in line for line in found)


def lines_about(files: Sequence[Path], beginning: str) -> list[str]:
    printed, complaints = dump_log("--files", ",".join(map(str, files)))
    assert complaints == ""
    return [line for line in printed.splitlines() if beginning in line]
