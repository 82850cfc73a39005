"""Producers that commit offsets in transactions, as far as a group coordinator sees them."""

from __future__ import annotations

from dataclasses import dataclass

from kohort.coordinator.offsets.write_marker import WRITE_MARKER, WriteMarker
from kohort.coordinator.outcome import Parked
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kohort.protocol.txn_marker import TxnMarker
from kohort.protocol.wire import Message
from tests.coordinator.members import errors_of
from tests.coordinator.support import Call, Host
from tests.group_requests import Offsets

PRODUCER = 7


def txn_request(
    group_id: str, offsets: Offsets, *, producer_id: int = PRODUCER, epoch: int = 0, transactional_id: str = "shop",
    generation: int = -1, member_id: str = "", instance_id: str | None = None, metadata: str | None = "",
    leader_epoch: int = -1,
) -> TxnOffsetCommitRequest:  # fmt: skip
    topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
    for (topic, partition), offset in offsets.items():
        row = TxnOffsetCommitRequestPartition(partition, offset, leader_epoch, metadata)
        topics.setdefault(topic, []).append(row)
    rows = [TxnOffsetCommitRequestTopic(topic, partitions) for topic, partitions in topics.items()]
    return TxnOffsetCommitRequest(
        transactional_id, group_id, producer_id, epoch, generation, member_id, instance_id, rows
    )


@dataclass
class Producer:
    """A transactional producer whose coordinator bumps its epoch with each transaction, as version 2 does."""

    host: Host
    producer_id: int = PRODUCER
    epoch: int = 0
    version: int = 5

    def send(
        self, offsets: Offsets, group_id: str = "g", *, generation: int = -1, member_id: str = "",
        instance_id: str | None = None, metadata: str | None = "", version: int | None = None,
    ) -> Call:  # fmt: skip
        request = txn_request(
            group_id, offsets, producer_id=self.producer_id, epoch=self.epoch, generation=generation,
            member_id=member_id, instance_id=instance_id, metadata=metadata,
        )  # fmt: skip
        return self.host.send(request, self.version if version is None else version)

    def commit(
        self, offsets: Offsets, group_id: str = "g", *, generation: int = -1, member_id: str = "",
        instance_id: str | None = None, version: int | None = None,
    ) -> ErrorCode:  # fmt: skip
        """The one error of all partitions."""
        call = self.send(
            offsets, group_id, generation=generation, member_id=member_id, instance_id=instance_id, version=version
        )
        errors = set(errors_of(call).values())
        assert len(errors) == 1, errors
        return errors.pop()

    def end(self, commit: bool, group_id: str = "g") -> ErrorCode | None:
        """The marker; None: it is on its way to the disk."""
        self.epoch += 1
        written = write_marker(self.host, group_id, TxnMarker(self.producer_id, self.epoch, commit, 0, 2))
        return written.error


class MarkerCall(Call):
    """The sender of a marker, who is told when it is durable."""

    def __init__(self, host: Host) -> None:
        super().__init__(host, 0, 0, "")

    def reply(self, response: Message) -> None:
        assert self.answered_at is None
        self.answered_at = self.host.now
        self._answer = response

    @property
    def error(self) -> ErrorCode | None:  # type: ignore[override]
        return self._answer.error_code if self.is_answered else None


def write_marker(host: Host, group_id: str, marker: TxnMarker) -> MarkerCall:
    """Into the partition of this group."""
    call = MarkerCall(host)
    answer = host.runtime.ask(host.shard_of(group_id), WRITE_MARKER, WriteMarker(marker), call)
    if not isinstance(answer, Parked):
        call.reply(answer)
    host.settle()
    return call
