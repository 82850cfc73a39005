"""Where a share group begins to read a partition for which nothing is persisted: share.auto.offset.reset."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from kohort.broker.steps import SLICE_NS, Done, Pause, WaitingSteps, take_steps
from kohort.broker.topics.while_there import TopicDeleted, while_there
from kohort.coordinator.delivery.offset_reset import EARLIEST, timestamp_to_begin_at
from kohort.protocol.errors import MalformedMessage
from kohort.storage.errors import StorageError

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.topics.catalog import Partition

logger = logging.getLogger(__name__)

Found = Callable[["int | None"], object]


def find_first_offset(broker: Broker, partition: Partition, reset: str, found: Found) -> None:
    """Calls `found` with the offset, maybe before it returns; with None if there is none."""
    try:
        timestamp = timestamp_to_begin_at(reset, broker.clock.now_ms())
        if timestamp is None:
            found(partition.log.log_start_offset if reset == EARLIEST else partition.log.log_end_offset)
            return
    except (StorageError, OSError) as problem:
        logger.error("the log of %s could not be opened: %s", partition, problem)
        found(None)
        return
    _go_on(broker, _search(broker, partition, timestamp), found)


def _search(broker: Broker, partition: Partition, timestamp: int) -> WaitingSteps[int | None]:
    try:
        searching = while_there(broker, partition, partition.log.offset_for_timestamp(timestamp))
        found = yield from broker.inflating.take(searching)
    except TopicDeleted:
        return None
    except (StorageError, OSError, MalformedMessage) as problem:
        logger.error("%s could not be searched for the time %d: %s", partition, timestamp, problem)
        return None
    return None if found is None else found[1]


def _go_on(broker: Broker, steps: WaitingSteps[int | None], found: Found) -> None:
    """Take a slice of the search in this turn of the event loop, and the rest in the next ones."""
    taken = take_steps(steps, SLICE_NS)
    if isinstance(taken, Done):
        found(taken.response)
    elif isinstance(taken, Pause):
        taken.then(lambda: _go_on(broker, steps, found))
    else:
        broker.call_later(0, lambda: _go_on(broker, steps, found))
