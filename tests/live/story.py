"""Groups that a test makes record by record, without a broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kohort.broker.live.group import GroupHistory
from kohort.broker.live.histories import Histories
from kohort.broker.live.log_reader import LogReader
from kohort.protocol.log_records import (
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    CONSUMER_GROUP_MEMBER_METADATA,
    CONSUMER_GROUP_METADATA,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA,
    GROUP_METADATA,
    OFFSET_COMMIT,
    encode_key,
    encode_value,
)
from kohort.protocol.messages.log_consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from kohort.protocol.messages.log_consumer_group_member_metadata import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)
from kohort.protocol.messages.log_consumer_group_metadata import ConsumerGroupMetadataKey, ConsumerGroupMetadataValue
from kohort.protocol.messages.log_consumer_group_target_assignment_metadata import (
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from kohort.protocol.messages.log_group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from kohort.protocol.messages.log_offset_commit import OffsetCommitKey, OffsetCommitValue
from kohort.protocol.record_batch import build_batch
from tests.group_requests import assignment_bytes

TOPIC_ID = bytes(range(16))
Owned = Mapping[str, Sequence[int]]  # member: partitions of the topic `t`


class Story:
    """One group, whose records become history."""

    def __init__(self, group: str = "g", histories: Histories | None = None) -> None:
        self.group_id = group
        self.histories = histories or Histories(lambda topic_id: "t" if topic_id == TOPIC_ID else None)
        self.reader = LogReader(self.histories, with_commits=True)
        self.generation = 0
        self.now = 1_000_000

    @property
    def history(self) -> GroupHistory:
        return self.histories.groups[self.group_id]

    def later(self, ms: int) -> Story:
        self.now += ms
        return self

    def write(self, kind: int, key: Any, value: Any, headers: tuple[tuple[bytes, bytes | None], ...] = ()) -> None:
        """A record, as it would come in a batch of the log."""
        raw = None if value is None else encode_value(kind, value)
        record = (encode_key(kind, key), raw, headers)
        for _ in self.reader.read(0, bytes(build_batch([record], timestamp=self.now))):
            pass

    def classic(
        self, owned: Owned, *, instances: Mapping[str, str] | None = None, told: tuple[str, str] | None = None
    ) -> Story:
        """The next generation of a classic group."""
        self.generation += 1
        members = [
            MemberMetadata(
                member, (instances or {}).get(member), f"client of {member}", "/10.0.0.1", 30_000, 10_000, b"",
                assignment_bytes({"t": partitions}),
            )
            for member, partitions in owned.items()
        ]  # fmt: skip
        headers = (
            ()
            if told is None
            else (
                (b"kohort.cause", told[0].encode()),
                (b"kohort.trigger", told[1].encode()),
                (b"kohort.join.start.ms", b"%d" % (self.now - 300)),
            )
        )
        value = GroupMetadataValue("consumer", self.generation, "range", next(iter(owned), None), self.now, members)
        self.write(GROUP_METADATA, GroupMetadataKey(self.group_id), value, headers)
        return self

    def epoch(self, epoch: int, cause: str = "member joined") -> Story:
        key = ConsumerGroupMetadataKey(self.group_id)
        headers = ((b"kohort.cause", cause.encode()), (b"kohort.trigger", b"somebody"))
        self.write(CONSUMER_GROUP_METADATA, key, ConsumerGroupMetadataValue(epoch, 0), headers)
        return self

    def target(self, epoch: int) -> Story:
        key = ConsumerGroupTargetAssignmentMetadataKey(self.group_id)
        self.write(
            CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA, key, ConsumerGroupTargetAssignmentMetadataValue(epoch, self.now)
        )
        return self

    def member(self, member: str, *, is_gone: bool = False) -> Story:
        key = ConsumerGroupMemberMetadataKey(self.group_id, member)
        value = ConsumerGroupMemberMetadataValue(None, None, f"client of {member}", "/10.0.0.2", ["t"], None, 1, None)
        self.write(CONSUMER_GROUP_MEMBER_METADATA, key, None if is_gone else value)
        return self

    def has(
        self, member: str, epoch: int, partitions: Sequence[int], revoking: Sequence[int] = (), *, waits: bool = False
    ) -> Story:
        key = ConsumerGroupCurrentMemberAssignmentKey(self.group_id, member)
        value = ConsumerGroupCurrentMemberAssignmentValue(
            epoch, epoch - 1, 1 if revoking else 2 if waits else 0, _rows(partitions), _rows(revoking)
        )
        self.write(CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT, key, value)
        return self

    def commit(self, partition: int, offset: int, topic: str = "t", *, with_id: bool = True) -> Story:
        key = OffsetCommitKey(self.group_id, topic, partition)
        value = OffsetCommitValue(offset, -1, "", self.now)
        if with_id:
            value.topic_id = TOPIC_ID
        self.write(OFFSET_COMMIT, key, value)
        return self

    def delete(self) -> Story:
        self.write(GROUP_METADATA, GroupMetadataKey(self.group_id), None)
        return self


def _rows(partitions: Sequence[int]) -> list[TopicPartitions]:
    return [TopicPartitions(TOPIC_ID, partitions, [1] * len(partitions))] if partitions else []
