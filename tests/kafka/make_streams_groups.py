"""Makes tests/data/streams_groups_4.3.1.tar.gz: groups of Kafka Streams with group.protocol=streams (KIP-1071), as a
real Kafka left them.

    make vectors

    word-count    Two instances of two threads each. Standby tasks are switched on. One instance is killed, another one
                  comes, the session of the first one ends, and the others stay.
    ended         An instance that came and left.
    deleted       The same, and the group was deleted.

Each partition of __consumer_offsets has Kafka's own decoding (dump.txt). Ids and times differ from run to run.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer

from kohort.broker.why.cluster import ClusterLog
from kohort.broker.why.source import read_history
from kohort.client import ask
from kohort.client.cluster import Cluster
from tests.clients.transactions.programs import java_program
from tests.kafka.jars import KAFKA_VERSION, streams_jars
from tests.kafka.make_consumer_groups import World, pack
from tests.kafka.server import KafkaServer
from tests.why.staged import Silent

NAME = f"streams_groups_{KAFKA_VERSION}"
WORD_COUNT, ENDED, DELETED = "word-count", "ended", "deleted"
PARTITIONS = 4
LINES = 40
WAIT_S = 120
SETTINGS = {
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.initial.rebalance.delay.ms": "0",
}


class Instance:
    """A process of the application."""

    def __init__(self, kafka: KafkaServer, application: str, name: str, work: Path) -> None:
        command = java_program(
            "WordCount", kafka.address, application, name, str(work / f"state-{name}"), "streams", jars=streams_jars()
        )
        self.told = work / f"{name}.out"
        with self.told.open("ab") as told:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=told, stderr=told)

    def until_running(self) -> None:
        def is_running() -> bool:
            assert self.process.poll() is None, self.told.read_text()[-3000:]
            states = [line for line in self.told.read_text().splitlines() if line.startswith("state ")]
            return states[-1:] == ["state RUNNING"]

        _until(is_running, lambda: self.told.read_text()[-3000:])

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(WAIT_S) == 0, self.told.read_text()[-3000:]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()


def _until(condition: Callable[[], bool], what: Callable[[], str]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, what()
        time.sleep(0.1)


def write(address: str) -> None:
    producer = Producer({"bootstrap.servers": address})
    for number in range(LINES):
        producer.produce("lines", f"one line of {number}", partition=number % PARTITIONS)
    assert producer.flush(60) == 0


def has_committed(kafka: KafkaServer, group: str) -> bool:
    """Whether the group has read everything."""
    with Cluster(kafka.address) as cluster:
        found = ask.committed_offsets(cluster, group)
    return [found.get(("lines", number)) for number in range(PARTITIONS)] == [LINES // PARTITIONS] * PARTITIONS


def has_settled(kafka: KafkaServer, group: str, threads: int) -> bool:
    """Whether so many threads have what the last target says."""
    with Cluster(kafka.address) as cluster:
        last = read_history(ClusterLog(cluster), group, 10, Silent()).history.rebalances[-1]
    return len(last.members) == threads and not last.behind


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        with KafkaServer(work / "kafka", SETTINGS) as kafka:
            kafka.make_offsets_topic()
            world = World(kafka)
            world.create(lines=PARTITIONS, counts=PARTITIONS)
            write(kafka.address)
            for group in (ENDED, DELETED):
                alone = Instance(kafka, group, f"{group}-1", work)
                alone.until_running()
                alone.close()
            world.delete_group(DELETED)
            world.configure(WORD_COUNT, streams_num_standby_replicas="1")
            first = Instance(kafka, WORD_COUNT, "anna", work)
            first.until_running()
            second = Instance(kafka, WORD_COUNT, "bert", work)
            second.until_running()
            first.kill()
            third = Instance(kafka, WORD_COUNT, "carl", work)
            third.until_running()
            _until(lambda: has_committed(kafka, WORD_COUNT), lambda: "the offsets")
            _until(lambda: has_settled(kafka, WORD_COUNT, 4), lambda: "the session of the one that was killed")
            kafka.stop()  # while the members are there
            for instance in (second, third):
                instance.kill()
        pack(kafka.data, work, NAME, r"(lines|counts|.*-repartition|.*-changelog)-\d+")


if __name__ == "__main__":
    main()
