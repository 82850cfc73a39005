"""Which share partition: one partition as one share group reads it."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from functools import lru_cache
from typing import NamedTuple


class SharePartitionKey(NamedTuple):
    group_id: str
    topic_id: bytes
    partition: int


def coordinator_key(key: SharePartitionKey) -> str:
    """By this text, Kafka finds the partition of __share_group_state; FindCoordinator names it, too."""
    topic_id = urlsafe_b64encode(key.topic_id).decode().rstrip("=")
    return f"{key.group_id}:{topic_id}:{key.partition}"


known_coordinator_key = lru_cache(maxsize=10_000)(coordinator_key)  # for share partitions that are in use
