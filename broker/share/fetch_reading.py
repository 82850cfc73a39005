"""Reads the partitions of one ShareFetch, and acquires the records that were read."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kohort.broker.share.log_batches import FoundBatches
from kohort.broker.topics.stable_offset import last_stable_offset
from kohort.coordinator.delivery.states import Acquired, Wish
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.record_batch import CorruptBatch
from kohort.storage.errors import StorageError

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.share.led_partition import LedPartition
    from kohort.broker.share.sessions import Wanted
    from kohort.storage.open_files import LogSlice
    from kohort.storage.txn_index import AbortedTransaction

logger = logging.getLogger(__name__)

MANY_RECORDS = 5_000


class Target:
    """A partition that the fetch reads, and what came of it."""

    __slots__ = ("acquired", "error", "fetch_offset", "found", "is_answered", "led", "wanted")

    def __init__(self, wanted: Wanted, led: LedPartition) -> None:
        self.wanted = wanted
        self.led = led
        self.fetch_offset = -1
        self.is_answered = False  # the log was read for it; a first answer names it even if nothing was there
        self.error = ErrorCode.NONE
        self.found: LogSlice | None = None
        self.acquired: Sequence[Acquired] = ()

    def close(self) -> None:
        if self.found is not None:
            self.found.close()
            self.found = None


def release(targets: Sequence[Target]) -> None:
    """Close the slices of an answer that is not sent."""
    for target in targets:
        target.close()


class Reading:
    __slots__ = ("_acquired_count", "_broker", "_bytes", "_limit", "_max_bytes", "_min_bytes", "_wish")

    def __init__(self, broker: Broker, wish: Wish, max_bytes: int, min_bytes: int) -> None:
        self._broker = broker
        self._wish = wish
        self._max_bytes = max_bytes
        self._min_bytes = min_bytes
        self._limit = max_bytes  # of one partition
        self._bytes = 0
        self._acquired_count = 0

    @property
    def wants_records(self) -> bool:
        return self._wish.max_records != 0 and self._max_bytes > 0

    @property
    def wants_many(self) -> bool:
        """More records than may be acquired, one by one, in a few milliseconds."""
        return self._wish.max_records > MANY_RECORDS

    @property
    def missing_bytes(self) -> int:
        return max(1, self._min_bytes - self._bytes)

    def read(self, targets: Sequence[Target], *, is_final: bool) -> bool:
        """Read, and acquire if that is enough, or if it is the last attempt. False: the fetch goes on waiting."""
        self._bytes = 0
        able = [target for target in targets if target.led.can_acquire]
        self.begin(len(able))
        is_enough = is_final
        for target in able:
            self._look(target)
            is_enough = is_enough or target.error != ErrorCode.NONE
        is_enough = is_enough or (bool(able) and self._bytes >= self._min_bytes)
        if not is_enough:
            release(able)
            return False
        for target in able:
            self._acquire(target)
        return True

    def begin(self, count: int) -> None:
        """So many partitions will be read, and share max.bytes evenly."""
        self._limit = max(1, self._max_bytes // max(1, count))

    def read_one(self, target: Target) -> None:
        """Read and acquire of one partition, regardless of min.bytes."""
        if target.led.can_acquire:
            self._look(target)
            self._acquire(target)

    def _look(self, target: Target) -> None:
        """Find the records in the log."""
        led = target.led
        assert led.share is not None
        target.error = ErrorCode.NONE
        target.fetch_offset = offset = led.share.next_fetch_offset()
        try:
            log = led.partition.log
            if not log.log_start_offset <= offset <= log.log_end_offset:
                target.error = ErrorCode.OFFSET_OUT_OF_RANGE
            else:
                up_to = last_stable_offset(self._broker, led.partition) if led.reads_committed else None
                target.found = log.read(offset, self._limit, min_one_batch=self._bytes == 0, up_to=up_to)
                if target.found is not None:
                    self._bytes += target.found.length
        except (StorageError, OSError) as problem:
            logger.error("a share fetch could not read: %s", problem)
            target.error = ErrorCode.KAFKA_STORAGE_ERROR
        except CorruptBatch as problem:
            logger.error("a share fetch met damaged data: %s", problem)
            target.error = ErrorCode.CORRUPT_MESSAGE

    def _acquire(self, target: Target) -> None:
        led = target.led
        target.is_answered = True
        if target.error == ErrorCode.OFFSET_OUT_OF_RANGE:
            # Records were removed from the log. The client finds what is there now with its next fetch.
            target.error = ErrorCode.NONE
            led.log_starts_at(led.partition.log.log_start_offset)
        if target.found is not None:
            try:
                target.acquired = self._acquire_found(target, target.found)
            except (StorageError, OSError, CorruptBatch) as problem:
                logger.error("a share fetch could not read %r: %s", led, problem)
                target.error = ErrorCode.KAFKA_STORAGE_ERROR
            if not target.acquired:
                target.close()

    def _acquire_found(self, target: Target, found: LogSlice) -> Sequence[Acquired]:
        led = target.led
        assert led.share is not None
        wish = self._wish._replace(max_records=self._wish.max_records - self._acquired_count)
        # Nothing behind this offset can be acquired, however large the slice is.
        in_flight = led.settings.partition_max_record_locks
        until = max(target.fetch_offset, led.share.window.end) + min(max(wish.max_records, 0), in_flight)
        batches = FoundBatches(found, until, self._aborted_in(led, target.fetch_offset, found))
        acquired = led.acquire(wish, target.fetch_offset, batches.batches, batches.aborted)
        if acquired:
            batches.trim(found, acquired[0].first_offset, acquired[-1].last_offset)
            self._acquired_count += sum(each.last_offset - each.first_offset + 1 for each in acquired)
        return acquired

    def _aborted_in(self, led: LedPartition, offset: int, found: LogSlice) -> Sequence[AbortedTransaction]:
        log = led.partition.log
        if not led.reads_committed or offset > log.last_aborted_offset:  # the usual case
            return ()
        return log.aborted_in(offset, found, last_stable_offset(self._broker, led.partition))
