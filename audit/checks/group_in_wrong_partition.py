"""Groups whose records are in a log partition where no coordinator will look for them."""

from __future__ import annotations

from collections.abc import Iterator

from kohort.audit.checks.kit.check import ERROR, Check, Limits, Row, finding
from kohort.audit.checks.kit.part import Part
from kohort.audit.checks.kit.words import count
from kohort.audit.tables import keeps_groups
from kohort.coordinator.partitioner import partition_of

CHECK = Check(
    "group_in_wrong_partition",
    ERROR,
    "Groups in another log partition than the hash of their id says.",
    "Their coordinator will never find them there: see whether the number of partitions of __consumer_offsets was"
    " changed, or a folder was renamed.",
    {"partitions": 0},  # number of log partitions; 0: ask the broker, or guess from the groups
)


def find(part: Part, limits: Limits) -> Iterator[Row]:
    """One finding for all groups: if we have the wrong number of log partitions, all groups seem to be misplaced."""
    if not keeps_groups(part.log_partition):  # the states of a share group are in many of them
        return
    partitions = int(limits["partitions"]) or part.world.log_partition_count
    lost = [
        (offset, group_id)
        for group_id, offset in part.first_offsets.items()
        if partition_of(group_id, partitions) != part.log_partition
    ]
    if lost:
        offset, group_id = min(lost)
        yield finding(
            CHECK,
            f"{count(len(lost), 'group')} of {len(part.first_offsets):,} that should be elsewhere: {group_id} belongs"
            f" in log partition {partition_of(group_id, partitions)} of {partitions}",
            group_id=group_id,
            log_offset=offset,
            value=float(len(lost)),
        )
