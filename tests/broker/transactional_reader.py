"""Reads all partitions of a topic as a read_committed consumer, through ends of the broker, and counts what it saw."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

from kohort.client.client import Client
from kohort.client.errors import ClientError
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.broker.committed_reader import Seen, committed

FETCH_VERSION, LIST_VERSION = 12, 7
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
LATEST = -1
NOT_READY = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)  # a Kafka that starts
MAX_WAIT_MS = 100
PARTITION_BYTES = 1 << 20
RETRY_S = 0.02


def value_of(record: Seen) -> str:
    """The first word of the value: some records are filled up with another one."""
    return (record.value or b"").decode().partition(" ")[0]


class Reader:
    def __init__(self, topic: str, partitions: int, content: Callable[[Seen], str] = value_of) -> None:
        self.seen: dict[int, Counter[str]] = {index: Counter() for index in range(partitions)}
        self.positions = dict.fromkeys(range(partitions), 0)
        self._topic = topic
        self._content = content

    def run(self, address: str, stop: threading.Event, problems: list[BaseException]) -> None:
        """Until it is told to stop; while the broker is away, it waits."""
        while not stop.is_set():
            try:
                with Client(address, timeout_s=60) as client:
                    while not stop.is_set():
                        self.read_on(client)
            except ClientError:
                stop.wait(RETRY_S)
            except BaseException as problem:
                problems.append(problem)
                return

    def read_on(self, client: Client) -> None:
        rows = [FetchPartition(index, fetch_offset=at, partition_max_bytes=PARTITION_BYTES)
                for index, at in self.positions.items()]  # fmt: skip
        request = FetchRequest(
            isolation_level=READ_COMMITTED, session_epoch=-1, max_wait_ms=MAX_WAIT_MS, min_bytes=1,
            topics=[FetchTopic(self._topic, partitions=rows)],
        )  # fmt: skip
        answer = client.send(ApiKey.FETCH, request, FETCH_VERSION)
        for partition in (each for topic in answer.responses for each in topic.partitions):
            index = partition.partition_index
            if partition.error_code in NOT_READY:
                continue
            assert partition.error_code == 0, partition
            found, self.positions[index] = committed(partition, self.positions[index])
            self.seen[index].update(map(self._content, found))

    def ends(self, client: Client, isolation_level: int) -> dict[int, int]:
        """Where the partitions end for a reader: the last stable offset, or the high watermark."""
        rows = [ListOffsetsPartition(index, timestamp=LATEST) for index in self.positions]
        request = ListOffsetsRequest(-1, isolation_level, [ListOffsetsTopic(self._topic, rows)])
        answer: Any = client.send(ApiKey.LIST_OFFSETS, request, LIST_VERSION)
        return {each.partition_index: each.offset for topic in answer.topics for each in topic.partitions}
