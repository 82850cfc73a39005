"""`--topic TOPIC[:0,1,2]`: which partitions a command means, and that they are there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kohort.broker import group_client
from kohort.broker.client import Client, ClientError
from kohort.broker.group_client import TopicPartition


def named_partitions(client: Client, topics: Iterable[str]) -> list[TopicPartition]:
    """Those of the options, each once, however often it is named."""
    places: list[TopicPartition] = []
    for text in topics:
        topic, colon, indexes = text.partition(":")
        count = group_client.partition_counts(client, [topic]).get(topic)
        if count is None:
            raise ClientError(f"there is no topic {topic}")
        try:
            chosen = [int(index) for index in indexes.split(",")] if colon else range(count)
        except ValueError:
            raise ClientError(f"--topic {text}: partitions are numbers with commas, as in {topic}:0,1") from None
        places += [(topic, index) for index in chosen]
    return list(dict.fromkeys(places))


def must_exist(client: Client, places: Iterable[TopicPartition]) -> None:
    counts = group_client.partition_counts(client, {topic for topic, _ in places})
    for topic, partition in places:
        if topic not in counts:
            raise ClientError(f"there is no topic {topic}")
        if not 0 <= partition < counts[topic]:
            raise ClientError(f"topic {topic} has no partition {partition}, only 0 to {counts[topic] - 1}")


def must_be_known(places: Iterable[TopicPartition], offsets: Mapping[TopicPartition, int]) -> None:
    """A partition that is there and says nothing must not be taken for one that is empty."""
    for topic, partition in places:
        if (topic, partition) not in offsets:
            raise ClientError(f"{topic}-{partition} is offline: its offsets cannot be read")
