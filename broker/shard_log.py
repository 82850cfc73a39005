"""Where a coordinator keeps its records: the seam between the coordinator and a log, and the log on this disk.

The coordinator's host knows `ShardLog` alone. Partitions of an internal topic are the unit, for instance of
`__consumer_offsets`: whoever owns a partition may append to it, and coordinates the groups in it.

    epoch, end_offset, size_bytes = log.own(partition)    take the partition over
    for _ in log.read(partition, take): ...               replay it: take(chunk, size), giving way after each step
    log.append(writes, now, done)                         done(writes, None) when they are durable, or why they are not
    log.release(partition)                                stop owning it: appends that come late fail
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from kohort.broker.topics.catalog import Partition
from kohort.broker.topics.delayed_fetch import appended
from kohort.protocol.record_batch import ATTRIBUTES_AT, CONTROL, TRANSACTIONAL, unpack_offset_and_length
from kohort.storage.errors import LogFailed, OutOfSpace, StorageError

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.clock import Clock
    from kohort.storage.partition_log import PartitionLog


class Write(Protocol):
    """Batches for the end of one partition's log. They carry their offsets."""

    @property
    def partition(self) -> int: ...

    @property
    def epoch(self) -> int:
        """Of our ownership, see Owned."""
        ...

    batches: list[bytes]


W = TypeVar("W", bound=Write)
Done = Callable[[Sequence[W], Exception | None], None]

logger = logging.getLogger(__name__)

LOW_ATTRIBUTES_AT = ATTRIBUTES_AT + 1
OF_TRANSACTION = TRANSACTIONAL | CONTROL


class Owned(NamedTuple):
    """A partition that was taken over."""

    epoch: int  # an append must name it: one that began under an earlier owner or an earlier epoch is refused
    end_offset: int
    size_bytes: int


class NotOwned(Exception):
    """The partition was released, or taken over again, since the append's epoch."""


class NotUsableNow(Exception):
    """The log was usable before, and may be so again."""


class ShardLog(Protocol):
    @property
    def topic(self) -> str: ...

    @property
    def partition_count(self) -> int: ...

    @property
    def max_batch_bytes(self) -> int:
        """A larger batch is not taken."""
        ...

    def owner(self, partition: int) -> int | None:
        """The node that coordinates what is in this partition; None: nobody does at the moment."""
        ...

    def own(self, partition: int) -> Owned:
        """Raises NotUsableNow or OSError for what may pass, StorageError if the log is damaged."""
        ...

    def read(self, partition: int, take: Callable[[bytes, int], Iterator[None]]) -> Iterator[None]:
        """Hand every batch of the log to `take`, in chunks of whole batches; each `next` is one step of `take`."""
        ...

    def append(self, writes: Sequence[W], now: int, done: Done[W]) -> None:
        """The writes of one turn of the event loop, each for another partition.

        `done` is called for all of them, some at a time, maybe before this returns.
        """
        ...

    def release(self, partition: int) -> None: ...


class LocalShardLog:
    """An internal topic in this broker's own data folder.

    With `sync_before_reply` an append is done when the disk has it, many appends sharing one sync; otherwise when the
    page cache has it, as with Kafka. A partition that is owned again after `release` is opened anew from the disk.
    """

    def __init__(self, broker: Broker, clock: Clock, topic: str, *, sync_before_reply: bool) -> None:
        self.topic = topic
        self._broker = broker
        self._clock = clock
        self._sync_before_reply = sync_before_reply
        self._last_epoch = 0
        self._epochs: dict[int, int] = {}  # of the partitions that are owned
        self._to_reopen: set[int] = set()  # partitions that were released: memory may be ahead of the disk
        self._places: list[Partition] = []  # the topic's partitions; empty until an append has looked them up

    @property
    def partition_count(self) -> int:
        return self._broker.catalog.internal_partition_count(self.topic)

    @property
    def max_batch_bytes(self) -> int:
        topic = self._broker.catalog.get(self.topic)
        return topic.config.log.max_message_bytes if topic is not None else self._broker.config.message_max_bytes

    def owner(self, partition: int) -> int | None:  # noqa: ARG002 - the only node owns every partition
        return self._broker.config.node_id

    def own(self, partition: int) -> Owned:
        log = self._open(partition)
        self._to_reopen.discard(partition)
        self._last_epoch += 1
        self._epochs[partition] = self._last_epoch
        return Owned(self._last_epoch, log.log_end_offset, log.size_bytes) if log else Owned(self._last_epoch, 0, 0)

    def _open(self, partition: int) -> PartitionLog | None:
        topic = self._broker.catalog.get(self.topic)
        if topic is None:
            return None  # the first append creates the topic
        if partition in self._to_reopen:
            try:
                log = self._broker.logs.reopen(self.topic, partition, self._clock.now_ms())
            except (StorageError, OSError) as problem:
                raise NotUsableNow(str(problem)) from problem
            from kohort.broker.topics.producer_snapshots import forget_producers  # not at the start of the broker

            forget_producers(self._broker, topic.partitions[partition])
            return log
        return topic.partitions[partition].log

    def read(self, partition: int, take: Callable[[bytes, int], Iterator[None]]) -> Iterator[None]:
        topic = self._broker.catalog.get(self.topic)
        if topic is not None:
            for chunk, size in topic.partitions[partition].log.chunks():
                yield from take(chunk, size)
                yield

    def append(self, writes: Sequence[W], now: int, done: Done[W]) -> None:
        appended_to: list[PartitionLog] = []
        appended_writes: list[W] = []
        for write in writes:
            try:
                appended_to.append(self._append(write, now))
            except Exception as problem:  # the other writes go on, and the caller of this one must be told
                if not isinstance(problem, NotOwned | StorageError | OSError):
                    logger.exception("an append to %s-%d failed; this is a bug", self.topic, write.partition)
                done((write,), problem)
            else:
                appended_writes.append(write)
        if not appended_writes:
            return
        if self._sync_before_reply:
            self._broker.flusher.sync_all(appended_to, partial(_synced, appended_writes, appended_to, done))
        else:
            done(appended_writes, None)

    def _append(self, write: Write, now: int) -> PartitionLog:
        partition = write.partition
        if self._epochs.get(partition) != write.epoch:
            raise NotOwned(f"{self.topic}-{partition} is not ours in epoch {write.epoch}")
        place = (self._places or self._look_up_places())[partition]
        log = place.log
        try:
            for batch in write.batches:
                log.append_placed(batch, now)
                if batch[LOW_ATTRIBUTES_AT] & OF_TRANSACTION:
                    self._remember(place, batch)
                if place.extra:  # clients that fetch this topic, as Burrow does
                    appended(self._broker, place, len(batch))
        except OutOfSpace:  # the caller tries the write again, without the batches that were appended
            write.batches = [b for b in write.batches if unpack_offset_and_length(b, 0)[0] >= log.log_end_offset]
            raise
        return log

    def _remember(self, place: Partition, batch: bytes) -> None:
        from kohort.broker.topics.coordinator_batches import remember  # most brokers have no transactions

        remember(self._broker, place, batch)

    def _look_up_places(self) -> list[Partition]:
        self._places = self._broker.catalog.ensure_internal(self.topic).partitions
        return self._places

    def release(self, partition: int) -> None:
        self._epochs.pop(partition, None)
        self._to_reopen.add(partition)
        self._places = []  # the topic may have been deleted


def _synced(writes: Sequence[W], logs: Sequence[PartitionLog], done: Done[W]) -> None:
    """The sync of these logs has ended; those that could not be synced have failed."""
    durable = []
    for write, log in zip(writes, logs, strict=True):
        if log.failed is None:
            durable.append(write)
        else:
            done((write,), LogFailed(log.failed))
    if durable:
        done(durable, None)
