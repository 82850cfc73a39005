"""How many partitions __consumer_offsets had when its log was written, if only its folders can tell.

The number decides in which partition a group's offsets are: with another number, groups would not find theirs. Kafka
makes all folders at once, so the folders can be counted. Kohort makes a folder with its first record, so after the loss
of the file of topics some may be missing. The groups in the log tell whether a number is right.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from kohort.broker.topics.catalog import CONSUMER_OFFSETS
from kohort.coordinator.partitioner import partition_of
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.log_records import UnknownRecord, decode_key, group_of
from kohort.protocol.record_batch import scan_records
from kohort.storage.errors import FileDamaged, StorageError

if TYPE_CHECKING:
    from kohort.storage.log_directory import LogDirectory
    from kohort.storage.partition_log import PartitionLog

logger = logging.getLogger(__name__)

RECORDS_PER_PARTITION = 100  # so many are looked at


def count_offsets_partitions(logs: LogDirectory, indexes: set[int], configured: int) -> int:
    """The number of partitions. FileDamaged if it cannot be known.

    Args:
        indexes: of the partitions that have folders.
        configured: offsets.topic.num.partitions.
    """
    least = max(indexes) + 1
    if len(indexes) == least == configured:
        return least
    groups = [
        (index, group) for index in sorted(indexes) for group in _groups(logs.logs.get((CONSUMER_OFFSETS, index)))
    ]

    def in_place(count: int) -> int:
        return sum(partition_of(group, count) == index for index, group in groups)

    candidates = [least] if len(indexes) == least else []
    if configured >= least:
        candidates.append(configured)
    best = max(candidates, key=in_place, default=None)
    # With a wrong number only few groups are in their place. A client may have put a single one into a wrong partition.
    if best is None or 2 * in_place(best) < len(groups):
        raise FileDamaged(
            f"{logs.path} has {len(indexes)} folders of {CONSUMER_OFFSETS}, the last of them {least - 1}, and these do "
            f"not fit to {configured} partitions: groups would not find their offsets. Copy the missing folders, or "
            "set offsets.topic.num.partitions to the number of partitions that the log was written with"
        )
    if best != configured:
        logger.warning("%s has %d partitions, not offsets.topic.num.partitions=%d", CONSUMER_OFFSETS, best, configured)
    return best


def _groups(log: PartitionLog | None) -> Iterator[str]:
    """Groups at the beginning of the log. None of a damaged one: that is reported when it is loaded."""
    try:
        for chunk, size in islice(log.chunks() if log is not None else (), 1):
            records = islice(scan_records(chunk, 0, size, with_headers=False), RECORDS_PER_PARTITION)
            for batch, _, _, key, _, _ in records:
                if key is not None and not batch.is_control:
                    kind, decoded = decode_key(key)
                    if not isinstance(decoded, UnknownRecord):
                        yield group_of(kind, decoded)
    except (MalformedMessage, StorageError, OSError):
        return
