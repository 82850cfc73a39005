"""kill -9 in the midst of producing, fifty times: nothing that was acknowledged is lost, and no offset is missing.

Each round starts a real broker on the same data folder, lets four producers write with acks=-1 and several requests in
flight, and kills the process after a number of answers that differs by round. At the end all records are read back:
every acknowledged one is there under the offset it was told, and offsets have no gap.
"""

from __future__ import annotations

from pathlib import Path

from kohort.client.client import Client
from kohort.client.errors import ClientError
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kohort.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kohort.protocol.record_batch import build_batch, scan_records
from tests.clients.kohort import KohortProcess

ROUNDS = 50
PRODUCERS = 4
IN_FLIGHT = 3
VERSION = 9
TIMESTAMP = 1_700_000_000_000


class Producer:
    """Writes numbered records into its partition, and remembers which were acknowledged."""

    def __init__(self, address: str, partition: int, first: int, acknowledged: dict[int, bytes]) -> None:
        self._client = Client(address)
        self._partition = partition
        self._next = first
        self._waiting: list[tuple[int, list[bytes]]] = []
        self._acknowledged = acknowledged

    def post(self) -> None:
        values = [b"%d:%d" % (self._partition, self._next + i) for i in range(3)]
        self._next += len(values)
        batch = build_batch([(None, value) for value in values], timestamp=TIMESTAMP)
        topic = TopicProduceData("t", partition_data=[PartitionProduceData(self._partition, batch)])
        number = self._client.post(ApiKey.PRODUCE, ProduceRequest(None, -1, 5000, [topic]), VERSION)
        self._waiting.append((number, values))

    def receive(self) -> None:
        number, values = self._waiting.pop(0)
        answer = self._client.receive(ApiKey.PRODUCE, VERSION, number).responses[0].partition_responses[0]
        assert answer.error_code == 0, answer
        for offset, value in enumerate(values, answer.base_offset):
            assert offset not in self._acknowledged, f"offset {offset} was given twice"
            self._acknowledged[offset] = value

    def close(self) -> int:
        self._client.close()
        return self._next


def read_all(address: str, partition: int) -> list[tuple[int, bytes | None]]:
    records: list[tuple[int, bytes | None]] = []
    with Client(address) as client:
        while True:
            fetch = FetchPartition(partition, fetch_offset=len(records), partition_max_bytes=1 << 22)
            request = FetchRequest(session_epoch=-1, topics=[FetchTopic("t", partitions=[fetch])])
            answer = client.send(ApiKey.FETCH, request, 12).responses[0].partitions[0]
            assert answer.error_code == 0, answer
            if not answer.records:
                assert answer.high_watermark == len(records)
                return records
            records += [(offset, value) for _, offset, _, _, value, _ in scan_records(bytes(answer.records))]


def produce_until_killed(
    broker: KohortProcess, firsts: list[int], acknowledged: list[dict[int, bytes]], after: int
) -> None:
    producers = [Producer(broker.address, i, firsts[i], acknowledged[i]) for i in range(PRODUCERS)]
    for producer in producers:
        for _ in range(IN_FLIGHT):
            producer.post()
    for step in range(after):
        producers[step % PRODUCERS].receive()
        producers[step % PRODUCERS].post()
    broker.process.kill()
    for producer in producers:  # what was answered before the end may still be in the socket
        try:
            for _ in range(IN_FLIGHT):
                producer.receive()
        except ClientError:
            pass
    firsts[:] = [producer.close() for producer in producers]
    broker.process.wait()
    assert broker.process.stdout is not None
    broker.process.stdout.close()


def test_nothing_acknowledged_is_lost_when_the_broker_is_killed(tmp_path: Path) -> None:
    firsts = [0] * PRODUCERS
    acknowledged: list[dict[int, bytes]] = [{} for _ in range(PRODUCERS)]
    for round_number in range(ROUNDS):
        broker = KohortProcess(tmp_path, log_segment_bytes="1048576")
        if round_number == 0:
            topic = CreatableTopic("t", PRODUCERS, 1, configs=[CreatableTopicConfig("segment.bytes", "1048576")])
            with Client(broker.address) as client:
                client.send(ApiKey.CREATE_TOPICS, CreateTopicsRequest([topic], 5000))
        produce_until_killed(broker, firsts, acknowledged, after=1 + 7 * round_number % 113)

    with KohortProcess(tmp_path) as broker:
        for partition, known in enumerate(acknowledged):
            found = read_all(broker.address, partition)
            assert [offset for offset, _ in found] == list(range(len(found)))
            values = dict(found)
            lost = {offset: value for offset, value in known.items() if values.get(offset) != value}
            assert lost == {}
            assert len(set(values.values())) == len(values)  # and nothing was written twice
    assert sum(map(len, acknowledged)) > 10 * ROUNDS
