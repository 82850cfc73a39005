"""Transactional batches that a coordinator writes into its own log: the partition knows them like those of Produce.

So the last stable offset and DescribeProducers are right for `__consumer_offsets`, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.broker.topics.delayed_fetch import changed
from kohort.broker.topics.producer_state import PRODUCERS, Producers
from kohort.protocol.record_batch import parse_header, parse_marker, read_records

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.topics.catalog import Partition


def remember(broker: Broker, partition: Partition, batch: bytes) -> None:
    """The batch, which is of a transaction, has entered the log."""
    producers: Producers | None = partition.extra.get(PRODUCERS)
    if producers is None:
        if broker.had_transactions:
            return  # when somebody needs to know the producers, they are read from the log, this batch included
        producers = partition.extra[PRODUCERS] = Producers()
    header = parse_header(batch)
    if not header.is_control:
        producers.appended(header, header.base_offset, header.max_timestamp)
        return
    (record,) = read_records(batch)
    marker = parse_marker(record.key, record.value)
    assert marker is not None
    begun = producers.ended(
        header.producer_id, header.producer_epoch, marker.coordinator_epoch, header.max_timestamp
    )  # fmt: skip
    if begun is not None:
        changed(broker, partition)  # what was not stable may be so now
