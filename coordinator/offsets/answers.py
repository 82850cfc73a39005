"""Kafka's order of an answer about many partitions: those refused before the group was asked come first."""

from __future__ import annotations

from typing import Any, TypeVar

Topic = TypeVar("Topic", bound=Any)  # an answer's topic, with a list of partitions


def add(topics: dict[Any, Topic], key: Any, topic: Topic) -> None:
    """Add a topic's partitions behind those of the same topic, if there are some."""
    known = topics.setdefault(key, topic)
    if known is not topic:
        known.partitions.extend(topic.partitions)


def merged(refused: dict[Any, Topic], asked: list[tuple[Any, Topic]]) -> list[Topic]:
    """Topics by name or id. What the group said about a topic stands behind what was refused of the same topic."""
    if not refused:
        return [topic for _, topic in asked]
    for key, topic in asked:
        add(refused, key, topic)
    return list(refused.values())
