"""Large answers over real sockets: slices of log files, in order, to clients that read fast, slowly or not at all."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from kohort.broker.sending import MAX_BYTES_PER_TURN, FileSender
from kohort.client.client import Client
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kohort.protocol.record_batch import build_batch, scan_records
from kohort.storage.disk import RealDisk
from kohort.storage.open_files import LogSlice
from tests.clients.kohort import KohortProcess

PARTITIONS = 4
BATCHES = 30
VALUE_BYTES = 100_000
TIMESTAMP = 1_700_000_000_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KohortProcess]:
    """A broker with four partitions of 3 MB."""
    with KohortProcess(tmp_path_factory.mktemp("sending")) as process:
        with Client(process.address) as client:
            client.send(ApiKey.CREATE_TOPICS, CreateTopicsRequest([CreatableTopic("t", PARTITIONS, 1)], 5000))
            for partition in range(PARTITIONS):
                for number in range(BATCHES):
                    records = build_batch([(b"%d" % number, bytes([partition]) * VALUE_BYTES)], timestamp=TIMESTAMP)
                    topic = TopicProduceData("t", partition_data=[PartitionProduceData(partition, records)])
                    client.send(ApiKey.PRODUCE, ProduceRequest(None, -1, 5000, [topic]), 9)
        yield process


def everything(max_bytes: int = 1 << 28) -> FetchRequest:
    partitions = [FetchPartition(each, fetch_offset=0, partition_max_bytes=max_bytes) for each in range(PARTITIONS)]
    return FetchRequest(session_epoch=-1, max_bytes=max_bytes, topics=[FetchTopic("t", partitions=partitions)])


def check(response: object) -> None:
    for partition, answer in enumerate(response.responses[0].partitions):  # type: ignore[attr-defined]
        found = [(key, value) for _, _, _, key, value, _ in scan_records(bytes(answer.records))]
        assert found == [(b"%d" % number, bytes([partition]) * VALUE_BYTES) for number in range(BATCHES)]


def test_slices_of_many_partitions_arrive_whole_and_in_order(broker: KohortProcess) -> None:
    with Client(broker.address) as client:
        for _ in range(3):
            check(client.send(ApiKey.FETCH, everything(), 12))


def test_a_client_with_a_small_window_gets_everything_too(broker: KohortProcess) -> None:
    with Client(broker.address) as client:
        client._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        check(client.send(ApiKey.FETCH, everything(), 12))


def test_large_and_small_answers_of_pipelined_requests_keep_their_order(broker: KohortProcess) -> None:
    with Client(broker.address) as client:
        small = FetchRequest(
            session_epoch=-1, topics=[FetchTopic("t", partitions=[FetchPartition(0, fetch_offset=BATCHES)])]
        )
        sent = [
            (client.post(ApiKey.FETCH, each, 12), each) for each in (small, everything(), small, everything(), small)
        ]
        for number, request in sent:
            response = client.receive(ApiKey.FETCH, 12, number)
            if request is not small:
                check(response)


def test_a_client_that_never_reads_does_not_stop_the_others(broker: KohortProcess) -> None:
    stuck = [Client(broker.address) for _ in range(5)]
    for client in stuck:
        client.post(ApiKey.FETCH, everything(), 12)
    with Client(broker.address) as client:
        check(client.send(ApiKey.FETCH, everything(), 12))
    for each in stuck:
        each.close()
    with Client(broker.address) as client:
        check(client.send(ApiKey.FETCH, everything(), 12))


def test_a_client_that_leaves_in_the_midst_leaves_no_file_open(broker: KohortProcess) -> None:
    descriptors = Path(f"/proc/{broker.process.pid}/fd")
    if not descriptors.exists():
        pytest.skip("needs /proc")
    for _ in range(20):
        with Client(broker.address) as client:
            client.post(ApiKey.FETCH, everything(), 12)
    with Client(broker.address) as client:
        check(client.send(ApiKey.FETCH, everything(), 12))
        assert len(list(descriptors.iterdir())) < 60


def test_a_client_that_reads_as_fast_as_it_is_sent_leaves_turns_to_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    per_turn: list[int] = []

    def sendfile(out: int, file: int, position: int, count: int) -> int:
        per_turn[-1] += count
        return count

    monkeypatch.setattr(os, "sendfile", sendfile)
    path = tmp_path / "log"
    path.touch()
    file = RealDisk().open(str(path))
    writers: dict[int, Callable[[], object]] = {}
    done: list[object] = []
    one, other = socket.socketpair()
    loop = SimpleNamespace(add_writer=writers.__setitem__, remove_writer=writers.pop)
    transport = SimpleNamespace(get_extra_info=lambda _: one, get_write_buffer_size=lambda: 0)
    sender = FileSender(loop, transport, done.append)  # type: ignore[arg-type]
    total = 10 * MAX_BYTES_PER_TURN
    per_turn.append(0)
    assert not sender.send([b"head", LogSlice(file, 0, total), b"tail"])
    while not done:
        (go_on,) = writers.values()
        per_turn.append(0)
        go_on()
    assert sum(per_turn) == total
    assert max(per_turn) <= MAX_BYTES_PER_TURN
    assert (done, other.recv(100)) == ([None], b"headtail")
    sender.close()
    file.close()
    one.close()
    other.close()
