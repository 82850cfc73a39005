"""The partitions of an answer to Fetch by topic, in the order in which they were added."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.broker.topics.fetch_sessions import TopicKey, Wanted
from kohort.protocol.messages.fetch import FetchableTopicResponse, PartitionData

if TYPE_CHECKING:
    from kohort.broker.topics.unknown_partitions import UnknownPartitions

Answers = list[tuple[Wanted, PartitionData]]


class AnsweredTopics:
    __slots__ = ("_last", "_partitions", "topics")

    def __init__(self) -> None:
        self.topics: list[FetchableTopicResponse] = []
        self._last: TopicKey | None = None
        self._partitions: list[PartitionData] = []

    def add(self, told: Answers) -> None:
        last, partitions = self._last, self._partitions
        for wanted, answer in told:
            topic = wanted.topic
            if topic != last:
                last = topic
                name, topic_id = (topic, b"") if isinstance(topic, str) else ("", topic)
                partitions = []
                self.topics.append(FetchableTopicResponse(name, topic_id, partitions))
            partitions.append(answer)
        self._last, self._partitions = last, partitions

    def add_unknown(self, topic: TopicKey, partitions: UnknownPartitions) -> None:
        name, topic_id = (topic, b"") if isinstance(topic, str) else ("", topic)
        self.topics.append(FetchableTopicResponse(name, topic_id, partitions))
