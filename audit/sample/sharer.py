"""A member of a share group (KIP-932) that does what it is told, and nothing else: it need not run in a process.

Records come back if nobody acknowledges them, so what goes wrong with them can be told step by step.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from kohort.client.client import Client
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest
from kohort.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kohort.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kohort.protocol.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from kohort.protocol.messages.share_fetch import FetchPartition, FetchTopic, ForgottenTopic, ShareFetchRequest
from kohort.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

PATIENCE_S = 120.0
PAUSE_S = 0.1
GROUP_RESOURCE = 32
SET = 0
RECORD_LIMIT = 1
MAX_BYTES = 1 << 20
ACCEPT, RELEASE = 1, 2
NOT_READY = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


class Sharer:
    def __init__(self, address: str, group: str, topic: str, name: str) -> None:
        self.name = name
        self._group, self._topic = group, topic
        self._client = Client(address, client_id=name)
        self._member_id = f"{name}-of-{group}"
        self._epoch = 0
        self._fetched: int | None = None  # the partition that its session fetches
        self._topic_id: bytes = b""
        self._deadline = time.monotonic() + PATIENCE_S

    def begin_at_the_start(self) -> None:
        """The group reads what was produced before its first member came."""
        setting = AlterableConfig("share.auto.offset.reset", SET, "earliest")
        resource = AlterConfigsResource(GROUP_RESOURCE, self._group, [setting])
        self._client.send(ApiKey.INCREMENTAL_ALTER_CONFIGS, IncrementalAlterConfigsRequest([resource], False))

    def join(self, partitions: int) -> None:
        """Become a member, and wait until the group has all partitions of the topic."""
        asked = FindCoordinatorRequest("", 0, [self._group])
        self._until(lambda: not self._client.send(ApiKey.FIND_COORDINATOR, asked).coordinators[0].error_code)
        (topic,) = self._client.send(ApiKey.METADATA, MetadataRequest([MetadataRequestTopic(name=self._topic)])).topics
        self._topic_id = topic.topic_id
        epoch = has = 0

        def has_all() -> bool:
            nonlocal epoch, has
            names = [self._topic] if epoch == 0 else None
            request = ShareGroupHeartbeatRequest(self._group, self._member_id, epoch, None, names)
            answer = self._client.send(ApiKey.SHARE_GROUP_HEARTBEAT, request)
            if answer.error_code in NOT_READY:
                return False
            _check(answer)
            epoch = answer.member_epoch
            if answer.assignment is not None:
                has = sum(len(each.partitions) for each in answer.assignment.topic_partitions)
            return has == partitions

        self._until(has_all)

    def fetch(self, partition: int, count: int) -> list[int]:
        """Acquire at most so many records of one partition; none if none comes within a second. Their offsets."""
        named = [FetchTopic(self._topic_id, [FetchPartition(partition)])] if self._fetched != partition else []
        forgotten = []
        if self._fetched not in (None, partition):
            forgotten = [ForgottenTopic(self._topic_id, [self._fetched])]
        request = ShareFetchRequest(
            self._group, self._member_id, self._epoch, 1_000, 1, MAX_BYTES, count, count, RECORD_LIMIT,
            topics=named, forgotten_topics_data=forgotten,
        )  # fmt: skip
        answer = self._client.send(ApiKey.SHARE_FETCH, request)
        _check(answer)
        self._epoch, self._fetched = self._epoch + 1, partition
        return [
            offset
            for topic in answer.responses
            for row in topic.partitions
            for got in row.acquired_records
            for offset in range(got.first_offset, got.last_offset + 1)
        ]

    def fetch_until_some(self, partition: int, count: int) -> list[int]:
        got: list[int] = []

        def has_some() -> bool:
            got.extend(self.fetch(partition, count))
            return bool(got)

        self._until(has_some)
        return got

    def tell(self, partition: int, offsets: Sequence[int], kind: int) -> None:
        """Acknowledge each of these records for itself."""
        batches = [AcknowledgementBatch(offset, offset, [kind]) for offset in offsets]
        topic = AcknowledgeTopic(self._topic_id, [AcknowledgePartition(partition, batches)])
        request = ShareAcknowledgeRequest(self._group, self._member_id, self._epoch, topics=[topic])
        answer = self._client.send(ApiKey.SHARE_ACKNOWLEDGE, request)
        _check(answer)
        self._epoch += 1

    def close(self) -> None:
        self._client.close()

    def _until(self, is_so: Any) -> None:
        while not is_so():
            if time.monotonic() > self._deadline:
                raise RuntimeError(f"{self.name} waited in vain")
            time.sleep(PAUSE_S)


def _check(answer: Any) -> None:
    if answer.error_code:
        raise RuntimeError(f"the broker answered {ErrorCode(answer.error_code).name}")
