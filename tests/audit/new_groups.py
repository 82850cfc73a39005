"""Words for groups of the new protocol (KIP-848), whose log has a record per member: see tests/audit/logs.py."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kohort.coordinator.outcome import Record
from kohort.protocol.log_records import (
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    CONSUMER_GROUP_MEMBER_METADATA,
    CONSUMER_GROUP_METADATA,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA,
)
from kohort.protocol.messages import log_consumer_group_current_member_assignment as current
from kohort.protocol.messages import log_consumer_group_member_metadata as member
from kohort.protocol.messages import log_consumer_group_metadata as group
from kohort.protocol.messages import log_consumer_group_target_assignment_member as target
from kohort.protocol.messages import log_consumer_group_target_assignment_metadata as target_epoch
from tests.audit.logs import Group, by_topic, parse, topic_id

STABLE = 0


def new_epoch(
    its: Group, assigned: Mapping[str, Sequence[str]], *, epoch: int | None = None, joined: Iterable[str] | None = None,
    subscribed: Sequence[str] | None = None, instances: Mapping[str, str] | None = None,
) -> int:  # fmt: skip
    """The whole way from a bumped epoch to members that have what they shall have, in one batch, as Kafka orders it."""
    before = its.number
    its.number = its.number + 1 if epoch is None else epoch
    topics = subscribed or sorted({parse(one)[0] for some in assigned.values() for one in some})
    name = its.group_id
    records = [
        Record(
            CONSUMER_GROUP_MEMBER_METADATA,
            member.ConsumerGroupMemberMetadataKey(name, who),
            _member(who, topics, instances or {}),
        )
        for who in (assigned if joined is None else joined)
    ]
    records.append(
        Record(
            CONSUMER_GROUP_METADATA,
            group.ConsumerGroupMetadataKey(name),
            group.ConsumerGroupMetadataValue(its.number, 1),
        )
    )
    for who, partitions in assigned.items():
        wanted = [target.TopicPartition(topic_id(topic), numbers) for topic, numbers in by_topic(partitions)]
        records.append(
            Record(
                CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER, target.ConsumerGroupTargetAssignmentMemberKey(name, who),
                target.ConsumerGroupTargetAssignmentMemberValue(wanted),
            )
        )  # fmt: skip
    records.append(
        Record(
            CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA, target_epoch.ConsumerGroupTargetAssignmentMetadataKey(name),
            target_epoch.ConsumerGroupTargetAssignmentMetadataValue(its.number, its.now),
        )
    )  # fmt: skip
    records += [_current(name, who, its.number, before, partitions) for who, partitions in assigned.items()]
    return its.append(*records)


def current_assignment(
    its: Group, who: str, partitions: Sequence[str], *, revoking: Sequence[str] = (), state: int = STABLE
) -> int:
    """What one member has now, at the epoch in force."""
    return its.append(_current(its.group_id, who, its.number, its.number - 1, partitions, revoking, state))


def new_member_left(its: Group, who: str) -> int:
    """Tombstones in the order that Kafka asks for."""
    name = its.group_id
    return its.append(
        Record(
            CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT, current.ConsumerGroupCurrentMemberAssignmentKey(name, who), None
        ),
        Record(CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER, target.ConsumerGroupTargetAssignmentMemberKey(name, who), None),
        Record(CONSUMER_GROUP_MEMBER_METADATA, member.ConsumerGroupMemberMetadataKey(name, who), None),
    )


def new_group_deleted(its: Group) -> int:
    """An empty group goes."""
    name = its.group_id
    return its.append(
        Record(
            CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA, target_epoch.ConsumerGroupTargetAssignmentMetadataKey(name), None
        ),
        Record(CONSUMER_GROUP_METADATA, group.ConsumerGroupMetadataKey(name), None),
    )


def _member(who: str, topics: Sequence[str], instances: Mapping[str, str]) -> member.ConsumerGroupMemberMetadataValue:
    return member.ConsumerGroupMemberMetadataValue(
        instances.get(who), None, f"client-of-{who}", "/127.0.0.1", topics, "", 300_000, "uniform"
    )


def _current(
    name: str, who: str, epoch: int, before: int, has: Sequence[str], revoking: Sequence[str] = (), state: int = STABLE
) -> Record:
    def pack(some: Sequence[str]) -> list[current.TopicPartitions]:
        return [
            current.TopicPartitions(topic_id(topic), numbers, [epoch] * len(numbers))
            for topic, numbers in by_topic(some)
        ]

    value = current.ConsumerGroupCurrentMemberAssignmentValue(epoch, before, state, pack(has), pack(revoking))
    return Record(
        CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT, current.ConsumerGroupCurrentMemberAssignmentKey(name, who), value
    )
