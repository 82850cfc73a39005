"""The order of an answer about many partitions, as Kafka's: first what was refused before the group was asked."""

from __future__ import annotations

from typing import Any, TypeVar

Topic = TypeVar("Topic", bound=Any)  # an answer's topic, with a list of partitions


def merged(refused: dict[Any, Topic], asked: list[tuple[Any, Topic]]) -> list[Topic]:
    """Topics by name or id. What the group said about a topic stands behind what was refused of the same topic."""
    if not refused:
        return [topic for _, topic in asked]
    for key, topic in asked:
        known = refused.get(key)
        if known is None:
            refused[key] = topic
        else:
            known.partitions.extend(topic.partitions)
    return list(refused.values())
