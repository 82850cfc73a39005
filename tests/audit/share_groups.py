"""Words for share groups (KIP-932): members in __consumer_offsets, progress in __share_group_state. See logs.py.

    joined(shop, "m1", ["t-0"])                              # a member, with its partitions
    state = ShareState(shop, "t-0")                          # what is written about t-0, in the log where it belongs
    state.snapshot(0)                                        # initialized; start offset 0
    state.accept(0, 9, by="m1")                              # ten records, delivered once
    state.returned(10, 10, 1, Cause.LOCK_TIMEOUT, by="m1")   # one came back
    state.archive(10, 10, 5, Cause.LOCK_TIMEOUT, by="m1")    # and was given up
    state.at(20)                                             # the start offset moves with the next update

Without a cause a record has no headers, as in a Kafka's log. Every word appends one batch, and gives back its offset.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Sequence

from kohort.coordinator.outcome import Record
from kohort.coordinator.partitioner import partition_of
from kohort.coordinator.share_state.headers import Cause, share_state_headers
from kohort.protocol.log_records import (
    SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    SHARE_GROUP_MEMBER_METADATA,
    SHARE_GROUP_METADATA,
    SHARE_GROUP_STATE_PARTITION_METADATA,
    SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER,
    SHARE_GROUP_TARGET_ASSIGNMENT_METADATA,
)
from kohort.protocol.messages import log_share_group_current_member_assignment as current
from kohort.protocol.messages import log_share_group_member_metadata as member
from kohort.protocol.messages import log_share_group_metadata as group
from kohort.protocol.messages import log_share_group_state_partition_metadata as metadata
from kohort.protocol.messages import log_share_group_target_assignment_member as target
from kohort.protocol.messages import log_share_group_target_assignment_metadata as target_epoch
from kohort.protocol.messages import log_share_snapshot as snapshots
from kohort.protocol.messages import log_share_update as updates
from kohort.protocol.record_batch import Headers, build_batch
from kohort.protocol.share_state_records import SHARE_GROUP_STATE, SHARE_SNAPSHOT, SHARE_UPDATE
from tests.audit.logs import STEP_MS, Group, by_topic, parse, topic_id

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4
STATE_TOPIC = "__share_group_state"
STATE_PARTITIONS = 50
Batch = tuple[int, int, int, int]  # first and last offset, state, deliveries


def joined(its: Group, who: str, partitions: Sequence[str], *, named: bool = True) -> int:
    """A member comes and has its partitions at once. `named`: the log says how the topics are called."""
    its.number += 1
    name, topics = its.group_id, sorted({parse(one)[0] for one in partitions})
    records = [
        Record(
            SHARE_GROUP_MEMBER_METADATA, member.ShareGroupMemberMetadataKey(name, who),
            member.ShareGroupMemberMetadataValue(None, f"client-of-{who}", "/127.0.0.1", topics),
        ),
        Record(
            SHARE_GROUP_METADATA, group.ShareGroupMetadataKey(name), group.ShareGroupMetadataValue(its.number, 1),
        ),
    ]  # fmt: skip
    if named:
        known = [
            metadata.TopicPartitionsInfo(topic_id(topic), topic, numbers) for topic, numbers in by_topic(partitions)
        ]
        records.append(
            Record(
                SHARE_GROUP_STATE_PARTITION_METADATA, metadata.ShareGroupStatePartitionMetadataKey(name),
                metadata.ShareGroupStatePartitionMetadataValue((), known, ()),
            )
        )  # fmt: skip
    wanted = [target.TopicPartition(topic_id(topic), numbers) for topic, numbers in by_topic(partitions)]
    records += [
        Record(
            SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER, target.ShareGroupTargetAssignmentMemberKey(name, who),
            target.ShareGroupTargetAssignmentMemberValue(wanted),
        ),
        Record(
            SHARE_GROUP_TARGET_ASSIGNMENT_METADATA, target_epoch.ShareGroupTargetAssignmentMetadataKey(name),
            target_epoch.ShareGroupTargetAssignmentMetadataValue(its.number, its.now),
        ),
        _assigned(its, who, partitions),
    ]  # fmt: skip
    return its.append(*records)


def assigned(its: Group, who: str, partitions: Sequence[str]) -> int:
    """A member that is there gets other partitions."""
    its.number += 1
    epoch = Record(
        SHARE_GROUP_METADATA, group.ShareGroupMetadataKey(its.group_id), group.ShareGroupMetadataValue(its.number, 1)
    )  # fmt: skip
    return its.append(epoch, _assigned(its, who, partitions))


def _assigned(its: Group, who: str, partitions: Sequence[str]) -> Record:
    has = [current.TopicPartitions(topic_id(topic), numbers) for topic, numbers in by_topic(partitions)]
    return Record(
        SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT, current.ShareGroupCurrentMemberAssignmentKey(its.group_id, who),
        current.ShareGroupCurrentMemberAssignmentValue(its.number, its.number - 1, 0, has),
    )  # fmt: skip


def left(its: Group, who: str) -> int:
    """Tombstones in the order that Kafka writes."""
    its.number += 1
    name = its.group_id
    return its.append(
        Record(SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT, current.ShareGroupCurrentMemberAssignmentKey(name, who), None),
        Record(SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER, target.ShareGroupTargetAssignmentMemberKey(name, who), None),
        Record(SHARE_GROUP_MEMBER_METADATA, member.ShareGroupMemberMetadataKey(name, who), None),
        Record(SHARE_GROUP_METADATA, group.ShareGroupMetadataKey(name), group.ShareGroupMetadataValue(its.number, 1)),
    )


def state_partition(group_id: str, topic: str, partition: int) -> int:
    """The partition of __share_group_state in which Kafka keeps a share partition."""
    id_ = urlsafe_b64encode(topic_id(topic)).decode().rstrip("=")
    return partition_of(f"{group_id}:{id_}:{partition}", STATE_PARTITIONS)


class ShareState:
    """What is written about one partition that a share group reads. Time is the group's."""

    def __init__(self, its: Group, partition: str, *, log_partition: int | None = None) -> None:
        self.its = its
        self.topic, self.partition = parse(partition)
        place = state_partition(its.group_id, self.topic, self.partition)
        self.log_partition = place if log_partition is None else log_partition
        self.start = -1  # what the next records say
        self.epoch = 0  # of the snapshot

    def at(self, start: int) -> ShareState:
        """The start offset that the next records have."""
        self.start = start
        return self

    def snapshot(
        self, start: int, batches: Sequence[Batch] = (), cause: Cause | None = Cause.INITIALIZE, *, state_epoch: int = 1
    ) -> int:
        self.start, self.epoch = start, self.epoch + 1
        value = snapshots.ShareSnapshotValue(
            self.epoch, state_epoch, 0, start, -1, self.its.now, self.its.now,
            [snapshots.StateBatch(*batch) for batch in batches],
        )  # fmt: skip
        return self._append(SHARE_SNAPSHOT, value, _headers(cause, ""))

    def update(self, *batches: Batch, cause: Cause | None = Cause.ACKNOWLEDGE, by: str = "", complete: int = -1) -> int:
        value = updates.ShareUpdateValue(
            self.epoch, 0, self.start, complete, [updates.StateBatch(*batch) for batch in batches]
        )
        return self._append(SHARE_UPDATE, value, _headers(cause, by))

    def accept(self, first: int, last: int, *, by: str = "m1", deliveries: int = 1) -> int:
        return self.update((first, last, ACKNOWLEDGED, deliveries), by=by)

    def returned(self, first: int, last: int, deliveries: int, cause: Cause | None, *, by: str = "m1") -> int:
        return self.update((first, last, AVAILABLE, deliveries), cause=cause, by=by)

    def archive(self, first: int, last: int, deliveries: int, cause: Cause | None, *, by: str = "m1") -> int:
        return self.update((first, last, ARCHIVED, deliveries), cause=cause, by=by)

    def delete(self) -> int:
        return self._append(SHARE_SNAPSHOT, None, ())

    def _append(self, kind: int, value: object, headers: Headers) -> int:
        name = (self.its.group_id, topic_id(self.topic), self.partition)
        key = snapshots.ShareSnapshotKey(*name) if kind == SHARE_SNAPSHOT else updates.ShareUpdateKey(*name)
        return self.raw(
            SHARE_GROUP_STATE.encode_key(kind, key),
            None if value is None else SHARE_GROUP_STATE.encode_value(kind, value),
            headers,
        )

    def raw(self, key: bytes | None, value: bytes | None, headers: Headers = ()) -> int:
        """A record of any bytes, in the same log."""
        batch = build_batch([(key, value, headers)], timestamp=self.its.now, base_sequence=0)
        offset = self.its.logs.append(self.log_partition, batch, self.its.now, topic=STATE_TOPIC)
        self.its.now += STEP_MS
        return offset


def _headers(cause: Cause | None, by: str) -> Headers:
    return () if cause is None else share_state_headers(cause, by)
