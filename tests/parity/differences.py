"""The differences between Kafka's answers and ours that are allowed, each with its reason.

docs/protocol-support.md shows this table, and a test keeps it in step. `make parity` says which entries were not
needed, so that the list can only shrink by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    SHAPE = "the value"  # both null, both empty, both zero, or both set
    ANY = "anything"


@dataclass(frozen=True)
class Allowed:
    """`api`, `field` and `scenario` are shell patterns; list indexes are left out of fields."""

    api: str
    field: str
    reason: str
    kind: Kind = Kind.SHAPE
    scenario: str = "*"


@dataclass(frozen=True)
class Unordered:
    """A list that Kafka answers in the order of a hash table: compared sorted by these fields."""

    api: str
    field: str
    keys: tuple[str, ...]


ALLOWED = [
    Allowed("*", "*port", "two brokers on one machine listen on two ports"),
    Allowed("*", "cluster_id", "random, made when the data folder is made"),
    Allowed("*", "*topic_id", "random, made with the topic"),
    Allowed("*", "*error_message", "texts for people are our own; whether there is one is compared"),
]

UNORDERED = [
    Unordered("Metadata", "topics", ("name", "topic_id")),
    Unordered("DescribeConfigs", "results.configs", ("name",)),
    Unordered("DescribeLogDirs", "results.topics", ("name",)),
    Unordered("DescribeLogDirs", "results.topics.partitions", ("partition_index",)),
]
