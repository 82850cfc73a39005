"""Drives copiers (copier.py) through kills, and checks that every original was copied exactly once."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import KafkaError, Producer

from kohort.client.client import Client
from tests.broker.transactional_reader import Reader
from tests.clients.group_broker import AnyBroker
from tests.clients.transactions.copier import COPIES, ORIGINALS
from tests.clients.transactions.looking import committed_offsets, create_topics, read_committed, wait_until
from tests.clients.transactions.producer_process import ROOT
from tests.clients.transactions.programs import go_program, java_program

PARTITIONS = 6
GROUP = "copiers"
WRITE_EVERY_S = 0.02
ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+:\d+|\d{3,}")


def program(client: str, bootstrap: str, protocol: str, name: str) -> list[str]:
    arguments = (bootstrap, GROUP, protocol, name)
    match client:
        case "java":
            return java_program("Copier", *arguments)
        case "franz_go":
            return go_program("copier", *arguments)
        case "kafka_python":
            return [sys.executable, "-m", "tests.clients.transactions.copier_kafka_python", *arguments]
        case _:
            return [sys.executable, "-m", "tests.clients.transactions.copier", *arguments]


class Copier:
    """A process, which is started again when it ends by itself."""

    def __init__(self, name: str, command: list[str], folder: Path) -> None:
        self.name, self._command = name, command
        self.told = folder / f"{name}.out"
        self.ended_itself = 0
        self.start()

    def start(self) -> None:
        with self.told.open("ab") as told:
            self.process = subprocess.Popen(self._command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=told, stderr=told)

    def look_after(self) -> None:
        if self.process.poll() is not None:
            self.ended_itself += 1
            self.start()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def troubles(self) -> Counter[str]:
        lines = self.told.read_text(errors="replace").splitlines()
        return Counter(ADDRESS.sub("*", line)[:100] for line in lines if line.startswith("trouble"))


class OriginalsWriter:
    """Writes originals all the time, until it is stopped."""

    def __init__(self, bootstrap: str) -> None:
        settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
        self._producer = Producer({**settings, "reconnect.backoff.max.ms": 500, "linger.ms": 5})
        self._failures: list[KafkaError] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.wait(WRITE_EVERY_S):
            for partition in range(PARTITIONS):
                self._producer.produce(ORIGINALS, b"original", partition=partition, on_delivery=self._told)
            self._producer.poll(0)

    def _told(self, error: KafkaError | None, message: object) -> None:
        if error is not None:
            self._failures.append(error)

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        assert self._producer.flush(60) == 0
        assert self._failures == []


class Copying:
    def __init__(self, broker: AnyBroker, clients: list[str], protocol: str, folder: Path, seed: int) -> None:
        self.broker = broker
        self._random = random.Random(seed)
        self.kills: Counter[str] = Counter()
        self.copied = 0
        create_topics(broker.client, **{ORIGINALS: PARTITIONS, COPIES: PARTITIONS})
        self._reader = Reader(COPIES, PARTITIONS)
        self._writer = OriginalsWriter(broker.address)
        self.copiers = [
            Copier(f"{client}-{number}", program(client, broker.address, protocol, f"{client}-{number}"), folder)
            for number, client in enumerate(clients)
        ]

    def until_copied(self, more: int) -> None:
        """A read_committed reader sees so many copies more than now."""
        wanted = self._seen() + more

        def are_there() -> bool:
            for each in self.copiers:
                each.look_after()
            return self._seen() >= wanted

        wait_until(are_there, lambda: f"{wanted} copies, there are {self._seen()}\n{self.story()}")

    def _seen(self) -> int:
        with Client(self.broker.address, timeout_s=60) as client:
            self._reader.read_on(client)
        self.copied = sum(seen.total() for seen in self._reader.seen.values())
        return self.copied

    def kill_somebody(self) -> None:
        """A copier, or the broker, at some moment."""
        time.sleep(self._random.random() / 2)
        choice = self._random.random()
        if choice < 0.4:
            self.kills["broker"] += 1
            self.broker.kill()
            self.broker.start_again()
        elif choice < 0.5:
            self.kills["broker, restarted in the ordinary way"] += 1
            self.broker.restart()
        else:
            self.kills["copier"] += 1
            victim = self._random.choice(self.copiers)
            victim.kill()
            victim.start()

    def kill_everybody_and_check(self) -> None:
        """What is copied must be what the committed offsets say."""
        for each in self.copiers:
            each.kill()
        self.kills["all copiers"] += 1
        self._check()
        for each in self.copiers:
            each.start()

    def _check(self) -> dict[tuple[str, int], int]:
        found = sum(read_committed(self.broker.client, COPIES, PARTITIONS).values(), Counter())
        offsets = committed_offsets(self.broker.client, GROUP)
        right = Counter(f"{partition}:{offset}" for (_, partition), end in offsets.items() for offset in range(end))
        assert found == right, f"too many: {list((found - right).items())[:10]}, lost: {list(right - found)[:10]}"
        return offsets

    def finish(self) -> None:
        self._writer.stop()
        ends = {
            (ORIGINALS, partition): end
            for partition, end in Reader(ORIGINALS, PARTITIONS).ends(self.broker.client, 0).items()
        }

        def all_are_committed() -> bool:
            for each in self.copiers:
                each.look_after()
            return committed_offsets(self.broker.client, GROUP) == ends

        wait_until(all_are_committed, lambda: f"the ends {ends}\n{self.story()}")
        for each in self.copiers:
            each.kill()
        assert self._check() == ends
        self.copied = sum(ends.values())

    def story(self) -> str:
        troubles = [f"{each.name} ended {each.ended_itself} times, {dict(each.troubles())}" for each in self.copiers]
        return "\n".join([f"{self.copied} copies, kills {dict(self.kills)}", *troubles])

    def abandon(self) -> None:
        for each in self.copiers:
            each.kill()


@contextmanager
def copying(
    broker: AnyBroker, clients: list[str], protocol: str, folder: Path, seed: int | None = None
) -> Iterator[Copying]:
    seed = random.SystemRandom().randrange(1_000_000) if seed is None else seed
    print(f"seed {seed}")
    story = Copying(broker, clients, protocol, folder, seed)
    try:
        yield story
    finally:
        story.abandon()
        print(story.story())
