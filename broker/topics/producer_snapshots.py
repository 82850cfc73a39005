"""How what a partition remembers of its producers survives a restart: Kafka's snapshot files, and a replay of headers.

There is a snapshot for each segment that was begun, and one of a clean stop. When a partition first needs to know its
producers, the newest snapshot is read, and the headers of the batches behind it are replayed; of markers the record,
too:

    <offset>.snapshot    version int16 (1) | crc int32, CRC-32C of the rest | count int32 | per producer:
        id int64 | epoch int16 | last sequence int32 | last offset int64 | offset delta of the last batch int32
        | timestamp int64 | coordinator epoch int32 (-1) | first offset of its open transaction int64 (-1)

This is done when it is first needed, and not at the start: most partitions have no producers with an id, and nobody
asks for their last stable offset. Whoever needs it first waits for the replay, which is as long as what was written
behind the newest snapshot. After a long one a snapshot is saved, so that the next start need not do that again. A
broker that had no transactions when it was started leaves out segments whose producers would be forgotten anyway.

A partition whose producers are not known has got no batch with a producer id since the broker was started: such a batch
makes them known before it is appended.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from struct import Struct
from typing import TYPE_CHECKING, Final

from kohort.broker.steps import all_steps
from kohort.broker.topics.catalog import TRANSACTION_STATE
from kohort.broker.topics.producer_state import MAX_SEQUENCE, PRODUCERS, PastBatch, Producer, Producers
from kohort.protocol.crc32c import crc32c
from kohort.protocol.record_batch import CONTROL, NO_SEQUENCE, NO_TIMESTAMP, BatchHeader, parse_marker, read_records
from kohort.storage.batch_walk import walk_headers
from kohort.storage.layout import SNAPSHOT, parse_segment_file, segment_file

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.steps import Steps
    from kohort.broker.topics.catalog import Partition
    from kohort.storage.disk import File
    from kohort.storage.partition_log import PartitionLog

logger = logging.getLogger(__name__)

RECOVERY: Final = "producer_recovery"  # in Partition.extra, while it goes on
SNAPSHOT_VERSION: Final = 1
BATCHES_PER_STEP: Final = 200
PRODUCERS_PER_STEP: Final = 500
LONG_REPLAY: Final = 10_000  # batches
MANY_PRODUCERS: Final = 10_000

_HEAD: Final = Struct(">hI")
_COUNT: Final = Struct(">i")
_ENTRY: Final = Struct(">qhiqiqiq")


def to_bytes(producers: Producers) -> bytes:
    return all_steps(packing(producers))


def packing(producers: Producers) -> Steps[bytes]:
    """The same in steps. The producers must not change meanwhile."""
    entries = [_COUNT.pack(len(producers.by_id))]
    is_open = producers.open
    for producer_id, each in producers.by_id.items():
        last, last_offset, delta = NO_SEQUENCE, -1, 0
        if each.batches:
            _, last, first_offset, last_offset, _ = each.batches[-1]
            delta = last_offset - first_offset
        begun = is_open.get(producer_id, -1)
        entries.append(
            _ENTRY.pack(
                producer_id, each.epoch, last, last_offset, delta, each.timestamp, each.coordinator_epoch, begun
            )
        )
        if len(entries) % PRODUCERS_PER_STEP == 0:
            yield
    body = b"".join(entries)
    return _HEAD.pack(SNAPSHOT_VERSION, crc32c(body)) + body


def from_bytes(data: bytes) -> Producers:
    """ValueError if this is no snapshot."""
    return all_steps(unpacking(data))


def unpacking(data: bytes) -> Steps[Producers]:
    """The same in steps."""
    start = _HEAD.size + _COUNT.size
    if len(data) < start:
        raise ValueError(f"{len(data)} bytes are too short")
    version, crc = _HEAD.unpack_from(data)
    (count,) = _COUNT.unpack_from(data, _HEAD.size)
    if version != SNAPSHOT_VERSION or crc != crc32c(data[_HEAD.size :]):
        raise ValueError(f"version {version}, or a wrong checksum")
    if len(data) != start + count * _ENTRY.size:
        raise ValueError(f"{count} producers in {len(data)} bytes")
    made = Producers()
    for number, entry in enumerate(_ENTRY.iter_unpack(data[start:]), 1):
        producer_id, epoch, last, last_offset, delta, timestamp, coordinator_epoch, begun = entry
        producer = Producer(epoch)
        producer.timestamp, producer.coordinator_epoch = timestamp, coordinator_epoch
        if last_offset >= 0:
            first = (last - delta) % (MAX_SEQUENCE + 1)
            producer.batches.append(PastBatch(first, last, last_offset - delta, last_offset, timestamp))
        made.restore(producer_id, producer, begun)
        if number % PRODUCERS_PER_STEP == 0:
            yield
    made.sort_transactions()
    return made


# --- reading --------------------------------------------------------------------------------------


def recover_producers(broker: Broker, partition: Partition, now: int) -> Steps[None]:
    """Read from disk what the partition remembers of its producers, in steps, unless that is known.

    Several requests that need it at the same time take the steps of one recovery in turns.
    """
    extra = partition.extra
    while PRODUCERS not in extra:
        steps: Steps[None] | None = extra.get(RECOVERY)
        if steps is None:
            steps = extra[RECOVERY] = _recover(broker, partition, now)
        try:
            next(steps)
        except StopIteration:
            del extra[RECOVERY]
        except BaseException:
            del extra[RECOVERY]
            raise
        else:
            yield


def _recover(broker: Broker, partition: Partition, now: int) -> Steps[None]:
    log = partition.log
    producers, offset = yield from _newest_snapshot(log)
    oldest = now - broker.config.producer_id_expiration_ms
    wanted_from = NO_TIMESTAMP if broker.had_transactions else oldest
    count = 0
    while offset < log.log_end_offset:  # the log may grow between two steps
        offset, replayed = yield from _replay(log, producers, offset, wanted_from)
        count += replayed
    producers.expire(oldest)
    if count >= LONG_REPLAY:
        snapshot = yield from packing(producers)
        _save(log, snapshot, offset)
        while offset < log.log_end_offset:  # only batches without a producer id can have come meanwhile
            offset, _ = yield from _replay(log, producers, offset, wanted_from)
    partition.extra[PRODUCERS] = producers


def _replay(log: PartitionLog, producers: Producers, offset: int, wanted_from: int) -> Steps[tuple[int, int]]:
    """Replay the batches from `offset` to the present end of the log. Returns that end, and how many batches.

    Segments without a timestamp at or above `wanted_from` are left out.
    """
    end = log.log_end_offset
    count = 0
    for segment in list(log.segments):
        if segment.next_offset > offset and segment.max_timestamp >= wanted_from:
            file = log.disk.open(segment.log_path)
            try:
                start = segment.find(offset) or 0
                for position, header in walk_headers(file, start, segment.size_bytes):
                    if header.base_offset >= end:
                        break
                    if header.next_offset > offset:
                        _replay_batch(producers, file, position, header)
                    count += 1
                    if count % BATCHES_PER_STEP == 0:
                        yield
            finally:
                file.close()
    return end, count


def _replay_batch(producers: Producers, file: File, position: int, header: BatchHeader) -> None:
    if header.producer_id < 0:
        return
    if not header.attributes & CONTROL:
        producers.appended(header, header.base_offset, header.max_timestamp)
        return
    batch = file.pread(header.size_bytes, position)
    for record in read_records(batch, 0, header=header):  # none if compaction has removed the marker
        if (marker := parse_marker(record.key, record.value)) is not None:
            producers.ended(header.producer_id, header.producer_epoch, marker.coordinator_epoch, header.max_timestamp)


def _newest_snapshot(log: PartitionLog) -> Steps[tuple[Producers, int]]:
    """(producers, offset up to which the snapshot knows them)."""
    for offset in sorted(_snapshots(log), reverse=True):
        path = f"{log.folder}/{segment_file(offset, SNAPSHOT)}"
        try:
            if offset <= log.log_end_offset:
                return (yield from unpacking(log.disk.read_file(path))), offset
        except (ValueError, OSError) as problem:
            logger.warning("%s: %s; an older snapshot is used", path, problem)
    return Producers(), log.log_start_offset


def _snapshots(log: PartitionLog) -> list[int]:
    if not log.exists:
        return []
    names = (parse_segment_file(info.name) for info in log.disk.scan_folder(log.folder))
    return [name[0] for name in names if name is not None and name[1:] == (SNAPSHOT, "")]


def forget_producers(broker: Broker, partition: Partition) -> None:
    """The partition's log was opened anew, and may have lost its last batches: look again what is in it."""
    partition.extra.pop(PRODUCERS, None)
    partition.extra.pop(RECOVERY, None)
    broker.had_transactions = broker.had_transactions or broker.catalog.get(TRANSACTION_STATE) is not None


# --- writing --------------------------------------------------------------------------------------


def save_snapshot(log: PartitionLog, producers: Producers, offset: int) -> None:
    """Save what is known of the producers below `offset`, because a segment begins there.

    With many producers that would hold up the event loop. Then it is left out, and the next start reads more.
    """
    if len(producers.by_id) <= MANY_PRODUCERS:
        _save(log, to_bytes(producers), offset)


def _save(log: PartitionLog, snapshot: bytes, offset: int) -> None:
    """A snapshot only saves time at the next start: without it, an older one and the log give the same. So a failure is
    only logged.
    """
    try:
        log.disk.write_file(f"{log.folder}/{segment_file(offset, SNAPSHOT)}", snapshot, durable=False)
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
            if producers is not None and partition.log.failed is None and partition.log.exists:
                _save(partition.log, to_bytes(producers), partition.log.log_end_offset)
