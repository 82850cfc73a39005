"""Transactional batches that a coordinator writes into its own log: the partition knows them like those of Produce.

So the last stable offset and DescribeProducers are right for `__consumer_offsets`, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.broker.topics.producer_state import PRODUCERS, Producer, Producers
from kohort.broker.topics.txn_markers import marker_appended
from kohort.protocol.record_batch import parse_header, parse_marker, read_records
from kohort.protocol.txn_marker import TxnMarker

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.topics.catalog import Partition
    from kohort.coordinator.pending_offsets import PendingOffsets


def remember(broker: Broker, partition: Partition, batch: bytes) -> None:
    """The batch, which is of a transaction, has entered the log."""
    producers: Producers | None = partition.extra.get(PRODUCERS)
    if producers is None:
        producers = partition.extra[PRODUCERS] = Producers()
    header = parse_header(batch)
    if not header.is_control:
        producers.appended(header, header.base_offset, header.max_timestamp)
        return
    (record,) = read_records(batch)
    marker = parse_marker(record.key, record.value)
    assert marker is not None
    written = TxnMarker(header.producer_id, header.producer_epoch, marker.commit, marker.coordinator_epoch, 0)
    marker_appended(broker, partition, written, header.base_offset, header.max_timestamp)


def restore(partition: Partition, pending: PendingOffsets) -> None:
    """A coordinator has read the log of this partition, and knows its producers: nobody else has to read it."""
    producers = Producers()
    for producer_id, each in pending.producers.items():
        producer = Producer(each.epoch)
        producer.timestamp, producer.coordinator_epoch = each.heard_at, each.coordinator_epoch
        producers.restore(producer_id, producer, each.first_offset)
    producers.sort_transactions()
    partition.extra[PRODUCERS] = producers
