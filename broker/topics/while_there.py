"""Work on a topic's files in steps, which ends when the topic is deleted between two of them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.topics.catalog import Partition

Result = TypeVar("Result")


class TopicDeleted(Exception):
    """Another request deleted the topic, between two steps of this one."""


def while_there(
    broker: Broker, partition: Partition, steps: Generator[None, None, Result]
) -> Generator[None, None, Result]:
    """Take these steps. TopicDeleted: the topic's files are gone, or are those of a new topic of its name."""
    with closing(steps):
        while broker.catalog.by_id(partition.topic.id) is not None:
            try:
                next(steps)
            except StopIteration as end:
                result: Result = end.value
                return result
            yield
    raise TopicDeleted
