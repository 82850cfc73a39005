"""Writes the markers that end transactions: a control batch in each partition of the transaction (KIP-98).

A marker ends what its producer has begun in the partition: readers with isolation.level=read_committed go on behind
it. It is refused if it comes from a coordinator or a producer that has been replaced meanwhile. One for a partition in
which the producer has written nothing is written, too: it fences earlier epochs.

Markers for `__consumer_offsets` are written by the group coordinator, whose memory has to change with them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from kohort.broker.steps import SLICE_NS, Done, Steps, take_steps
from kohort.broker.topics.catalog import CONSUMER_OFFSETS, LEADER_EPOCH
from kohort.broker.topics.delayed_fetch import appended, stable_offset_moved
from kohort.broker.topics.producer_snapshots import recover_producers, save_snapshot
from kohort.broker.topics.producer_state import PRODUCERS, Producers
from kohort.broker.topics.while_there import TopicDeleted, while_there
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.record_batch import build_marker
from kohort.protocol.txn_marker import TxnMarker
from kohort.storage.errors import LogFailed, StorageError
from kohort.storage.txn_index import AbortedTransaction

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.topics.catalog import Partition

logger = logging.getLogger(__name__)

Written = Callable[[ErrorCode], None]


def write_marker(broker: Broker, topic: str, partition: int, marker: TxnMarker, done: Written) -> None:
    """Calls `done`, maybe before it returns: with NONE when the marker is as durable as commits of groups are.

    UNKNOWN_TOPIC_OR_PARTITION; INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED: the marker comes too late;
    KAFKA_STORAGE_ERROR: not now, or not durable; UNKNOWN_SERVER_ERROR: a marker of nobody.
    """
    found = broker.catalog.partition(topic, partition)
    if found is None:
        done(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    elif marker.producer_id < 0:
        done(ErrorCode.UNKNOWN_SERVER_ERROR)
    elif topic == CONSUMER_OFFSETS:
        broker.coordinator.write_marker(partition, marker, done)
    elif found.topic.is_internal:  # no transaction has it; its coordinator alone writes there
        done(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    elif PRODUCERS in found.extra:
        _write(broker, found, marker, done)
    else:
        _go_on(broker, _recover_and_write(broker, found, marker, done))


def _recover_and_write(broker: Broker, partition: Partition, marker: TxnMarker, done: Written) -> Steps[None]:
    """The first marker since the start of the broker: look into the log for the transaction that it ends."""
    try:
        yield from while_there(broker, partition, recover_producers(broker, partition, broker.clock.now_ms()))
    except TopicDeleted:
        done(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    except (StorageError, OSError, MalformedMessage) as problem:
        logger.error("a marker could not be written to %s: %s", partition, problem)
        done(ErrorCode.KAFKA_STORAGE_ERROR)
    else:
        _write(broker, partition, marker, done)


def _go_on(broker: Broker, steps: Steps[None]) -> None:
    if not isinstance(take_steps(steps, SLICE_NS), Done):
        broker.call_later(0, lambda: _go_on(broker, steps))


def _write(broker: Broker, partition: Partition, marker: TxnMarker, done: Written) -> None:
    producers: Producers = partition.extra[PRODUCERS]
    if error := producers.check_marker(marker):
        done(error)
        return
    now = broker.clock.now_ms()
    try:
        log = partition.log
        offset = log.log_end_offset
        batch = build_marker(
            marker.commit,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp=now,
            base_offset=offset,
            leader_epoch=LEADER_EPOCH,
        )
        log.append_placed(batch, now)
        marker_appended(broker, partition, marker, offset, now)
    except (StorageError, OSError):  # the log has said why
        done(ErrorCode.KAFKA_STORAGE_ERROR)
        return
    appended(broker, partition, len(batch))
    if broker.config.kohort_offsets_sync_before_reply:
        broker.flusher.sync(log, partial(_synced, done))
    else:
        done(ErrorCode.NONE)


def marker_appended(broker: Broker, partition: Partition, marker: TxnMarker, offset: int, now: int) -> None:
    """The marker is in the log at this offset: the partition, which knows its producers, takes note of it.

    LogFailed: an aborted transaction could not be noted. It stays open then, so that no reader goes past it.
    """
    log, producers = partition.log, partition.extra[PRODUCERS]
    if offset == log.segments[-1].base_offset > 0:
        save_snapshot(log, producers, offset)  # a new segment: recovery can start here
    unstable = producers.first_unstable_offset
    first_offset = producers.open.get(marker.producer_id)
    if first_offset is not None and not marker.commit:
        others = producers.first_unstable_offset_without(marker.producer_id)
        stable_offset = offset + 1 if others is None else others
        log.record_aborted(AbortedTransaction(marker.producer_id, first_offset, offset, stable_offset))
    producers.ended(marker.producer_id, marker.producer_epoch, marker.coordinator_epoch, now)
    if producers.first_unstable_offset != unstable:
        stable_offset_moved(broker, partition)


def _synced(done: Written, problem: LogFailed | None) -> None:
    done(ErrorCode.NONE if problem is None else ErrorCode.KAFKA_STORAGE_ERROR)
