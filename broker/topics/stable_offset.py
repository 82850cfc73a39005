"""The last stable offset: readers with isolation.level=read_committed see what lies below it.

It is where the oldest open transaction begins; without one, the end of the log. Below it all is decided, though not
everything was committed: records of aborted transactions are filtered out by the reader.

After a start a partition does not know its open transactions yet, if there may be some (see `producer_snapshots.py`).
Then `is_known` is False, and a reader takes the steps of `finding_stable_offset` first. What is known stays known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.broker.topics.producer_snapshots import recover_producers
from kohort.broker.topics.producer_state import PRODUCERS

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.steps import Steps
    from kohort.broker.topics.catalog import Partition
    from kohort.broker.topics.producer_state import Producers


def last_stable_offset(broker: Broker, partition: Partition) -> int:
    """While it is not known, the start of the log: nothing is certain to be stable.

    LogFailed as for `Partition.log`.
    """
    log = partition.log
    producers: Producers | None = partition.extra.get(PRODUCERS)
    if producers is None:
        return log.log_end_offset if is_known(broker, partition) else log.log_start_offset
    if not producers.open:
        return log.log_end_offset
    first = next(iter(producers.open.values()))
    return max(first, log.log_start_offset)


def is_known(broker: Broker, partition: Partition) -> bool:
    """Whether the last stable offset can be told without looking into the log."""
    return not broker.had_transactions or PRODUCERS in partition.extra


def finding_stable_offset(broker: Broker, partition: Partition, now: int) -> Steps[int]:
    """Find it, in steps. StorageError, OSError, MalformedMessage: the log cannot be read."""
    if not is_known(broker, partition):
        yield from recover_producers(broker, partition, now)
    return last_stable_offset(broker, partition)
