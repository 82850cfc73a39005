"""Clients that connect and say nothing, that drip, that never read: the others do not notice."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from struct import pack

from kohort.client.client import Client
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.codec import request_encoder
from kohort.protocol.headers import request_header
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.protocol.messages.metadata import MetadataRequest
from kohort.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kohort.protocol.record_batch import build_batch
from tests.clients.kohort import KohortProcess

HALF_OPEN, DRIPPING, NEVER_READING = 2000, 2000, 200
ROUNDS = 20  # a round: everyone who drips sends one byte, and the healthy client works
GROWTH_LIMIT_BYTES = 100_000_000
LARGE_BYTES = 8_000_000


@contextmanager
def many_files() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


def connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)))


def fetch_and_never_read(address: str) -> socket.socket:
    """Asks for more than the kernel keeps for a connection, several times, and takes nothing of it."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    host, _, port = address.rpartition(":")
    made.connect((host, int(port)))
    partition = FetchPartition(0, fetch_offset=0, partition_max_bytes=LARGE_BYTES)
    topics = [FetchTopic("large", partitions=[partition])]
    fetch = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=LARGE_BYTES, topics=topics)
    body = request_header(ApiKey.FETCH, 4, 1, "greedy") + request_encoder(ApiKey.FETCH, 4)(fetch)
    made.sendall((pack(">i", len(body)) + body) * 5)
    return made


def produce(client: Client, topic: str, batch: bytes) -> int:
    data = TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch)])
    answer = client.send(ApiKey.PRODUCE, ProduceRequest(None, -1, 10_000, [data]), 9)
    return int(answer.responses[0].partition_responses[0].base_offset)


def work(client: Client, number: int) -> None:
    """What a healthy client does: everything is answered, in order."""
    assert produce(client, "t", build_batch([(None, b"x" * 100)] * 10, timestamp=1)) == number * 10
    assert client.send(ApiKey.METADATA, MetadataRequest(None)).topics


def test_a_healthy_client_goes_on_among_four_thousand_that_do_not_behave(tmp_path: Path) -> None:
    with many_files(), KohortProcess(tmp_path) as broker, Client(broker.address) as client, ExitStack() as sockets:
        topics = [CreatableTopic("t", 1, 1), CreatableTopic("large", 1, 1)]
        client.send(ApiKey.CREATE_TOPICS, CreateTopicsRequest(topics))
        for _ in range(LARGE_BYTES // 1_000_000):
            produce(client, "large", build_batch([(None, bytes(1_000_000))], timestamp=1))
        work(client, 0)
        before = resident_bytes(broker.process.pid)
        for _ in range(HALF_OPEN):
            sockets.enter_context(connect(broker.address))
        drippers = [sockets.enter_context(connect(broker.address)) for _ in range(DRIPPING)]
        for _ in range(NEVER_READING):
            sockets.enter_context(fetch_and_never_read(broker.address))
        slow_request = pack(">i", 1000) + bytes(1000)
        for number in range(1, ROUNDS):
            for dripper in drippers:
                dripper.send(slow_request[number - 1 : number])
            work(client, number)
        growth = resident_bytes(broker.process.pid) - before
        assert growth < GROWTH_LIMIT_BYTES, f"grew by {growth / 1e6:.0f} MB"
