"""A broker without sockets whose share coordinator is in memory, and members of share groups that fetch from it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kohort.broker.call import PARKED
from kohort.broker.config import Listener
from kohort.broker.share.persister import SharePartitionKey
from kohort.broker.share.share_partitions import SharePartitions, share_partitions_of
from kohort.coordinator.config import ShareGroupSettings, ShareSettings
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.record_batch import build_batch
from tests.broker.broker_box import BrokerBox, FakeConnection
from tests.share.memory_persister import MemoryPersister
from tests.share_requests import CLOSE, Acknowledgements, share_acknowledge_request, share_fetch_request

GROUP = "g"
Acquired = list[tuple[int, int, int]]


class ShareBox(BrokerBox):
    def __init__(self, folder: Path | str, *, partitions: int = 1, is_slow: bool = False, **overrides: str) -> None:
        super().__init__(folder, None, **overrides)
        self.settings = ShareSettings(replace(ShareGroupSettings(), auto_offset_reset="earliest"))
        self.broker.coordinator = SimpleNamespace(  # type: ignore[assignment]
            runtime=SimpleNamespace(share=self.settings), topics_deleted=lambda gone: None
        )
        self.broker.clock = self.clock
        self.state = self.broker.share_state = MemoryPersister(is_slow=is_slow)
        self.broker.advertised = [Listener("PLAINTEXT", "127.0.0.1", 9092)]
        self.topic("t", partitions)
        self.initialize(partitions=partitions)

    def set(self, **settings: Any) -> None:
        """Change the settings of all share groups."""
        self.settings.change_broker(replace(self.settings.of_broker, **settings))

    def key(self, partition: int = 0, topic: str = "t", group: str = GROUP) -> SharePartitionKey:
        return SharePartitionKey(group, self.id_of(topic), partition)

    def id_of(self, topic: str) -> bytes:
        found = self.broker.catalog.get(topic)
        return b"\x07" * 16 if found is None else found.id

    def initialize(self, topic: str = "t", partitions: int = 1, group: str = GROUP, start: int = -1) -> None:
        for index in range(partitions):
            self.state.initialize(self.key(index, topic, group), 1, start, lambda error, message: None)

    def write(self, *sizes: int, partition: int = 0, topic: str = "t") -> None:
        """A batch for each size, with so many records."""
        for size in sizes:
            batch = build_batch([(None, b"v%03d" % index) for index in range(size)], timestamp=self.now)
            self.produce(batch, topic, partition)

    @property
    def led(self) -> SharePartitions:
        return share_partitions_of(self.broker)


class Sharer:
    """One member on one connection."""

    def __init__(self, box: ShareBox, member_id: str = "m1", group: str = GROUP) -> None:
        self.box = box
        self.group = group
        self.member_id = member_id
        self.client = FakeConnection()
        self.epoch = 0

    def fetch(
        self, *partitions: int, acknowledge: Acknowledgements | None = None, epoch: int | None = None, version: int = 2,
        topic: str = "t", **fields: Any,
    ) -> Any:  # fmt: skip
        """The answer, or PARKED. With epoch None the session goes on."""
        epoch = self.epoch if epoch is None else epoch
        request = share_fetch_request(
            self.group, self.member_id, epoch, [(topic, index) for index in partitions], acknowledge,
            id_of=self.box.id_of, **fields,
        )  # fmt: skip
        answer = self.box.send(ApiKey.SHARE_FETCH, request, version, client=self.client)
        self._next(epoch, answer)
        return answer

    def _next(self, epoch: int, answer: Any) -> None:
        if answer is PARKED or answer.error_code == 0:
            self.epoch = 0 if epoch == CLOSE else epoch + 1

    def acquire(self, *partitions: int, **fields: Any) -> Acquired:
        """What is acquired of one partition at once."""
        answer = self.fetch(*partitions, max_wait_ms=0, **fields)
        found = partition_of(answer)
        return [] if found is None else acquired_of(found)

    def acknowledge(
        self, *ranges: tuple[int, int, int], partition: int = 0, epoch: int | None = None, version: int = 2,
        renew: bool = False, topic: str = "t",
    ) -> Any:  # fmt: skip
        epoch = self.epoch if epoch is None else epoch
        told = {(topic, partition): [(first, last, [kind]) for first, last, kind in ranges]}
        request = share_acknowledge_request(self.group, self.member_id, epoch, told, id_of=self.box.id_of, renew=renew)
        answer = self.box.send(ApiKey.SHARE_ACKNOWLEDGE, request, version, client=self.client)
        self._next(epoch, answer)
        return answer

    def result(self, *ranges: tuple[int, int, int], **fields: Any) -> str:
        """The name of the partition's error."""
        answer = self.acknowledge(*ranges, **fields)
        found = partition_of(answer)
        return ErrorCode(answer.error_code or (found.error_code if found else 0)).name

    @property
    def answers(self) -> list[Any]:
        """To requests that were parked."""
        return self.client.answers


def partition_of(answer: Any, index: int | None = None) -> Any:
    """What the answer says about a partition; about its only one, if no index is given. None: nothing."""
    found = [each for topic in answer.responses for each in topic.partitions]
    if index is None:
        assert len(found) <= 1
        return found[0] if found else None
    return next((each for each in found if each.partition_index == index), None)


def acquired_of(partition: Any) -> Acquired:
    return [(each.first_offset, each.last_offset, each.delivery_count) for each in partition.acquired_records]
