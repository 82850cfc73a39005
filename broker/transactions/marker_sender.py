"""Writes the markers of transactions that are decided: a few at a time, and again if a partition cannot take them now.

A partition whose topic was deleted needs no marker. A partition that knows a newer producer or a newer coordinator
refuses the marker for good (INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED): as with Kafka, the transaction
then stays as it is, and whoever has made this state by raw markers has to mend it. The other partitions get their
markers all the same, so that nobody waits there. All other errors pass.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from typing import TYPE_CHECKING

from kohort.broker.steps import SLICE_NS, Steps, take_steps
from kohort.broker.topics.txn_markers import write_marker
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.txn_marker import TxnMarker

if TYPE_CHECKING:
    from kohort.broker.broker import Broker

logger = logging.getLogger(__name__)

MARKERS_AT_ONCE = 20  # those of a usual transaction are written in one step
FIRST_DELAY_S, MAX_DELAY_S = 0.05, 5.0
FINAL = frozenset((ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED))


class Sending:
    """The markers of one transaction."""

    __slots__ = ("all_written", "is_stale", "marker", "missing")

    def __init__(
        self, marker: TxnMarker, missing: int, is_stale: Callable[[], bool], all_written: Callable[[], object]
    ) -> None:
        self.marker = marker
        self.missing = missing  # markers that are not durable yet; one that was refused is missing for ever
        self.is_stale = is_stale  # somebody else sends these markers now
        self.all_written = all_written

    def one_written(self) -> None:
        self.missing -= 1
        if self.missing == 0:
            self.all_written()


class MarkerSender:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        # Of a transaction, topic and partition; with the delay before the next try.
        self._waiting: deque[tuple[Sending, str, int, float]] = deque()
        self._is_busy = False

    def send(
        self,
        marker: TxnMarker,
        partitions: Mapping[str, AbstractSet[int]],
        is_stale: Callable[[], bool],
        all_written: Callable[[], object],
    ) -> None:
        """`all_written` is called, maybe before this returns, when the markers are durable; never if `is_stale`."""
        places = [(topic, index) for topic, indexes in partitions.items() for index in sorted(indexes)]
        if not places:
            all_written()
            return
        sending = Sending(marker, len(places), is_stale, all_written)
        self._waiting += [(sending, topic, index, FIRST_DELAY_S) for topic, index in places]
        if not self._is_busy:
            self._write_some()

    def _write_some(self) -> None:
        """Markers that are asked for meanwhile wait for their turn."""
        self._is_busy = True
        take_steps(self._steps(), SLICE_NS)
        if self._waiting:
            self._broker.call_soon(self._write_some)
        else:
            self._is_busy = False

    def _steps(self) -> Steps[None]:
        """Some markers each. The first one in a partition makes its files, which takes a hundred times as long."""
        while self._waiting:
            for _ in range(min(MARKERS_AT_ONCE, len(self._waiting))):
                self._write(*self._waiting.popleft())
            yield

    def _write(self, sending: Sending, topic: str, index: int, delay_s: float) -> None:
        if not sending.is_stale():
            write_marker(
                self._broker, topic, index, sending.marker, partial(self._written, sending, topic, index, delay_s)
            )

    def _written(self, sending: Sending, topic: str, index: int, delay_s: float, error: ErrorCode) -> None:
        if sending.is_stale():
            return
        if not error or self._broker.catalog.partition(topic, index) is None:
            sending.one_written()
        elif error in FINAL:
            logger.error(
                "%s-%d refuses the marker of producer %d in epoch %d (%s): its transaction cannot be ended",
                topic, index, sending.marker.producer_id, sending.marker.producer_epoch, error.name,
            )  # fmt: skip
        else:
            if delay_s == FIRST_DELAY_S:
                logger.warning("%s-%d cannot take a marker now (%s), it is tried again", topic, index, error.name)
            again = partial(self._again, sending, topic, index, min(2 * delay_s, MAX_DELAY_S))
            self._broker.call_later(delay_s, again)

    def _again(self, sending: Sending, topic: str, index: int, delay_s: float) -> None:
        self._waiting.append((sending, topic, index, delay_s))
        if not self._is_busy:
            self._write_some()
