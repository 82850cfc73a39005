"""What a request costs a broker: CPU time of its process per Produce, Fetch and new connection.

    python -m benchmarks.broker [--address HOST:PORT --pid PID] [--peer HOST:PORT --peer-pid PID]

Without an address it starts a Kohort of its own in a temporary folder. With a peer (--kafka starts one) every figure
is taken of both, in turns, and their ratio printed: that is the figure to compare, since the machine and what else it
does are the same. CPU time comes from /proc, so both brokers must run on this machine, on Linux. A JVM
needs its warm-up: let the first run pass and read the second.
"""

from __future__ import annotations

import argparse
import os
import selectors
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from struct import Struct
from time import perf_counter, time
from typing import NamedTuple

from kohort.client.client import Client
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.codec import request_encoder, response_decoder
from kohort.protocol.headers import read_response_header, request_header
from kohort.protocol.messages.api_versions import ApiVersionsRequest
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.protocol.messages.delete_topics import DeleteTopicsRequest
from kohort.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest
from kohort.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kohort.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kohort.protocol.record_batch import build_batch

RECORDS = 100
RECORD_BYTES = 100
FETCH_BYTES = 1_048_576
FETCH_TOPIC_BYTES = 64 * FETCH_BYTES
CONNECTIONS = 4
CONNECTS_AT_A_TIME = 8
WARM_UP_S = 4.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")

_length = Struct(">i")


class Broker(NamedTuple):
    name: str
    address: str
    pid: int

    def cpu_s(self) -> float:
        """User and system time of the process so far, all threads."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


class Figure(NamedTuple):
    """One measurement of one broker."""

    requests: int
    seconds: float
    cpu_s: float
    answer_bytes: int

    @property
    def cpu_us(self) -> float:
        return self.cpu_s / self.requests * 1e6


# A title, how to measure it, and the goal: at most this part of the peer's CPU.
Scenario = tuple[str, Callable[["Broker", float], Figure], float | None]


def frame(api_key: ApiKey, version: int, request: object) -> bytes:
    body = request_encoder(api_key, version)(request)
    data = request_header(api_key, version, 1, "bench") + (b"".join(body) if isinstance(body, list) else body)
    return _length.pack(len(data)) + data


# --- load -----------------------------------------------------------------------------------------


class Loop:
    """Connections that each have one request in flight, over and over.

    They send the frames in turn, or, with `own_frames`, each connection sends the one frame that is its own.
    """

    def __init__(
        self,
        broker: Broker,
        frames: list[bytes],
        check: Callable[[bytes, int], None],
        connections: int,
        *,
        own_frames: bool = False,
    ) -> None:
        self._broker = broker
        self._frames = frames
        self._check = check
        self._connections = connections
        self._own_frames = own_frames
        self._selector = selectors.DefaultSelector()
        self._buffer = bytearray(4 << 20)
        self.requests = 0
        self.answer_bytes = 0

    def measure(self, warm_up_s: float, seconds: float) -> Figure:
        for number in range(self._connections):
            self._connect(self._frames[number if self._own_frames else 0])
        self._run(warm_up_s)
        requests, answer_bytes, cpu_s, started = self.requests, self.answer_bytes, self._broker.cpu_s(), perf_counter()
        self._run(seconds)
        figure = Figure(
            self.requests - requests,
            perf_counter() - started,
            self._broker.cpu_s() - cpu_s,
            self.answer_bytes - answer_bytes,
        )
        for key in list(self._selector.get_map().values()):
            assert isinstance(key.fileobj, socket.socket)
            key.fileobj.close()
        return figure

    def _connect(self, first: bytes) -> None:
        host, _, port = self._broker.address.rpartition(":")
        made = socket.create_connection((host, int(port)))
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._selector.register(made, selectors.EVENT_READ, Answers(made, first if self._own_frames else None))
        made.sendall(first)

    def _run(self, seconds: float) -> None:
        end = perf_counter() + seconds
        frames, count = self._frames, len(self._frames)
        while perf_counter() < end:
            for key, _ in self._selector.select(1.0):
                answers: Answers = key.data
                size = answers.receive(self._buffer)
                if size:
                    self.requests += 1
                    self.answer_bytes += size
                    if self.requests % 500 == 1:
                        self._check(bytes(answers.start), size)
                    answers.socket.sendall(answers.frame or frames[self.requests % count])


class Answers:
    """The answer that is arriving on a connection: its first bytes are kept, the others counted."""

    def __init__(self, connected: socket.socket, frame: bytes | None = None) -> None:
        self.socket = connected
        self.frame = frame  # what this connection sends, if that is always the same
        self.start = bytearray()
        self._missing = 0

    def receive(self, buffer: bytearray) -> int:
        """The size of the answer, once all of it is there; 0 before."""
        got = self.socket.recv_into(buffer)
        if not got:
            raise ConnectionError("the broker closed the connection")
        if not self._missing:
            (size,) = _length.unpack_from(buffer)
            self.start = buffer[4 : min(got, 400)]
            self._missing = size + 4
            self._size = size + 4
        self._missing -= got
        return 0 if self._missing else self._size


# --- what is measured -----------------------------------------------------------------------------


@contextmanager
def topic(broker: Broker, name: str) -> Iterator[str]:
    name = f"bench-{name}-{int(time() * 1000)}"
    with Client(broker.address) as client:
        client.send(ApiKey.CREATE_TOPICS, CreateTopicsRequest([CreatableTopic(name, 1, 1)], 10_000), 5)
        produced = 0
        while not produced:  # a new topic may take a moment to get its leader
            produced = not _produce(client, name, build_batch([(None, b"x")], timestamp=int(time() * 1000)))
        try:
            yield name
        finally:
            client.send(ApiKey.DELETE_TOPICS, DeleteTopicsRequest([], [name], 10_000), 5)


def _produce(client: Client, name: str, batch: bytes) -> int:
    data = TopicProduceData(name, partition_data=[PartitionProduceData(0, batch)])
    response = client.send(ApiKey.PRODUCE, ProduceRequest(None, -1, 10_000, [data]), 9)
    error: int = response.responses[0].partition_responses[0].error_code
    return error


def equal_records() -> list[bytes]:
    return [os.urandom(RECORD_BYTES) for _ in range(RECORDS)]


def varied_records() -> list[bytes]:
    """As many bytes, in records of 50 to 149."""
    return [os.urandom(RECORD_BYTES - 50 + (37 * i) % 100) for i in range(RECORDS)]


def measure_produce(values: Callable[[], list[bytes]], broker: Broker, seconds: float) -> Figure:
    def check(data: bytes, size: int) -> None:  # noqa: ARG001
        _, pos = read_response_header(data, ApiKey.PRODUCE, 9)
        answer = response_decoder(ApiKey.PRODUCE, 9)(data, pos).responses[0].partition_responses[0]
        assert answer.error_code == 0, answer

    with topic(broker, "produce") as name:
        batch = build_batch([(None, value) for value in values()], timestamp=int(time() * 1000))
        data = TopicProduceData(name, partition_data=[PartitionProduceData(0, batch)])
        sent = frame(ApiKey.PRODUCE, 9, ProduceRequest(None, -1, 10_000, [data]))
        return Loop(broker, [sent], check, CONNECTIONS).measure(seconds, seconds)


def measure_fetch(broker: Broker, seconds: float) -> Figure:
    def check(_: bytes, size: int) -> None:
        assert size > FETCH_BYTES // 2, f"an answer of {size} bytes"

    with topic(broker, "fetch") as name:
        with Client(broker.address) as client:
            batch = build_batch([(None, os.urandom(1000)) for _ in range(100)], timestamp=int(time() * 1000))
            for _ in range(FETCH_TOPIC_BYTES // len(batch)):
                assert _produce(client, name, batch) == 0
            asked = ListOffsetsRequest(-1, 0, [ListOffsetsTopic(name, [ListOffsetsPartition(0, -1, -1)])])
            end = client.send(ApiKey.LIST_OFFSETS, asked, 6).topics[0].partitions[0].offset
        frames = []
        for offset in range(0, end - 2 * FETCH_BYTES // 1000, FETCH_BYTES // 1000):
            wanted = FetchPartition(0, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
            request = FetchRequest(
                max_wait_ms=500, min_bytes=1, session_epoch=-1, topics=[FetchTopic(name, partitions=[wanted])]
            )
            frames.append(frame(ApiKey.FETCH, 12, request))
        return Loop(broker, frames, check, CONNECTIONS).measure(seconds, seconds)


def measure_connect(broker: Broker, seconds: float) -> Figure:
    """Connect, ApiVersions, FindCoordinator, close."""
    first = frame(ApiKey.API_VERSIONS, 3, ApiVersionsRequest("bench", "1"))
    second = frame(ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest("", 0, ["bench"]))
    host, _, port = broker.address.rpartition(":")
    buffer = bytearray(65_536)

    def run(until: float) -> int:
        done = 0
        while perf_counter() < until:
            made = [socket.create_connection((host, int(port))) for _ in range(CONNECTS_AT_A_TIME)]
            for request in (first, second):
                for each in made:
                    each.sendall(request)
                for each in made:
                    answers = Answers(each)
                    while not answers.receive(buffer):
                        pass
            for each in made:
                each.close()
            done += len(made)
        return done

    run(perf_counter() + seconds / 2)
    cpu_s, started = broker.cpu_s(), perf_counter()
    done = run(started + seconds)
    return Figure(done, perf_counter() - started, broker.cpu_s() - cpu_s, 0)


SCENARIOS = (
    (f"Produce, {RECORDS} records x {RECORD_BYTES} B", partial(measure_produce, equal_records), 1.0),
    (f"Produce, {RECORDS} records of 50 to 149 B", partial(measure_produce, varied_records), None),
    ("Fetch, 1 MB", measure_fetch, None),
    ("connect + ApiVersions + FindCoordinator", measure_connect, 0.5),
)


# --- the run --------------------------------------------------------------------------------------


@contextmanager
def own_broker(overrides: Iterable[str] = ()) -> Iterator[Broker]:
    with tempfile.TemporaryDirectory() as folder:
        command = [str(Path(sys.executable).with_name("kohort")), "serve", "--log-level", "error"]
        for setting in ("listeners=PLAINTEXT://127.0.0.1:0", f"log.dirs={folder}/data", *overrides):
            command += ["--override", setting]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split("listens on ")[1].split(",")[0]
            yield Broker("Kohort", address, process.pid)
        finally:
            process.terminate()
            process.wait()


@contextmanager
def warm_kafka(scenarios: Iterable[Scenario]) -> Iterator[list[Broker]]:
    """Apache Kafka from Maven, after each scenario was played to it once: a JVM's first seconds cost far more."""
    if not (shutil.which("java") and shutil.which("mvn")):
        print("no Java or Maven on the PATH: Kohort alone")
        yield []
        return
    from tests.kafka.server import KafkaServer

    with tempfile.TemporaryDirectory() as folder, KafkaServer(Path(folder)) as kafka:
        broker = Broker("Kafka", kafka.address, kafka.process.pid)
        for _, measure, _ in scenarios:
            measure(broker, WARM_UP_S)
        yield [broker]


def report(scenarios: Iterable[Scenario], brokers: list[Broker], seconds: float, turns: int) -> None:
    for title, measure, goal in scenarios:
        # In turns, and the best of each: whatever else the machine does only ever adds to a figure.
        rounds = [[measure(broker, seconds) for broker in brokers] for _ in range(turns)]
        figures = [min(column, key=lambda figure: figure.cpu_us) for column in zip(*rounds, strict=True)]
        print(title)
        for broker, figure in zip(brokers, figures, strict=True):
            speed = f"{figure.requests / figure.seconds:8.0f}/s"
            if figure.answer_bytes > figure.requests * 100_000:
                speed += f", {figure.answer_bytes / figure.seconds / 1e9:.2f} GB/s"
                speed += f", {figure.answer_bytes / figure.cpu_s / 1e9:.2f} GB per second of CPU"
            print(f"  {broker.name:8} {figure.cpu_us:8.1f} us of CPU per request, {speed}")
        if len(figures) == 2:
            told = f" (goal: at most {goal})" if goal is not None else ""
            print(f"  ratio    {figures[0].cpu_us / figures[1].cpu_us:8.2f}{told}")


def run_report(scenarios: Iterable[Scenario], overrides: Iterable[str] = ()) -> None:
    """The command line of a benchmark of brokers. `overrides`: settings of the Kohort that it starts."""
    parser = argparse.ArgumentParser(description="CPU per request of a broker, and of another one beside it.")
    parser.add_argument("--address", metavar="HOST:PORT", help="a running Kohort; otherwise one is started")
    parser.add_argument("--pid", type=int, help="its process")
    parser.add_argument("--peer", metavar="HOST:PORT", help="a broker to compare with")
    parser.add_argument("--peer-pid", type=int, help="its process")
    parser.add_argument(
        "--kafka", action="store_true", help="start Apache Kafka as the peer, if Java and Maven are here"
    )
    parser.add_argument(
        "--seconds", type=float, default=2.0, help="per figure and round, after a warm-up of the same length"
    )
    parser.add_argument("--rounds", type=int, default=3, help="how often each figure is taken; the best counts")
    options = parser.parse_args()
    if bool(options.address) != bool(options.pid) or bool(options.peer) != bool(options.peer_pid):
        parser.error("an address and a process go together")
    with ExitStack() as started:
        peers = [Broker("peer", options.peer, options.peer_pid)] if options.peer else []
        if options.kafka and not peers:
            peers = list(started.enter_context(warm_kafka(scenarios)))
        if options.address:
            broker = Broker("Kohort", options.address, options.pid)
        else:
            broker = started.enter_context(own_broker(overrides))
        report(scenarios, [broker, *peers], options.seconds, options.rounds)


if __name__ == "__main__":
    run_report(SCENARIOS)
