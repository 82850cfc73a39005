"""What transactions cost: CPU of a transaction, and of reading what is committed.

    python -m benchmarks.transactions [--kafka | --peer HOST:PORT --peer-pid PID] [--seconds 2] [--rounds 3]

A transaction has ten records for two partitions and the offset of one input partition. Producers do as clients of
transaction version 2: Produce v12 and TxnOffsetCommit v5, which add to the transaction what they write to, and EndTxn
v5. Each of them has one request in flight. As with Kafka, answers do not wait for the disk.

Reading: fetches of 1 MB from a partition in which every tenth transaction was aborted, with isolation level
read_uncommitted and read_committed in turns. The second should bring at least 0.9 of the bytes of the first.
"""

from __future__ import annotations

import os
import selectors
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from time import perf_counter, time
from typing import Any

from benchmarks.broker import CONNECTIONS, FETCH_BYTES, Broker, Figure, Loop, frame, run_report
from benchmarks.consumer_groups import topics
from benchmarks.groups import OVERRIDES, connect, wait_for_coordinator
from kohort.client.client import Client
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.codec import response_decoder
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.headers import read_response_header
from kohort.protocol.messages.end_txn import EndTxnRequest
from kohort.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest
from kohort.protocol.messages.init_producer_id import InitProducerIdRequest
from kohort.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kohort.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kohort.protocol.record_batch import build_batch
from kohort.protocol.wire import Message

PRODUCERS = 4
PARTITIONS = 2
RECORDS = 5  # for each partition
RECORD_BYTES = 100
TIMEOUT_MS = 60_000
TRANSACTION = 1  # kind of coordinator
PRODUCE, COMMIT_OFFSETS, END, INIT, FETCH = 12, 5, 5, 4, 12  # versions
COMMITTED_TOPIC_BYTES = 32 * FETCH_BYTES
BATCHES_OF_TRANSACTION = 10
TAKES_RECORDS_LATER = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,  # Kafka, just after the topic was created
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}
COMES_AGAIN = (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)

Asked = Generator[tuple[ApiKey, int, Message], Any, None]  # is sent the answers


class Producer:
    """A transactional producer with one request in flight. Its epoch rises with each transaction."""

    def __init__(self, transactional_id: str, topic: str) -> None:
        self.transactional_id, self.topic = transactional_id, topic
        self.producer_id = self.epoch = -1
        self.retries = 0

    def init(self) -> Asked:
        while True:
            answer = yield (
                ApiKey.INIT_PRODUCER_ID, INIT, InitProducerIdRequest(self.transactional_id, TIMEOUT_MS),
            )  # fmt: skip
            if answer.error_code not in COMES_AGAIN:
                break
        assert answer.error_code == 0, answer
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    def produce(self, records: int, record_bytes: int, partitions: int, sequence: int = 0) -> Asked:
        batch = build_batch(
            [(None, os.urandom(record_bytes)) for _ in range(records)], timestamp=int(time() * 1000),
            producer_id=self.producer_id, producer_epoch=self.epoch, base_sequence=sequence, transactional=True,
        )  # fmt: skip
        data = [PartitionProduceData(partition, batch) for partition in range(partitions)]
        request = ProduceRequest(self.transactional_id, -1, 10_000, [TopicProduceData(self.topic, partition_data=data)])
        while True:
            answer = yield ApiKey.PRODUCE, PRODUCE, request
            errors = {each.error_code for each in answer.responses[0].partition_responses} - {0}
            if not errors:
                return
            assert errors <= TAKES_RECORDS_LATER, answer  # what was taken is recognised when it comes again
            self.retries += 1

    def commit_offset(self, offset: int) -> Asked:
        row = TxnOffsetCommitRequestTopic(self.topic, [TxnOffsetCommitRequestPartition(0, offset)])
        request = TxnOffsetCommitRequest(
            self.transactional_id, f"{self.transactional_id}-group", self.producer_id, self.epoch, topics=[row]
        )
        while True:
            answer = yield ApiKey.TXN_OFFSET_COMMIT, COMMIT_OFFSETS, request
            error = answer.topics[0].partitions[0].error_code
            if error not in COMES_AGAIN:
                break
        assert error == 0, answer

    def end(self, *, commit: bool = True) -> Asked:
        request = EndTxnRequest(self.transactional_id, self.producer_id, self.epoch, commit)
        answer = yield ApiKey.END_TXN, END, request
        assert answer.error_code == 0, answer
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    def transaction(self, offset: int) -> Asked:
        yield from self.produce(RECORDS, RECORD_BYTES, PARTITIONS)
        yield from self.commit_offset(offset)
        yield from self.end()


class Conversation:
    """The requests of one producer over one connection: the answer to each decides about the next."""

    def __init__(self, broker: Broker, producer: Producer) -> None:
        self.connected = connect(broker)
        self._producer = producer
        self.transactions = self.answer_bytes = 0
        self._asked: Asked = producer.init()
        self._data = bytearray()
        self._send(next(self._asked))

    def _send(self, asked: tuple[ApiKey, int, Message]) -> None:
        self._route = asked[:2]
        self.connected.sendall(frame(*asked))

    def receive(self) -> None:
        self._data += self.connected.recv(1 << 16)
        if len(self._data) < 4 or len(self._data) < 4 + int.from_bytes(self._data[:4], "big"):
            return
        answer = _decoded(bytes(self._data[4:]), *self._route)
        self.answer_bytes += len(self._data)
        self._data = bytearray()
        try:
            self._send(self._asked.send(answer))
        except StopIteration:
            self.transactions += 1
            self._asked = self._producer.transaction(self.transactions)
            self._send(next(self._asked))


def _decoded(data: bytes, api_key: ApiKey, version: int) -> Any:
    _, pos = read_response_header(data, api_key, version)
    return response_decoder(api_key, version)(data, pos)


def measure_transactions(broker: Broker, seconds: float) -> Figure:
    with ExitStack() as opened:
        (topic,) = opened.enter_context(topics(broker, 1, PARTITIONS))
        producers = [Producer(f"{topic}-{number}", topic) for number in range(PRODUCERS)]
        for producer in producers:
            find_coordinators(broker, producer)
        selector = selectors.DefaultSelector()
        talks = [Conversation(broker, producer) for producer in producers]
        for talk in talks:
            opened.enter_context(talk.connected)
            selector.register(talk.connected, selectors.EVENT_READ, talk)
        _run(selector, seconds)
        before, cpu_s, started = _counts(talks), broker.cpu_s(), perf_counter()
        _run(selector, seconds)
        cpu_s, took_s, after = broker.cpu_s() - cpu_s, perf_counter() - started, _counts(talks)
        return Figure(after[0] - before[0], took_s, cpu_s, after[1] - before[1])


def _run(selector: selectors.BaseSelector, seconds: float) -> None:
    end = perf_counter() + seconds
    while perf_counter() < end:
        for key, _ in selector.select(1.0):
            key.data.receive()


def _counts(talks: list[Conversation]) -> tuple[int, int]:
    return sum(talk.transactions for talk in talks), sum(talk.answer_bytes for talk in talks)


def find_coordinators(broker: Broker, producer: Producer) -> None:
    with Client(broker.address) as client:
        asked = FindCoordinatorRequest(producer.transactional_id, TRANSACTION)
        while client.send(ApiKey.FIND_COORDINATOR, asked, 2).error_code:
            pass
    wait_for_coordinator(broker, f"{producer.transactional_id}-group")


# --- reading ------------------------------------------------------------------------------------------


@contextmanager
def committed_topic(broker: Broker) -> Iterator[tuple[str, int]]:
    """A topic with transactions of 1 MB, every tenth of them aborted, and its number of transactions."""
    with ExitStack() as opened:
        (topic,) = opened.enter_context(topics(broker, 1, 1))
        producer = Producer(f"{topic}-0", topic)
        find_coordinators(broker, producer)
        client = opened.enter_context(Client(broker.address))
        _talk(client, producer.init())
        count = COMMITTED_TOPIC_BYTES // FETCH_BYTES
        for number in range(count):
            for batch in range(BATCHES_OF_TRANSACTION):
                _talk(client, producer.produce(100, 1000, 1, batch * 100))
            _talk(client, producer.end(commit=number % 10 != 9))
        yield topic, count


def _talk(client: Client, asked: Asked) -> None:
    try:
        request = next(asked)
        while True:
            api_key, version, message = request
            request = asked.send(client.send(api_key, message, version))
    except StopIteration:
        return


def measure_reading(isolation_level: int, broker: Broker, seconds: float) -> Figure:
    def check(_: bytes, size: int) -> None:
        assert size > FETCH_BYTES // 2, f"an answer of {size} bytes"

    with committed_topic(broker) as (topic, count):
        frames = []
        records = BATCHES_OF_TRANSACTION * 100 + 1  # of a transaction, with its marker
        for number in range(count - 2):
            wanted = FetchPartition(0, fetch_offset=number * records, partition_max_bytes=FETCH_BYTES)
            request = FetchRequest(
                max_wait_ms=500, min_bytes=1, isolation_level=isolation_level, session_epoch=-1,
                topics=[FetchTopic(topic, partitions=[wanted])],
            )  # fmt: skip
            frames.append(frame(ApiKey.FETCH, FETCH, request))
        return Loop(broker, frames, check, CONNECTIONS).measure(seconds, seconds)


SCENARIOS = (
    (
        f"a transaction: {RECORDS * PARTITIONS} records to {PARTITIONS} partitions, one offset",
        measure_transactions,
        1.0,
    ),
    ("Fetch of 1 MB, read_uncommitted", partial(measure_reading, 0), None),
    ("Fetch of 1 MB, read_committed", partial(measure_reading, 1), None),
)


if __name__ == "__main__":
    run_report(SCENARIOS, OVERRIDES)
