"""Kafka Streams with exactly_once_v2 counts words while instances come, go and die, and the broker is killed.

Its cache is off, so it tells every single count of a word: 1, 2, 3 ... A record that was counted twice or lost, and a
state that was restored wrongly, shows as a number that is missing or told again.

KOHORT_TEST_BROKER=kafka runs it on a real Kafka.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kohort.client.client import Client
from tests.broker.transactional_reader import READ_COMMITTED, READ_UNCOMMITTED, Reader
from tests.clients.group_broker import AnyBroker, GroupBroker, KafkaBroker
from tests.clients.transactions.looking import create_topics, wait_until
from tests.clients.transactions.programs import java_program
from tests.kafka.jars import streams_jars

APPLICATION = "word-count"
LINES, COUNTS = "lines", "counts"
PARTITIONS = 4
WORDS = [f"word-{number}" for number in range(40)]
WORDS_IN_LINE = 5
SETTINGS = {"transaction_abort_timed_out_transaction_cleanup_interval_ms": "500"}


class Instance:
    """A process of the application."""

    def __init__(self, name: str, broker: AnyBroker, folder: Path) -> None:
        command = java_program(
            "WordCount", broker.address, APPLICATION, name, str(folder / f"state-{name}"), jars=streams_jars()
        )
        self.name, self.told = name, folder / f"{name}.out"
        with self.told.open("ab") as told:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=told, stderr=told)

    def lines(self) -> list[str]:
        return self.told.read_text(errors="replace").splitlines()

    def is_running(self) -> bool:
        assert self.process.poll() is None, self.lines()[-20:]
        return [line for line in self.lines() if line.startswith("state ")][-1:] == ["state RUNNING"]

    def close(self) -> None:
        """It leaves as an application does that is deployed anew."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(90) == 0, self.lines()[-20:]

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()


class Story:
    def __init__(self, broker: AnyBroker, folder: Path) -> None:
        self.broker, self._folder = broker, folder
        self._instances: list[Instance] = []
        self._random = random.Random(7)
        self.expected: Counter[str] = Counter()
        create_topics(broker.client, **{LINES: PARTITIONS, COUNTS: PARTITIONS})
        self._reader = Reader(COUNTS, PARTITIONS, content=lambda record: f"{record.key!r}={record.value!r}")

    def start(self, name: str) -> Instance:
        instance = Instance(name, self.broker, self._folder)
        self._instances.append(instance)
        return instance

    def write(self, lines: int) -> None:
        producer = Producer({"bootstrap.servers": self.broker.address, "enable.idempotence": True, "linger.ms": 5})
        for number in range(lines):
            words = self._random.choices(WORDS, k=WORDS_IN_LINE)
            self.expected.update(words)
            producer.produce(LINES, " ".join(words), partition=number % PARTITIONS)
        assert producer.flush(60) == 0

    def read(self) -> int:
        """How many counts a read_committed reader has seen by now."""
        with Client(self.broker.address, timeout_s=60) as client:
            self._reader.read_on(client)
        return sum(seen.total() for seen in self._reader.seen.values())

    def until_counted(self, share: float = 1.0) -> None:
        """That part of all words that were written."""
        wanted = int(self.expected.total() * share)
        wait_until(lambda: self.read() >= wanted, lambda: f"{wanted} counts, {self.read()} are there\n{self.told()}")

    def until_running(self, *instances: Instance) -> None:
        wait_until(lambda: all(each.is_running() for each in instances), self.told)

    def check(self) -> None:
        """Every count of every word, each once, and nothing else; and readers reach the end."""
        ends: dict[int, int] = {}
        with Client(self.broker.address, timeout_s=60) as client:

            def is_stable() -> bool:
                ends.update(self._reader.ends(client, READ_UNCOMMITTED))
                return self._reader.ends(client, READ_COMMITTED) == ends

            wait_until(is_stable, lambda: "the last stable offsets")
            while self._reader.positions != ends:
                self._reader.read_on(client)
        seen = sum(self._reader.seen.values(), Counter())
        right = Counter(
            f"{word.encode()!r}={count.to_bytes(8, 'big')!r}"
            for word, times in self.expected.items()
            for count in range(1, times + 1)
        )
        assert seen == right, f"too many: {list((seen - right).items())[:10]}, missing: {list(right - seen)[:10]}"

    def told(self) -> str:
        return "\n".join(f"{each.name}: {each.lines()[-8:]}" for each in self._instances)

    def abandon(self) -> None:
        for each in self._instances:
            each.kill()


@contextmanager
def story(folder: Path) -> Iterator[Story]:
    kind = KafkaBroker if os.environ.get("KOHORT_TEST_BROKER") == "kafka" else GroupBroker
    with kind(folder, **SETTINGS) as broker:
        told = Story(broker, folder)
        try:
            yield told
        finally:
            told.abandon()


@pytest.mark.story
@pytest.mark.kafka
def test_streams_counts_every_word_once_through_rebalances_and_kills(tmp_path: Path) -> None:
    with story(tmp_path) as told:
        first = told.start("first")
        told.write(500)
        told.until_counted(0.5)
        second = told.start("second")
        told.write(500)
        told.until_running(first, second)
        told.until_counted()

        for share in (0.7, 0.9, 0.8):
            told.write(1000)
            told.until_counted(share)
            told.broker.kill()
            told.broker.start_again()
            told.write(200)
            told.until_counted()

        told.write(1000)
        told.until_counted(0.9)
        second.close()
        told.until_counted()

        third = told.start("third")
        told.until_running(first, third)
        told.write(1000)
        told.until_counted(0.9)
        first.kill()
        told.write(300)
        told.until_counted()
        told.check()
        print(f"{told.expected.total()} words were counted")
        print(told.told())
