"""How many partitions the topic of a coordinator had when its log was written, if only its folders can tell.

The number decides in which partition a group's offsets are: with another number, groups would not find theirs. It is
the same with the states of share groups and with transactional ids. Kafka makes all folders at once, so the folders can
be counted. Kohort makes a folder with its first record, so after the loss of the file of topics some may be missing.
What is in the log tells whether a number is right.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from kohort.coordinator.partitioner import partition_of
from kohort.coordinator.share_state.keys import SharePartitionKey, coordinator_key
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.log_records import CONSUMER_OFFSETS, UnknownRecord, group_of
from kohort.protocol.record_batch import scan_records
from kohort.protocol.share_state_records import SHARE_GROUP_STATE
from kohort.protocol.transaction_records import TRANSACTION_STATE
from kohort.storage.errors import FileDamaged, StorageError

if TYPE_CHECKING:
    from kohort.storage.log_directory import LogDirectory
    from kohort.storage.partition_log import PartitionLog

logger = logging.getLogger(__name__)

RECORDS_PER_PARTITION = 100  # so many are looked at


COUNTED = {
    CONSUMER_OFFSETS.topic: (CONSUMER_OFFSETS, "offsets.topic.num.partitions"),
    SHARE_GROUP_STATE.topic: (SHARE_GROUP_STATE, "share.coordinator.state.topic.num.partitions"),
    TRANSACTION_STATE.topic: (TRANSACTION_STATE, "transaction.state.log.num.partitions"),
}


def count_partitions(logs: LogDirectory, topic: str, indexes: set[int], configured: int) -> int:
    """The number of partitions. FileDamaged if it cannot be known.

    Args:
        topic: one of COUNTED.
        indexes: of the partitions that have folders.
        configured: what the setting says.
    """
    setting = COUNTED[topic][1]
    least = max(indexes) + 1
    if len(indexes) == least == configured:
        return least
    keys = [(index, key) for index in sorted(indexes) for key in _keys(topic, logs.logs.get((topic, index)))]

    def in_place(count: int) -> int:
        return sum(partition_of(key, count) == index for index, key in keys)

    candidates = [least] if len(indexes) == least else []
    if configured >= least:
        candidates.append(configured)
    best = max(candidates, key=in_place, default=None)
    # With a wrong number only few keys are in their place. A client may have put a single one into a wrong partition.
    if best is None or 2 * in_place(best) < len(keys):
        raise FileDamaged(
            f"{logs.path} has {len(indexes)} folders of {topic}, the last of them {least - 1}, and these do "
            f"not fit to {configured} partitions: groups would not find their offsets. Copy the missing folders, or "
            f"set {setting} to the number of partitions that the log was written with"
        )
    if best != configured:
        logger.warning("%s has %d partitions, not %s=%d", topic, best, setting, configured)
    return best


def _keys(topic: str, log: PartitionLog | None) -> Iterator[str]:
    """What decided about the partition of records at the beginning of the log. None of a damaged one: that is reported
    when it is loaded.
    """
    types = COUNTED[topic][0]
    try:
        for chunk, size in islice(log.chunks() if log is not None else (), 1):
            records = islice(scan_records(chunk, 0, size, with_headers=False), RECORDS_PER_PARTITION)
            for batch, _, _, raw_key, _, _ in records:
                if raw_key is not None and not batch.is_control:
                    kind, key = types.decode_key(raw_key)
                    if isinstance(key, UnknownRecord):
                        continue
                    if types is CONSUMER_OFFSETS:
                        yield group_of(kind, key)
                    elif types is TRANSACTION_STATE:
                        yield key.transactional_id
                    else:
                        yield coordinator_key(SharePartitionKey(key.group_id, key.topic_id, key.partition))
    except (MalformedMessage, StorageError, OSError):
        return
