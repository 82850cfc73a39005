"""Finds the conversions of a group from the classic to the consumer protocol, and back (KIP-848).

Kafka converts a group with members in one atomic batch, in which all records have the same time:

    to consumer   a tombstone of type 2; then members, epochs and assignments (5, 3, 7, 6, 8), all as they were
    to classic    tombstones of all of these (8, 7, 6, 5, 16, 4, 3); then a generation (2) with the members that stay

The tombstones of a conversion do not mean that anybody left or that the group was deleted. If they are taken out, the
records that follow them tell the whole story.
"""

from __future__ import annotations

from itertools import pairwise

from kohort.audit.derive.records import CLASSIC_GENERATION, GROUP_EPOCH, AnyRecord, GroupLog, GroupRecord


def without_conversions(log: GroupLog) -> GroupLog:
    """The records without the tombstones that belong to conversions."""
    if not any(record.tombstone for record in log):
        return log
    dropped: set[int] = set()
    for number, (record, following) in enumerate(pairwise(log)):
        if _to_consumer(record, following):
            dropped.add(number)
        elif to_classic(record, following):
            dropped.update(_tombstones_before(log, number))
    return [record for number, record in enumerate(log) if number not in dropped]


def to_classic(record: AnyRecord, following: AnyRecord) -> bool:
    """Whether `following` is the first generation of a group that `record` tells to be a consumer group no longer."""
    return (
        record.tombstone
        and record.record_type == GROUP_EPOCH
        and isinstance(following, GroupRecord)
        and len(following.members) > 0
        and following.time_ms == record.time_ms
    )


def _to_consumer(record: AnyRecord, following: AnyRecord) -> bool:
    return (
        record.tombstone
        and record.record_type == CLASSIC_GENERATION != following.record_type
        and not following.tombstone
        and following.time_ms == record.time_ms
    )


def _tombstones_before(log: GroupLog, number: int) -> range:
    """The tombstones of the same time in a row, up to this one."""
    first = number
    while first and log[first - 1].tombstone and log[first - 1].time_ms == log[number].time_ms:
        first -= 1
    return range(first, number + 1)
