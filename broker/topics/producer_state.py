"""What a partition remembers of its idempotent producers: their last batches, by which it knows duplicates (KIP-98).

A producer numbers its records per partition. A batch must go on where the last one ended (OUT_OF_ORDER_SEQUENCE_NUMBER
otherwise); one that is among the last five of its producer is a retry, and is answered with the offset it got the
first time. A higher epoch starts again at 0, a lower one is fenced. A producer that nobody remembers may start
anywhere: its records may have been deleted.

The memory is rebuilt from the log when it is first needed after a start: from the newest snapshot, then from the
headers of the batches behind it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.topics.append_checks import Refusal
from protocol.error_codes import ErrorCode
from protocol.record_batch import NO_PRODUCER_ID, BatchHeader

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.topics.catalog import Partition

REMEMBERED_BATCHES: Final = 5
MAX_SEQUENCE: Final = 2**31 - 1


class PastBatch(NamedTuple):
    """A batch of a producer that is in the log."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class Producer:
    __slots__ = ("batches", "epoch", "last_timestamp")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: deque[PastBatch] = deque(maxlen=REMEMBERED_BATCHES)
        self.last_timestamp = -1


class Producers:
    """The producers of one partition, by id."""

    __slots__ = ("by_id",)

    def __init__(self) -> None:
        self.by_id: dict[int, Producer] = {}

    def check(self, header: BatchHeader, partition: Partition) -> PastBatch | Refusal | None:
        """None if the batch may be appended; the batch it repeats; or why it is out of order."""
        producer = self.by_id.get(header[9])
        if producer is None:
            return None
        epoch, first = header[10], header[11]
        if epoch == producer.epoch and producer.batches:
            newest = producer.batches[-1]
            if first == newest[1] + 1:
                return None
            last = next_sequence(first, header[6])
            for batch in producer.batches:
                if batch[0] == first and batch[1] == last:
                    return batch
            if first == 0 and newest[1] == MAX_SEQUENCE:
                return None
            return Refusal(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {header[9]} at offset {partition.log.log_end_offset} in "
                f"partition {partition}: {first} (incoming seq. number), {newest[1]} (current end sequence number)",
            )
        if epoch < producer.epoch:
            return Refusal(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch of producer {header[9]} at offset {partition.log.log_end_offset} in {partition} is {epoch}, "
                f"which is smaller than the last seen epoch {producer.epoch}",
            )
        if epoch > producer.epoch and first != 0:
            return Refusal(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Invalid sequence number for new epoch of producer {header[9]} at offset "
                f"{partition.log.log_end_offset} in partition {partition}: {epoch} (request epoch), {first} "
                f"(seq. number), {producer.epoch} (current producer epoch)",
            )
        return None

    def appended(self, header: BatchHeader, first_offset: int, timestamp: int) -> None:
        """A batch entered the log at `first_offset`."""
        if header[9] == NO_PRODUCER_ID:
            return
        producer = self.by_id.get(header[9])
        if producer is None or producer.epoch != header[10]:
            producer = self.by_id[header[9]] = Producer(header[10])
        delta = header[6]
        producer.batches.append(
            PastBatch(header[11], next_sequence(header[11], delta), first_offset, first_offset + delta, timestamp)
        )
        producer.last_timestamp = timestamp


def next_sequence(sequence: int, delta: int) -> int:
    """`delta` after `sequence`; behind the greatest comes 0."""
    return sequence + delta if sequence <= MAX_SEQUENCE - delta else delta - (MAX_SEQUENCE - sequence) - 1


def producers_of(broker: Broker, partition: Partition, now: int) -> Producers:  # noqa: ARG001
    found: Producers | None = partition.extra.get("producers")
    if found is None:
        found = partition.extra["producers"] = Producers()
        for header, _, _ in partition.log.batches():
            found.appended(header, header.base_offset, header.max_timestamp)
    return found
