"""Words for groups of the new protocol (KIP-848), whose log has a record per member: see tests/audit/logs.py."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kohort.coordinator.outcome import Record
from kohort.protocol.log_records import (
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    CONSUMER_GROUP_MEMBER_METADATA,
    CONSUMER_GROUP_METADATA,
    CONSUMER_GROUP_REGULAR_EXPRESSION,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA,
    GROUP_METADATA,
)
from kohort.protocol.messages import log_consumer_group_current_member_assignment as current
from kohort.protocol.messages import log_consumer_group_member_metadata as member
from kohort.protocol.messages import log_consumer_group_metadata as group
from kohort.protocol.messages import log_consumer_group_regular_expression as expression
from kohort.protocol.messages import log_consumer_group_target_assignment_member as target
from kohort.protocol.messages import log_consumer_group_target_assignment_metadata as target_epoch
from kohort.protocol.messages.log_group_metadata import GroupMetadataKey
from tests.audit.logs import Group, by_topic, parse, topic_id

STABLE, UNREVOKED, UNRELEASED = 0, 1, 2


def new_epoch(
    its: Group, assigned: Mapping[str, Sequence[str]], *, epoch: int | None = None, joined: Iterable[str] | None = None,
    subscribed: Sequence[str] | None = None, instances: Mapping[str, str] | None = None,
    regex: Mapping[str, str] | None = None, settled: bool = True, cause: str | None = None, trigger: str = "",
) -> int:  # fmt: skip
    """The whole way from a bumped epoch to members that have what they shall have, in one batch, as Kafka orders it.

    A member with a `regex` names no topics. Without `settled` the members have not yet heard of their new targets. With
    a `cause` the record of the epoch has Kohort's headers.
    """
    records = _epoch(its, assigned, epoch, joined, subscribed, instances, regex, settled, cause, trigger)
    return its.append(*records)


def _epoch(
    its: Group, assigned: Mapping[str, Sequence[str]], epoch: int | None, joined: Iterable[str] | None = None,
    subscribed: Sequence[str] | None = None, instances: Mapping[str, str] | None = None,
    regex: Mapping[str, str] | None = None, settled: bool = True, cause: str | None = None, trigger: str = "",
) -> list[Record]:  # fmt: skip
    before = its.number
    its.number = its.number + 1 if epoch is None else epoch
    topics = subscribed or sorted({parse(one)[0] for some in assigned.values() for one in some})
    name = its.group_id
    records = [
        Record(
            CONSUMER_GROUP_MEMBER_METADATA,
            member.ConsumerGroupMemberMetadataKey(name, who),
            _member(who, topics, instances or {}, (regex or {}).get(who, "")),
        )
        for who in (assigned if joined is None else joined)
    ]
    headers = () if cause is None else (
        (b"kohort.join.start.ms", b"%d" % its.now), (b"kohort.cause", cause.encode()),
        (b"kohort.trigger", trigger.encode()),
    )  # fmt: skip
    records.append(
        Record(
            CONSUMER_GROUP_METADATA, group.ConsumerGroupMetadataKey(name),
            group.ConsumerGroupMetadataValue(its.number, 1), headers,
        )
    )  # fmt: skip
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
    if settled:
        records += [_current(name, who, its.number, before, partitions) for who, partitions in assigned.items()]
    return records


def matches(its: Group, pattern: str, topics: Sequence[str] | None) -> int:
    """The coordinator has resolved a regular expression; None: nobody uses it any more."""
    key = expression.ConsumerGroupRegularExpressionKey(its.group_id, pattern)
    value = None if topics is None else expression.ConsumerGroupRegularExpressionValue(topics, 1, its.now)
    return its.append(Record(CONSUMER_GROUP_REGULAR_EXPRESSION, key, value))


def upgrade(its: Group, kept: Mapping[str, Sequence[str]], assigned: Mapping[str, Sequence[str]]) -> int:
    """A classic group in which members have `kept` becomes a consumer group; the next target is `assigned`."""
    newcomers = [who for who in assigned if who not in kept]
    return its.append(
        Record(GROUP_METADATA, GroupMetadataKey(its.group_id), None),
        *_epoch(its, kept, its.number),
        *_epoch(its, assigned, None, newcomers, settled=False),
        *(_current(its.group_id, who, its.number, 0, (), state=UNRELEASED) for who in newcomers),
    )


def downgrade(its: Group, members: Sequence[str], kept: Mapping[str, Sequence[str]]) -> int:
    """The last of the new members has left, and the group is classic again, with those that have `kept`."""
    name = its.group_id
    return its.append(
        *(_tombstone(CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT, name, who) for who in members),
        *(_tombstone(CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER, name, who) for who in members),
        Record(
            CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA, target_epoch.ConsumerGroupTargetAssignmentMetadataKey(name), None
        ),
        *(_tombstone(CONSUMER_GROUP_MEMBER_METADATA, name, who) for who in members),
        Record(CONSUMER_GROUP_METADATA, group.ConsumerGroupMetadataKey(name), None),
        its.generation_record(kept, number=its.number),
    )


KEYS = {
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: current.ConsumerGroupCurrentMemberAssignmentKey,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: target.ConsumerGroupTargetAssignmentMemberKey,
    CONSUMER_GROUP_MEMBER_METADATA: member.ConsumerGroupMemberMetadataKey,
}


def _tombstone(record_type: int, name: str, who: str) -> Record:
    return Record(record_type, KEYS[record_type](name, who), None)


def current_assignment(
    its: Group, who: str, partitions: Sequence[str], *, revoking: Sequence[str] = (), state: int = STABLE
) -> int:
    """What one member has now, at the epoch in force."""
    return its.append(_current(its.group_id, who, its.number, its.number - 1, partitions, revoking, state))


def new_member_left(its: Group, who: str) -> int:
    """Tombstones in the order that Kafka asks for."""
    types = (
        CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
        CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
        CONSUMER_GROUP_MEMBER_METADATA,
    )
    return its.append(*(_tombstone(record_type, its.group_id, who) for record_type in types))


def new_group_deleted(its: Group) -> int:
    """An empty group goes."""
    name = its.group_id
    return its.append(
        Record(
            CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA, target_epoch.ConsumerGroupTargetAssignmentMetadataKey(name), None
        ),
        Record(CONSUMER_GROUP_METADATA, group.ConsumerGroupMetadataKey(name), None),
    )


def _member(
    who: str, topics: Sequence[str], instances: Mapping[str, str], regex: str
) -> member.ConsumerGroupMemberMetadataValue:
    return member.ConsumerGroupMemberMetadataValue(
        instances.get(who), None, f"client-of-{who}", "/127.0.0.1", () if regex else topics, regex, 300_000, "uniform"
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
