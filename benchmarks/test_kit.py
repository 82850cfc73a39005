"""What a test with a broker of its own waits for: kohort.testing beside kfake and Apache Kafka, in one run.

    python -m benchmarks.test_kit [--rounds 20] [--tests 100] [--kafka-rounds 3] [--only kohort kfake kafka]

- first answer: from asking for the broker until it has answered ApiVersions
- first record: from asking for the broker until a consumer, with its client's defaults, has the record of a new topic
- a test: the same, and then the consumer closes and the broker stops
- time travel, only with Kohort: from kill -9 of a member with a session of 45 s until the other has all partitions

Wall time, so it means something on a quiet machine only; the load is printed. Kohort runs in this process, as in a
test, and is warm: the first round is not counted. kfake (built from the Go module proxy) and Kafka are processes.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter, time

from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer

from kohort.client.client import Client
from kohort.client.errors import ClientError
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.api_versions import ApiVersionsRequest
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kohort.protocol.record_batch import build_batch
from kohort.testing import Broker
from tests.clients.cache import made_from
from tests.testing.workers import ConfluentWorker, working

KFAKE = Path(__file__).parent / "kfake"
PRODUCE_WITH_NAMES = 11
VICTIM = """
import sys
from confluent_kafka import Consumer
consumer = Consumer({
    "bootstrap.servers": sys.argv[1], "group.id": "billing", "session.timeout.ms": 45000, "heartbeat.interval.ms": 100,
    "log_level": 0,
})
consumer.subscribe(["orders"])
while True:
    consumer.poll(0.05)
"""

Peer = Callable[[], Iterator[str]]  # starts a broker, gives its address, and stops it


def kohort() -> Iterator[str]:
    with Broker() as kafka:
        yield kafka.bootstrap_servers


def kfake() -> Iterator[str]:
    with subprocess.Popen([_kfake_program()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.stdin.close()


def kafka() -> Iterator[str]:
    from tests.kafka.server import KafkaServer

    with tempfile.TemporaryDirectory() as folder, KafkaServer(Path(folder)) as server:
        yield server.address


PEERS: dict[str, Peer] = {"kohort": kohort, "kfake": kfake, "kafka": kafka}


def _kfake_program() -> str:
    def build(folder: Path) -> None:
        subprocess.run(["go", "build", "-o", str(folder / "kfake"), "."], cwd=KFAKE, check=True)

    return str(made_from("kfake", sorted(KFAKE.iterdir()), build) / "kfake")


# --- what is measured


def first_answer(start: Callable[[], str]) -> None:
    address = start()
    while True:
        try:
            with Client(address) as client:
                client.send(ApiKey.API_VERSIONS, ApiVersionsRequest("bench", "1"), 3)
                return
        except ClientError:  # Kafka listens before it answers
            continue


def first_record_confluent(start: Callable[[], str]) -> Consumer:
    address = start()
    make_record(address)
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "billing", "auto.offset.reset": "earliest", "log_level": 0}
    )
    consumer.subscribe(["orders"])
    message = consumer.poll(60)
    assert message is not None
    assert message.error() is None, message.error()
    return consumer


def first_record_aiokafka(start: Callable[[], str]) -> float:
    """When the record was there: the event loop ends later."""
    address = start()
    make_record(address)
    return asyncio.run(_read_with_aiokafka(address))


async def _read_with_aiokafka(address: str) -> float:
    """When the record was there."""
    consumer = AIOKafkaConsumer("orders", bootstrap_servers=address, group_id="billing", auto_offset_reset="earliest")
    await consumer.start()
    await consumer.getone()
    read_at = perf_counter()
    await consumer.stop()
    return read_at


def make_record(address: str) -> None:
    """Create the topic, and produce one record into it, without a client library."""
    batch = build_batch([(b"7", b"order 1", ())], timestamp=int(time() * 1000))
    data = [TopicProduceData("orders", partition_data=[PartitionProduceData(0, batch)])]
    with Client(address) as client:
        client.send(ApiKey.CREATE_TOPICS, CreateTopicsRequest([CreatableTopic("orders", 1, 1)], 30_000))
        version = min(PRODUCE_WITH_NAMES, client.newest_version(ApiKey.PRODUCE))
        error = 1
        while error:
            answer = client.send(ApiKey.PRODUCE, ProduceRequest(None, -1, 30_000, data), version)
            error = answer.responses[0].partition_responses[0].error_code


class Clock:
    """Starts a broker and keeps the time since then."""

    def __init__(self, peer: Peer) -> None:
        self._peer = contextmanager(peer)
        self._stack = ExitStack()
        self.began = perf_counter()

    def start(self) -> str:
        return self._stack.enter_context(self._peer())

    def stop(self) -> None:
        self._stack.close()


def seconds_to_first_answer(peer: Peer) -> float:
    clock = Clock(peer)
    first_answer(clock.start)
    took = perf_counter() - clock.began
    clock.stop()
    return took


def seconds_to_first_record_confluent(peer: Peer) -> float:
    clock = Clock(peer)
    consumer = first_record_confluent(clock.start)
    took = perf_counter() - clock.began
    consumer.close()
    clock.stop()
    return took


def seconds_to_first_record_aiokafka(peer: Peer) -> float:
    clock = Clock(peer)
    took = first_record_aiokafka(clock.start) - clock.began
    clock.stop()
    return took


def seconds_of_a_test(peer: Peer) -> float:
    clock = Clock(peer)
    first_record_confluent(clock.start).close()
    clock.stop()
    return perf_counter() - clock.began


def seconds_to_replace_a_member() -> float:
    """From kill -9 of a member until the other one has its partitions; `advance` lets its 45 s pass."""
    with Broker() as kafka:
        kafka.create_topic("orders", partitions=2)
        group = kafka.group("billing")
        with (
            subprocess.Popen([sys.executable, "-c", VICTIM, kafka.bootstrap_servers]) as victim,
            working(ConfluentWorker(kafka, "other")),
        ):
            group.wait_until("Stable", members=2, timeout=60)
            began = perf_counter()
            victim.send_signal(signal.SIGKILL)
            victim.wait()  # then its connection is closed
            kafka.clock.advance(seconds=46)
            group.wait_until("Stable", members=1, timeout=60)
            took = perf_counter() - began
            assert len(group.owners) == 2
    return took


# --- the report


def report(name: str, seconds: list[float]) -> None:
    best, median, most = min(seconds), statistics.median(seconds), max(seconds)
    print(f"| {name} | {len(seconds)} | {_ms(best)} | {_ms(median)} | {_ms(most)} | {sum(seconds):.1f} s |", flush=True)


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:,.1f}"


MEASURES: dict[str, Callable[[Peer], float]] = {
    "first answer": seconds_to_first_answer,
    "first record, confluent-kafka": seconds_to_first_record_confluent,
    "first record, aiokafka": seconds_to_first_record_aiokafka,
    "a test with confluent-kafka": seconds_of_a_test,
}


def main() -> None:
    parser = argparse.ArgumentParser(description="What a test with a broker of its own waits for.")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--tests", type=int, default=100)
    parser.add_argument("--kafka-rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=PEERS, default=list(PEERS))
    options = parser.parse_args()
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # Kafka makes its topic of offsets first
    needs = {"kfake": "go", "kafka": "java"}
    peers = [each for each in options.only if each not in needs or shutil.which(needs[each])]
    print(f"load {os.getloadavg()[0]:.1f} at the start\n")
    print("| ms | rounds | best | median | most | all together |")
    print("|---|---|---|---|---|---|")
    for name, measure in MEASURES.items():
        seconds: dict[str, list[float]] = {peer: [] for peer in peers}
        rounds = options.tests if name.startswith("a test") else options.rounds
        for peer in peers:
            if peer != "kafka":
                measure(PEERS[peer])  # not counted: it imports and compiles
        for number in range(rounds):  # in turns
            for peer in peers:
                if peer != "kafka" or number < options.kafka_rounds:
                    seconds[peer].append(measure(PEERS[peer]))
        for peer in peers:
            report(f"{name}: {peer}", seconds[peer])
    report("a member with a session of 45 s is replaced", [seconds_to_replace_a_member() for _ in range(10)])
    print(f"\nload {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
