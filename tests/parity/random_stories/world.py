"""Both brokers, with their topics and connections."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from kohort.client.client import Client
from kohort.protocol.api_keys import APIS, ApiKey
from kohort.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.group_requests import group_settings_request
from tests.parity.chosen_ids import ChosenIds, KohortWithChosenIds
from tests.parity.coordinator_probe import CoordinatorProbe
from tests.parity.peer import (
    ANSWER_TIMEOUT_S,
    CLIENT_ID,
    CLOSED,
    ConnectionClosed,
    Exchange,
    Peer,
    connect,
    name_topic_ids,
    receive_frame,
    request_frame,
)
from tests.parity.scenarios.coordinators import warm_up

KAFKA, OURS = 0, 1


class World:
    """Both brokers, and the topics, which have the same ids on both."""

    def __init__(self, addresses: Sequence[str], ids: ChosenIds) -> None:
        self.peers = (Peer("Kafka", addresses[KAFKA]), Peer("Kohort", addresses[OURS]))
        self.clients = [Client(address, client_id=CLIENT_ID) for address in addresses]
        self.ids = ids
        self.partitions: dict[str, int] = {}
        self.topic_ids: dict[str, bytes] = {}
        self.names: dict[bytes, str] = {}

    @classmethod
    def start(
        cls,
        stack: ExitStack,
        folder: Path,
        settings: dict[str, str],
        first: Callable[..., Any],
        topics: Mapping[str, int],
    ) -> World:
        """`topics`: how many partitions each has. They stay for all stories."""
        kafka = stack.enter_context(first(folder / "kafka", settings))
        kohort = KohortWithChosenIds(folder / "kohort", settings)
        stack.enter_context(kohort)
        for name, broker in (("Kafka", kafka), ("Kohort", kohort)):
            warm_up(Peer(name, broker.address))
        world = cls((kafka.address, kohort.address), kohort.ids)
        for client in world.clients:
            stack.callback(client.close)
        for name, partitions in topics.items():
            world.create(name, partitions)
        return world

    def create(self, name: str, partitions: int) -> None:
        request = CreateTopicsRequest([CreatableTopic(name, partitions, 1)], 10_000)
        for client in self.clients:
            answer = client.send(ApiKey.CREATE_TOPICS, request, 7).topics[0]
            assert answer.error_code == 0, (client.address, answer)
            self.topic_ids[name] = bytes(answer.topic_id)
            self.ids.choose(topic=answer.topic_id.hex())
        self.names[self.topic_ids[name]] = name
        self.partitions[name] = partitions

    def grow(self, name: str, partitions: int) -> None:
        request = CreatePartitionsRequest([CreatePartitionsTopic(name, partitions, None)], 10_000)
        for client in self.clients:
            answer = client.send(ApiKey.CREATE_PARTITIONS, request, 3).results[0]
            assert answer.error_code == 0, (client.address, answer)
        self.partitions[name] = partitions

    def delete(self, name: str) -> None:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=10_000)
        for client in self.clients:
            assert client.send(ApiKey.DELETE_TOPICS, request, 6).responses[0].error_code == 0
        del self.partitions[name]

    def set_group(self, group: str, settings: Mapping[str, str]) -> None:
        for client in self.clients:
            request = group_settings_request(group, settings)
            answer = client.send(ApiKey.INCREMENTAL_ALTER_CONFIGS, request, 1).responses[0]
            assert answer.error_code == 0, (client.address, answer)

    def until_known(self, group: str, topic: str) -> None:
        """Waits until the part of each coordinator that has the group knows the topic as it is now."""
        probe, wanted = CoordinatorProbe(group), self.partitions.get(topic, 0)
        for client in self.clients:
            deadline = time.monotonic() + ANSWER_TIMEOUT_S
            while probe.count_partitions(client.send, topic) != wanted:
                assert time.monotonic() < deadline, f"{client.address}: waited in vain for {topic}"


class Line:
    """A connection to each broker. One request at a time: the next one only when both have answered."""

    def __init__(self, world: World) -> None:
        self._sockets = [connect(peer.address) for peer in world.peers]
        self._world = world
        self.asked: tuple[ApiKey, int, bytes] | None = None
        self.answers: list[Exchange | None] = [None, None]

    def send(self, side: int, api_key: ApiKey, version: int, request: Any) -> None:
        frame = request_frame(api_key, request, version)
        self.asked = (api_key, version, frame)
        self._sockets[side].sendall(frame)

    def has_answer(self, side: int, timeout_s: float = 0) -> bool:
        return bool(select.select([self._sockets[side]], [], [], timeout_s)[0])

    def take(self, side: int) -> Exchange:
        assert self.asked is not None
        api_key, version, frame = self.asked
        exchange = self.answers[side] = Exchange(APIS[api_key].name, version, None, frame)
        try:
            answer = receive_frame(self._sockets[side])
        except (ConnectionClosed, ConnectionError):
            exchange.answer = CLOSED
        else:
            self._world.peers[side].read_answer(exchange, answer, api_key, version)
            name_topic_ids(exchange.answer, self._world.names)
        return exchange

    def take_what_is_there(self) -> None:
        for side in (KAFKA, OURS):
            if self.answers[side] is None and self.has_answer(side):
                self.take(side)

    def done(self) -> tuple[Exchange, Exchange]:
        """Both answers; another request may follow."""
        theirs, ours = self.answers
        assert self.asked is not None
        assert theirs is not None
        assert ours is not None
        self.asked, self.answers = None, [None, None]
        return theirs, ours

    def close(self) -> None:
        for each in self._sockets:
            each.close()
