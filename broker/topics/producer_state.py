"""What a partition remembers of its idempotent producers: their last batches, to recognise repetitions (KIP-98).

A producer numbers its records per partition. A batch must go on where the last one ended (OUT_OF_ORDER_SEQUENCE_NUMBER
otherwise); one that is among the last five of its producer is a retry, and is answered with the offset it got the
first time. A higher epoch starts again at 0, a lower one is fenced. A producer that nobody remembers may start
anywhere: its records may have been deleted.

The memory survives a restart in Kafka's snapshot files, one per segment that was begun and one at a clean stop. When a
partition first needs it, the newest snapshot is read and the headers of the batches behind it are replayed:

    <offset>.snapshot    version int16 (1) | crc int32, CRC-32C of the rest | count int32 | per producer:
        id int64 | epoch int16 | last sequence int32 | last offset int64 | offset delta of the last batch int32
        | timestamp int64 | coordinator epoch int32 (-1) | first offset of its open transaction int64 (-1)
"""

from __future__ import annotations

import logging
from contextlib import suppress
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from kohort.broker.topics.append_checks import Refusal
from kohort.protocol.crc32c import crc32c
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.record_batch import CONTROL, NO_PRODUCER_EPOCH, BatchHeader
from kohort.storage.batch_walk import walk_headers
from kohort.storage.layout import SNAPSHOT, parse_segment_file, segment_file

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.steps import Steps
    from kohort.broker.topics.catalog import Partition
    from kohort.storage.partition_log import PartitionLog

logger = logging.getLogger(__name__)

PRODUCERS: Final = "producers"  # in Partition.extra
REMEMBERED_BATCHES: Final = 5
MAX_PRODUCERS: Final = 100_000  # of a partition; ids cost nothing, and somebody may use a new one for each batch
MAX_SEQUENCE: Final = 2**31 - 1
SNAPSHOT_VERSION: Final = 1
BATCHES_PER_STEP: Final = 200

FENCED: Final = Refusal(ErrorCode.INVALID_PRODUCER_EPOCH, by_log=True)
OUT_OF_ORDER: Final = Refusal(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, by_log=True)

_HEAD: Final = Struct(">hI")
_COUNT: Final = Struct(">i")
_ENTRY: Final = Struct(">qhiqiqiq")


class PastBatch(NamedTuple):
    """A batch of a producer that is in the log."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class Producer:
    __slots__ = ("batches", "epoch")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: list[PastBatch] = []  # never empty; a deque would take ten times the memory


class Producers:
    """The producers of one partition, by id."""

    __slots__ = ("by_id",)

    def __init__(self) -> None:
        self.by_id: dict[int, Producer] = {}

    def check(self, header: BatchHeader) -> PastBatch | Refusal | None:
        """None if the batch may be appended; else the earlier batch that it repeats, or the reason to refuse it."""
        producer = self.by_id.get(header[9])
        if producer is None:
            return None
        epoch, first = header[10], header[11]
        if epoch != producer.epoch:
            if epoch < producer.epoch:
                return FENCED
            return OUT_OF_ORDER if first != 0 and producer.epoch != NO_PRODUCER_EPOCH else None
        newest = producer.batches[-1][1]
        if first == newest + 1:
            return None
        last = sequence_after(first, header[6])
        for batch in producer.batches:
            if batch[0] == first and batch[1] == last:
                return batch
        return None if first == 0 and newest == MAX_SEQUENCE else OUT_OF_ORDER

    def appended(self, header: BatchHeader, first_offset: int, timestamp: int) -> None:
        """A batch entered the log at `first_offset`."""
        if header[9] < 0 or header[5] & CONTROL:
            return
        delta = header[6]
        last = sequence_after(header[11], delta)
        self._remember(
            header[9], header[10], PastBatch(header[11], last, first_offset, first_offset + delta, timestamp)
        )

    def _remember(self, producer_id: int, epoch: int, batch: PastBatch) -> None:
        producer = self.by_id.pop(producer_id, None)
        if producer is None or producer.epoch != epoch:
            producer = Producer(epoch)
            if len(self.by_id) >= MAX_PRODUCERS:
                del self.by_id[next(iter(self.by_id))]
        self.by_id[producer_id] = producer  # the last one: the first one has been silent for the longest time
        batches = producer.batches
        if len(batches) == REMEMBERED_BATCHES:
            del batches[0]
        batches.append(batch)

    def expire(self, timestamp: int) -> None:
        """Forget producers whose last batch is not younger than `timestamp`."""
        for producer_id in [key for key, each in self.by_id.items() if each.batches[-1].timestamp <= timestamp]:
            del self.by_id[producer_id]

    def last_offsets(self) -> dict[int, int]:
        """The last offset of each producer's last batch. Compaction keeps that batch."""
        return {producer_id: each.batches[-1].last_offset for producer_id, each in self.by_id.items()}

    # --- the snapshot

    def to_bytes(self) -> bytes:
        entries = [_COUNT.pack(len(self.by_id))]
        for producer_id, each in self.by_id.items():
            _, last, first_offset, last_offset, timestamp = each.batches[-1]
            delta = last_offset - first_offset
            entries.append(_ENTRY.pack(producer_id, each.epoch, last, last_offset, delta, timestamp, -1, -1))
        body = b"".join(entries)
        return _HEAD.pack(SNAPSHOT_VERSION, crc32c(body)) + body

    @classmethod
    def from_bytes(cls, data: bytes) -> Producers:
        """ValueError if this is no snapshot."""
        start = _HEAD.size + _COUNT.size
        if len(data) < start:
            raise ValueError(f"{len(data)} bytes are too short")
        version, crc = _HEAD.unpack_from(data)
        (count,) = _COUNT.unpack_from(data, _HEAD.size)
        if version != SNAPSHOT_VERSION or crc != crc32c(data[_HEAD.size :]):
            raise ValueError(f"version {version}, or a wrong checksum")
        if len(data) != start + count * _ENTRY.size:
            raise ValueError(f"{count} producers in {len(data)} bytes")
        made = cls()
        for producer_id, epoch, last, last_offset, delta, timestamp, _, _ in _ENTRY.iter_unpack(data[start:]):
            if last_offset >= 0:
                first = (last - delta) % (MAX_SEQUENCE + 1)
                made._remember(producer_id, epoch, PastBatch(first, last, last_offset - delta, last_offset, timestamp))
        return made


def sequence_after(sequence: int, delta: int) -> int:
    """The sequence number that comes `delta` after `sequence`. After the greatest one they start again at 0."""
    return (sequence + delta) & MAX_SEQUENCE


# --- the memory of a partition --------------------------------------------------------------------


def recover_producers(broker: Broker, partition: Partition, now: int) -> Steps[None]:
    """Read from disk what the partition remembers of its producers, in steps. Called when it is first needed."""
    log = partition.log
    oldest = now - broker.config.producer_id_expiration_ms
    producers, offset = _newest_snapshot(log)
    producers.expire(oldest)
    while offset < log.log_end_offset and PRODUCERS not in partition.extra:  # the log may grow between two steps
        offset = yield from _replay(log, producers, offset, oldest)
    producers.expire(oldest)
    partition.extra.setdefault(PRODUCERS, producers)  # unless another request was quicker


def _replay(log: PartitionLog, producers: Producers, offset: int, oldest: int) -> Steps[int]:
    """Replay the batches from `offset` to the present end of the log, and return that end."""
    end = log.log_end_offset
    for segment in list(log.segments):
        if segment.next_offset > offset and segment.max_timestamp > oldest:
            file = log.disk.open(segment.log_path)
            try:
                start = segment.find(offset) or 0
                for number, (_, header) in enumerate(walk_headers(file, start, segment.size_bytes)):
                    if header.base_offset >= end:
                        break
                    producers.appended(header, header.base_offset, header.max_timestamp)
                    if number % BATCHES_PER_STEP == 0:
                        yield
            finally:
                file.close()
    return end


def _newest_snapshot(log: PartitionLog) -> tuple[Producers, int]:
    """(producers, offset up to which the snapshot knows them)."""
    for offset in sorted(_snapshots(log), reverse=True):
        path = f"{log.folder}/{segment_file(offset, SNAPSHOT)}"
        try:
            if offset <= log.log_end_offset:
                return Producers.from_bytes(log.disk.read_file(path)), offset
        except (ValueError, OSError) as problem:
            logger.warning("%s: %s; an older snapshot is used", path, problem)
    return Producers(), log.log_start_offset


def _snapshots(log: PartitionLog) -> list[int]:
    if not log.exists:
        return []
    names = (parse_segment_file(info.name) for info in log.disk.scan_folder(log.folder))
    return [name[0] for name in names if name is not None and name[1:] == (SNAPSHOT, "")]


def save_snapshot(log: PartitionLog, producers: Producers, offset: int) -> None:
    """Save what is known of the producers below `offset`, when a segment is rolled or at a clean stop.

    A snapshot only saves time at the next start: without it, an older one and the log give the same. So a failure is
    only logged.
    """
    try:
        log.disk.write_file(f"{log.folder}/{segment_file(offset, SNAPSHOT)}", producers.to_bytes(), durable=False)
        bases = {segment.base_offset for segment in log.segments}
        for old in _snapshots(log):
            if old not in bases and old != offset:
                with suppress(FileNotFoundError):
                    log.disk.unlink(f"{log.folder}/{segment_file(old, SNAPSHOT)}")
    except OSError as problem:
        logger.warning("%s: no snapshot of its producers: %s", log.folder, problem)


def save_all_snapshots(broker: Broker) -> None:
    """Save a snapshot of every partition at a clean stop, so that the next start need not read the logs."""
    for topic in broker.catalog:
        for partition in topic.partitions:
            producers: Producers | None = partition.extra.get(PRODUCERS)
            if producers is not None and producers.by_id and partition.log.failed is None:
                save_snapshot(partition.log, producers, partition.log.log_end_offset)
