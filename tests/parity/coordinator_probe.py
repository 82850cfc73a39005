"""Asks the part of a coordinator that has a group how many partitions of a topic it knows.

In Kafka every partition of __consumer_offsets learns of topics by itself, after the metadata cache. Another group of
that partition shows what it knows: a single member is assigned everything.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from kohort.coordinator.partitioner import partition_of
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.protocol.messages.delete_groups import DeleteGroupsRequest

OFFSETS_PARTITIONS = 50
JOIN, LEAVE = 0, -1
REBALANCE_MS = 1_000

Send = Callable[[ApiKey, Any, int], Any]  # API, request and version; returns the answer


class CoordinatorProbe:
    def __init__(self, group: str) -> None:
        self._group = group
        self._partition = partition_of(group, OFFSETS_PARTITIONS)
        self._numbers = count(1)

    def count_partitions(self, send: Send, topic: str) -> int | None:
        """None: the coordinator is not ready."""
        name = self._next_group()
        request = ConsumerGroupHeartbeatRequest(name, "probe", JOIN, None, None, REBALANCE_MS, [topic])
        request.topic_partitions = []
        answer = send(ApiKey.CONSUMER_GROUP_HEARTBEAT, request, 1)
        if answer.error_code:
            return None
        send(ApiKey.CONSUMER_GROUP_HEARTBEAT, ConsumerGroupHeartbeatRequest(name, "probe", LEAVE), 1)
        send(ApiKey.DELETE_GROUPS, DeleteGroupsRequest([name]), 2)
        return sum(len(each.partitions) for each in answer.assignment.topic_partitions)

    def _next_group(self) -> str:
        names = (f"probe {number} of {self._group}" for number in self._numbers)
        return next(name for name in names if partition_of(name, OFFSETS_PARTITIONS) == self._partition)
