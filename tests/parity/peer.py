"""One broker as a scenario sees it: asks, and keeps a transcript of what was answered."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from struct import Struct
from typing import Any

from kohort.client.settings import parse_address
from kohort.protocol.api_keys import APIS, ApiKey
from kohort.protocol.codec import request_encoder, response_decoder, response_encoder
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.frames import framed
from kohort.protocol.headers import read_response_header, request_header
from kohort.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kohort.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kohort.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kohort.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kohort.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kohort.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kohort.protocol.wire import Message

ANSWER_TIMEOUT_S = 30
SETTLE_TIMEOUT_S = 30
SETTLE_POLL_S = 0.02

CLIENT_ID = "parity"
CLOSED = "the connection was closed"

_length = Struct(">i").unpack


class ConnectionClosed(Exception):
    pass


class TopicWords(str):
    """Stands for a topic id in an answer. Random ids may differ, these words may not."""

    __slots__ = ()


@dataclass
class Exchange:
    """One request of a scenario and what came back: a message, or a sentence."""

    api: str
    version: int
    answer: Any
    request: bytes
    scenario_version: int = 0
    codec_loss: str | None = None  # the answer's bytes hold something that its fields do not show


@dataclass
class Peer:
    name: str
    address: str
    scenario: str = ""
    version: int = 0
    exchanges: list[Exchange] = field(default_factory=list)
    crash: Callable[[], None] | None = None  # kills the broker and starts it again
    _socket: socket.socket | None = None
    _correlation_id: int = 0
    _topics: list[str] = field(default_factory=list)
    _names: dict[bytes, str] = field(default_factory=dict)  # topic ids that the scenario knows

    # --- the life of a scenario

    def begin(self, scenario: str, version: int) -> None:
        self.scenario, self.version, self.exchanges, self._correlation_id = scenario, version, [], 0
        self.hang_up()

    def end(self) -> None:
        """Leave no topics behind: scenarios must not see each other's."""
        if self._topics:
            states = [DeleteTopicState(name=name) for name in self._topics]
            self.quietly(ApiKey.DELETE_TOPICS, DeleteTopicsRequest(topics=states, timeout_ms=10_000), 6)
            self.wait_until(lambda: not self._visible(self._topics), "topics to go away")
            self._topics = []

    def hang_up(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    # --- asking

    def ask(self, api_key: ApiKey, request: Any, version: int | None = None) -> Any:
        """Sends, waits, notes down. The answer for scenarios that go on from it; None if there was none."""
        version = self.version if version is None else version
        body = request_encoder(api_key, version)(request)
        return self.ask_body(api_key, body if isinstance(body, bytes) else b"".join(body), version)

    def ask_body(self, api_key: ApiKey, body: bytes, version: int | None = None) -> Any:
        """Like `ask`, with a body that no encoder would write."""
        version = self.version if version is None else version
        self._correlation_id += 1
        header = request_header(api_key, version, self._correlation_id, CLIENT_ID)
        return self.ask_frame(framed(header, body), api_key, version)

    def ask_frame(self, frame: bytes, api_key: ApiKey, version: int, answer_version: int | None = None) -> Any:
        """Like `ask`, with all the bytes given; the answer is read in `answer_version` if that is another."""
        exchange = Exchange(APIS[api_key].name, version, None, frame, self.version)
        self.exchanges.append(exchange)
        try:
            answer = self._exchange(frame)
        except ConnectionClosed:
            exchange.answer = CLOSED
            return None
        self.read_answer(exchange, answer, api_key, version if answer_version is None else answer_version)
        return exchange.answer

    def send_only(self, api_key: ApiKey, request: Any, version: int | None = None) -> None:
        """A request that has no answer, such as Produce with acks=0."""
        version = self.version if version is None else version
        self._connected().sendall(self._frame(api_key, request, version))

    def quietly(self, api_key: ApiKey, request: Any, version: int) -> Any:
        """Asks on a connection of its own and notes nothing down: preparation, not the thing compared."""
        with connect(self.address) as connection:
            connection.sendall(self._frame(api_key, request, version))
            frame = receive_frame(connection)
        _, pos = read_response_header(frame, api_key, version)
        return response_decoder(api_key, version)(frame, pos)

    def note(self, what: str, value: Any) -> None:
        """Something else to compare than an answer."""
        self.exchanges.append(Exchange(what, self.version, value, b"", self.version))

    def _frame(self, api_key: ApiKey, request: Any, version: int) -> bytes:
        self._correlation_id += 1
        return request_frame(api_key, request, version, self._correlation_id)

    def _connected(self) -> socket.socket:
        if self._socket is None:
            self._socket = connect(self.address)
        return self._socket

    def _exchange(self, frame: bytes) -> bytes:
        connection = self._connected()
        try:
            connection.sendall(frame)
            return receive_frame(connection)
        except (ConnectionClosed, OSError) as problem:
            self.hang_up()
            if isinstance(problem, TimeoutError):
                raise AssertionError(f"{self.name} does not answer {self.scenario!r}") from None
            raise ConnectionClosed from None

    def read_answer(self, exchange: Exchange, frame: bytes, api_key: ApiKey, version: int) -> None:
        _, pos = read_response_header(frame, api_key, version)
        exchange.answer = response_decoder(api_key, version)(frame, pos)
        again = response_encoder(api_key, version)(exchange.answer)
        again = again if isinstance(again, bytes) else b"".join(bytes(part) for part in again)
        if again != frame[pos:]:
            exchange.codec_loss = f"{frame[pos:].hex()} reads as {again.hex()}"
        name_topic_ids(exchange.answer, self._names)

    # --- what scenarios need to have ready

    def topic(self, suffix: str = "") -> str:
        """A topic name of this scenario and version, the same on both brokers; deleted at the end if it exists."""
        words = "".join(c if c.isalnum() else "-" for c in self.scenario.lower())
        name = f"{words[:80]}-v{self.version}{suffix}"
        if name not in self._topics:
            self._topics.append(name)
        return name

    def adopt(self, name: str) -> None:
        """A topic of another name that is to be deleted at the end."""
        self._topics.append(name)

    def gone(self, name: str) -> None:
        """Waits until the topic is not there any more."""
        self.wait_until(lambda: not self._visible([name]), f"{name} to go away")

    def create(self, suffix: str = "", partitions: int = 1, **configs: str) -> str:
        """A topic that is there and led; configs with Kafka's names, dots as underscores."""
        name = self.topic(suffix)
        pairs = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
        topic = CreatableTopic(name, partitions, 1, configs=pairs)
        answer = self.quietly(ApiKey.CREATE_TOPICS, CreateTopicsRequest([topic], 10_000), 7)
        assert answer.topics[0].error_code == 0, f"{self.name}: {answer.topics[0]}"
        self.settle(name, partitions)
        return name

    def settle(self, name: str, partitions: int = 1) -> None:
        """Waits until every partition has a leader that serves it: in Kafka that is later than the answer."""
        asked = [ListOffsetsPartition(index, -1, -1) for index in range(partitions)]
        request = ListOffsetsRequest(-1, 0, [ListOffsetsTopic(name, asked)])

        def ready() -> bool:
            answer = self.quietly(ApiKey.LIST_OFFSETS, request, 7)
            return all(each.error_code == 0 for each in answer.topics[0].partitions)

        self.wait_until(ready, f"{name} to be led")

    def topic_id(self, name: str, known_as: str | None = None) -> bytes:
        """The topic's id, which answers show as `known_as` from now on."""
        request = MetadataRequest([MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        answer = self.quietly(ApiKey.METADATA, request, 12)
        topic_id = bytes(answer.topics[0].topic_id)
        self._names[topic_id] = known_as or self._names.get(topic_id) or f"the id of {name}"
        return topic_id

    def words_for(self, topic_id: bytes) -> str:
        """How answers show the id of a topic that the scenario has asked for."""
        return self._names[topic_id]

    def append(self, topic: str, *batches: bytes, partition: int = 0) -> None:
        """Produces each batch with acks=-1."""
        for batch in batches:
            data = [TopicProduceData(topic, partition_data=[PartitionProduceData(partition, batch)])]
            answer = self.quietly(ApiKey.PRODUCE, ProduceRequest(None, -1, 10_000, data), 9)
            assert answer.responses[0].partition_responses[0].error_code == 0, f"{self.name}: {answer}"

    def delete(self, topic: str) -> None:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=10_000)
        self.quietly(ApiKey.DELETE_TOPICS, request, 6)
        self.gone(topic)

    def delete_records(self, topic: str, before_offset: int) -> None:
        asked = DeleteRecordsTopic(topic, [DeleteRecordsPartition(0, before_offset)])
        answer = self.quietly(ApiKey.DELETE_RECORDS, DeleteRecordsRequest([asked], 10_000), 2)
        assert answer.topics[0].partitions[0].error_code == 0, f"{self.name}: {answer}"

    def look_at_log(self, topic: str, partition: int = 0, offset: int = 0) -> None:
        """What the partition holds, as Fetch shows it."""
        asked = FetchTopic(
            topic, partitions=[FetchPartition(partition, fetch_offset=offset, partition_max_bytes=1 << 20)]
        )
        self.ask(ApiKey.FETCH, FetchRequest(max_wait_ms=1, min_bytes=1, topics=[asked]), 12)

    def wait_for_configs(self) -> None:
        """Kafka's broker learns of a change after the controller's answer: once it knows a later topic."""
        self.create(f"-after-{len(self._topics)}")

    def _visible(self, names: list[str]) -> bool:
        asked = [MetadataRequestTopic(name=name) for name in names]
        answer = self.quietly(ApiKey.METADATA, MetadataRequest(asked, allow_auto_topic_creation=False), 12)
        return any(each.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for each in answer.topics)

    def wait_for_end(self, topic: str, offset: int, partition: int = 0) -> None:
        """Until the partition's end is `offset`, for requests without an answer."""
        request = ListOffsetsRequest(-1, 0, [ListOffsetsTopic(topic, [ListOffsetsPartition(partition, -1, -1)])])

        def reached() -> bool:
            answer = self.quietly(ApiKey.LIST_OFFSETS, request, 7)
            return bool(answer.topics[0].partitions[0].offset >= offset)

        self.wait_until(reached, f"{topic} to reach offset {offset}")

    def wait_until(self, condition: Any, what: str) -> None:
        deadline = time.monotonic() + SETTLE_TIMEOUT_S
        while not condition():
            assert time.monotonic() < deadline, f"{self.name}: waited in vain for {what}"
            time.sleep(SETTLE_POLL_S)


def name_topic_ids(message: Any, names: dict[bytes, str]) -> None:
    """Puts words for the ids that both brokers chose for the same topic, so that they can be compared."""
    for slot in message.__slots__:
        value = getattr(message, slot)
        if slot == "topic_id" and value in names:
            setattr(message, slot, TopicWords(names[value]))
        elif isinstance(value, Message):
            name_topic_ids(value, names)
        elif isinstance(value, list):
            for each in value:
                if isinstance(each, Message):
                    name_topic_ids(each, names)


def request_frame(
    api_key: ApiKey, request: Any, version: int, correlation_id: int = 1, client_id: str = CLIENT_ID
) -> bytes:
    """All bytes of a request."""
    body = request_encoder(api_key, version)(request)
    parts = [body] if isinstance(body, bytes) else body
    return bytes(framed(request_header(api_key, version, correlation_id, client_id), *parts))


def connect(address: str) -> socket.socket:
    connection = socket.create_connection(parse_address(address), ANSWER_TIMEOUT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def receive_frame(connection: socket.socket) -> bytes:
    (length,) = _length(_receive_exactly(connection, 4))
    return _receive_exactly(connection, length)


def _receive_exactly(connection: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            raise ConnectionClosed
        data += piece
    return bytes(data)
