"""`--topic TOPIC[:0,1,2]`: which partitions a command is about, and whether the broker has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kohort.client import ask
from kohort.client.cluster import Cluster, TopicPartition
from kohort.client.errors import ClientError


class Place(NamedTuple):
    """A topic, and those of its partitions that are meant; None: all of them."""

    topic: str
    partitions: list[int] | None


def parse_place(text: str) -> Place:
    """Read `TOPIC[:0,1,2]`. Raises ValueError if the partitions are no numbers."""
    topic, colon, indexes = text.partition(":")
    if not colon:
        return Place(topic, None)
    try:
        return Place(topic, [int(index) for index in indexes.split(",")])
    except ValueError:
        raise ValueError(f"{text!r}: partitions are numbers with commas, as in {topic}:0,1") from None


def named_partitions(cluster: Cluster, named: Iterable[Place]) -> list[TopicPartition]:
    """The partitions that are meant, each once, however often it was named."""
    places: list[TopicPartition] = []
    for topic, partitions in named:
        count = ask.partition_counts(cluster, [topic]).get(topic)
        if count is None:
            raise ClientError(f"there is no topic {topic}")
        places += [(topic, index) for index in (range(count) if partitions is None else partitions)]
    return list(dict.fromkeys(places))


def must_exist(cluster: Cluster, places: Iterable[TopicPartition]) -> None:
    counts = ask.partition_counts(cluster, {topic for topic, _ in places})
    for topic, partition in places:
        if topic not in counts:
            raise ClientError(f"there is no topic {topic}")
        if not 0 <= partition < counts[topic]:
            raise ClientError(f"topic {topic} has no partition {partition}, only 0 to {counts[topic] - 1}")


def must_be_known(places: Iterable[TopicPartition], offsets: Mapping[TopicPartition, int]) -> None:
    """Refuse partitions whose offsets the broker did not tell: they exist, so they must not be taken for empty ones."""
    for topic, partition in places:
        if (topic, partition) not in offsets:
            raise ClientError(f"{topic}-{partition} is offline: its offsets cannot be read")
