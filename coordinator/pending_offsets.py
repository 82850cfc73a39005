"""Offsets that were committed in transactions which are still open, and the producers that have committed them.

A producer's offsets are pending from its commit to the marker that ends its transaction. The index by group answers
quickly whether an offset is pending: a group of Kafka Streams has as many producers as threads.

The producers are remembered for a while after their marker, as Kafka remembers them in each partition of a log: their
epochs tell old producers and old coordinators from new ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.txn_marker import TxnMarker

if TYPE_CHECKING:
    from kohort.coordinator.offset_store import ByPartition, CommittedOffset

NONE_OPEN = -1
NO_MARKER = -1
MAX_PRODUCERS = 100_000  # of a shard; ids cost nothing, and somebody may use a new one for each transaction
FIRST_TRANSACTION_VERSION_WITH_BUMP = 2  # from then on a marker has a higher epoch than the offsets before it

Pending: TypeAlias = "dict[str, dict[str, ByPartition]]"  # by group and topic; no dict in it is empty


class TxnProducer:
    """What a shard knows of a producer."""

    __slots__ = ("coordinator_epoch", "epoch", "first_offset", "heard_at", "marker_offset", "pending")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.coordinator_epoch = NO_MARKER  # of its last marker
        self.marker_offset = NO_MARKER  # where in the log its last marker is
        self.first_offset = NONE_OPEN  # of its open transaction, in the log
        self.heard_at = 0  # wall time
        self.pending: Pending = {}

    @property
    def is_open(self) -> bool:
        """There are transactional records behind its last marker, although tombstones may have taken the offsets."""
        return self.first_offset != NONE_OPEN


class PendingOffsets:
    __slots__ = ("_counts", "open", "producers")

    def __init__(self) -> None:
        self.producers: dict[int, TxnProducer] = {}  # by id; who was silent for the longest time comes first
        self.open: dict[int, TxnProducer] = {}  # those of them that have pending offsets
        # By group, topic and partition: in how many open transactions the offset is.
        self._counts: dict[str, dict[str, dict[int, int]]] = {}

    # --- reading

    def __bool__(self) -> bool:
        return bool(self.open)

    def has(self, group_id: str, topic: str, partition: int) -> bool:
        topics = self._counts.get(group_id)
        return topics is not None and partition in topics.get(topic, ())

    def has_any(self, group_id: str) -> bool:
        return group_id in self._counts

    def topics(self, group_id: str) -> Mapping[str, Iterable[int]]:
        """The topics and partitions with pending offsets of the group."""
        return self._counts.get(group_id, {})

    def group_ids(self) -> list[str]:
        return list(self._counts)

    def topic_ids(self, group_id: str, topic: str, partition: int) -> set[bytes]:
        """Of the topics that the pending offsets of this place were committed for."""
        every = (each.pending.get(group_id, {}).get(topic, {}).get(partition) for each in self.open.values())
        return {offset.topic_id for offset in every if offset is not None}

    def is_open(self, producer_id: int, epoch: int) -> bool:
        """Whether this producer has written transactional offsets since its last marker, in this epoch."""
        producer = self.producers.get(producer_id)
        return producer is not None and producer.is_open and producer.epoch == epoch

    def last_marker(self, producer_id: int) -> int:
        """Where in the log the producer's last marker is."""
        producer = self.producers.get(producer_id)
        return NO_MARKER if producer is None else producer.marker_offset

    def check_epoch(self, producer_id: int, epoch: int) -> ErrorCode | None:
        """Whether this producer may commit offsets."""
        producer = self.producers.get(producer_id)
        is_fenced = producer is not None and epoch < producer.epoch
        return ErrorCode.INVALID_PRODUCER_EPOCH if is_fenced else None

    def check_marker(self, marker: TxnMarker) -> ErrorCode | None:
        """Whether this marker may be written."""
        producer = self.producers.get(marker.producer_id)
        if producer is None:
            return None
        bumps = marker.transaction_version >= FIRST_TRANSACTION_VERSION_WITH_BUMP
        lowest = producer.epoch + 1 if bumps and producer.is_open else producer.epoch
        if marker.producer_epoch < lowest:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        is_old = marker.coordinator_epoch < producer.coordinator_epoch
        return ErrorCode.TRANSACTION_COORDINATOR_FENCED if is_old else None

    # --- replaying

    def begin(self, producer_id: int, epoch: int, log_offset: int, now: int) -> None:
        """A transactional record of this producer stands at `log_offset`."""
        producer = self._heard(producer_id, epoch, now)
        if not producer.is_open:
            producer.first_offset = log_offset

    def add(self, producer_id: int, group_id: str, topic: str, partition: int, offset: CommittedOffset) -> None:
        """An offset of the producer's transaction, which has begun."""
        producer = self.producers[producer_id]
        self.open[producer_id] = producer
        partitions = producer.pending.setdefault(group_id, {}).setdefault(topic, {})
        if partition not in partitions:
            counts = self._counts.setdefault(group_id, {}).setdefault(topic, {})
            counts[partition] = counts.get(partition, 0) + 1
        partitions[partition] = offset

    def end(self, marker: TxnMarker, log_offset: int, now: int) -> Pending:
        """The producer's transaction has ended. Returns what was pending."""
        producer = self._heard(marker.producer_id, marker.producer_epoch, now)
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.marker_offset = log_offset
        producer.first_offset = NONE_OPEN
        pending, producer.pending = producer.pending, {}
        self.open.pop(marker.producer_id, None)
        for group_id, topics in pending.items():
            for topic, partitions in topics.items():
                self._discount(group_id, topic, partitions)
        return pending

    def forget(self, group_id: str, topic: str, indexes: Iterable[int]) -> None:
        """Tombstones drop the pending offsets of all producers."""
        if topic not in self._counts.get(group_id, ()):
            return
        for producer_id, producer in list(self.open.items()):
            topics = producer.pending.get(group_id, {})
            partitions = topics.get(topic)
            if partitions is None:
                continue
            gone = [index for index in indexes if partitions.pop(index, None) is not None]
            self._discount(group_id, topic, gone)
            if not partitions:
                del topics[topic]
            if not topics:
                del producer.pending[group_id]
            if not producer.pending:
                del self.open[producer_id]

    def expire(self, until: int) -> None:
        """Forget producers that have been silent since `until`, unless their transaction is open."""
        gone = [key for key, each in self.producers.items() if each.heard_at <= until and not each.is_open]
        for producer_id in gone:
            del self.producers[producer_id]

    def _heard(self, producer_id: int, epoch: int, now: int) -> TxnProducer:
        producer = self.producers.pop(producer_id, None)
        if producer is None:
            producer = TxnProducer(epoch)
            if len(self.producers) >= MAX_PRODUCERS:
                self._make_room()
        producer.epoch = epoch
        producer.heard_at = now
        self.producers[producer_id] = producer
        return producer

    def _make_room(self) -> None:
        longest_silent = next((key for key, each in self.producers.items() if not each.is_open), None)
        if longest_silent is not None:
            del self.producers[longest_silent]

    def _discount(self, group_id: str, topic: str, partitions: Iterable[int]) -> None:
        topics = self._counts[group_id]
        counts = topics[topic]
        for partition in partitions:
            if counts[partition] == 1:
                del counts[partition]
            else:
                counts[partition] -= 1
        if not counts:
            del topics[topic]
        if not topics:
            del self._counts[group_id]
