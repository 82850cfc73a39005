"""A stage for incidents: a broker, topics, groups of consumers, and waiting until a group has settled."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from kohort.client.client import Client
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kohort.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kohort.protocol.wire import NO_UUID
from tests.why.consumers import ClassicConsumer, Consumer, NewConsumer, ShareConsumer

DEADLINE_S = 90.0  # for a busy machine; nothing is measured by it
PARTITIONS = 6


class Restartable(Protocol):
    address: str

    def restart(self) -> None: ...


class Stage:
    """One group. Its topic is named after it, and so are further topics."""

    def __init__(self, broker: Restartable, group: str) -> None:
        self.broker, self.group = broker, group
        self.members: list[Consumer] = []
        self.topic = self.new_topic("t")

    def name(self, suffix: str) -> str:
        return f"{self.group}.{suffix}"

    def ask(self, api: ApiKey, request: object, version: int) -> object:
        with Client(self.broker.address, timeout_s=60) as client:
            return client.send(api, request, version)

    def new_topic(self, suffix: str, partitions: int = PARTITIONS) -> str:
        topic = self.name(suffix)
        self.ask(ApiKey.CREATE_TOPICS, CreateTopicsRequest([CreatableTopic(topic, partitions, 1)], 30_000), 5)
        self.until(lambda: topic in self.ids(topic))
        return topic

    def grow(self, topic: str, count: int) -> None:
        request = CreatePartitionsRequest([CreatePartitionsTopic(topic, count, None)], 30_000, False)
        self.ask(ApiKey.CREATE_PARTITIONS, request, 3)

    def delete(self, topic: str) -> None:
        self.ask(ApiKey.DELETE_TOPICS, DeleteTopicsRequest([DeleteTopicState(topic)], [], 30_000), 6)

    def ids(self, *topics: str) -> dict[str, bytes]:
        asked = [MetadataRequestTopic(NO_UUID, topic) for topic in topics]
        with Client(self.broker.address, timeout_s=60) as client:
            answer = client.send(ApiKey.METADATA, MetadataRequest(asked, False), 12)
        return {topic.name: bytes(topic.topic_id) for topic in answer.topics if not topic.error_code}

    # --- members

    def join(
        self, name: str, *topics: str, instance: str | None = None, assignors: Sequence[str] = ("range",),
        session_ms: int = 3_000, poll_ms: int = 60_000,
    ) -> ClassicConsumer:  # fmt: skip
        consumer = ClassicConsumer(
            self.broker.address, self.group, name, topics or (self.topic,), instance=instance, assignors=assignors,
            session_ms=session_ms, poll_ms=poll_ms,
        )  # fmt: skip
        self.members.append(consumer)
        return consumer

    def join_new(
        self, name: str, *topics: str, instance: str | None = None, regex: str | None = None, poll_ms: int = 60_000,
        ids: dict[str, bytes] | None = None, keeps: bool = False,
    ) -> NewConsumer:  # fmt: skip
        wanted = topics or (() if regex else (self.topic,))
        consumer = NewConsumer(
            self.broker.address, self.group, name, wanted, ids if ids is not None else self.ids(*wanted),
            instance=instance, regex=regex, poll_ms=poll_ms, keeps=keeps,
        )  # fmt: skip
        self.members.append(consumer)
        return consumer

    def join_sharing(self, name: str, *topics: str) -> ShareConsumer:
        consumer = ShareConsumer(self.broker.address, self.group, name, topics or (self.topic,))
        self.members.append(consumer)
        return consumer

    def crash(self, consumer: Consumer) -> None:
        self.members.remove(consumer)
        consumer.crash()

    def close(self, consumer: Consumer) -> None:
        self.members.remove(consumer)
        consumer.close()

    # --- waiting

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            problems = [consumer.problem for consumer in self.members if consumer.problem is not None]
            assert not problems, (self.group, problems)
            assert time.monotonic() < deadline, (self.group, [(each.name, each.owned) for each in self.members])
            time.sleep(0.02)

    def settled(self, *topics: str, count: int | None = None, partitions: int = PARTITIONS) -> None:
        """All partitions have one owner each, and each member (or `count` members) has some."""
        wanted = sorted((topic, number) for topic in topics or (self.topic,) for number in range(partitions))

        def shared() -> bool:
            shares = [consumer.share for consumer in self.members]
            has = sum(map(bool, shares))
            everything = sorted(place for share in shares for place in share)
            return everything == wanted and has == (len(self.members) if count is None else count)

        self.until(shared)

    def live(self, seconds: float = 1.0) -> None:
        """Consumers go on for a while: their commits are what tells later how they ended."""
        time.sleep(seconds)

    def end(self) -> None:
        for consumer in list(self.members):
            consumer.crash()
