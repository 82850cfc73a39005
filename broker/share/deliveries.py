"""Reports what became of delivered records: lines in the broker's log, and counters for its metrics.

A share partition has a line at most once in TELL_EVERY_S, and only if something has happened to its records meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from time import monotonic_ns
from typing import TYPE_CHECKING

from kohort.broker.rebalances import word
from kohort.coordinator.delivery.states import Counts

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.share.led_partition import LedPartition
    from kohort.broker.share.share_partitions import SharePartitions

logger = logging.getLogger("kohort.delivery")

TELL_EVERY_S = 60
SLICE_NS = 5_000_000
NAMES = Counts.__slots__
LINE = "delivered group=%s topic=%s partition=%d " + " ".join(f"{name}=%d" for name in NAMES) + " start=%d in_flight=%d"


class Deliveries:
    def __init__(self, broker: Broker, led: SharePartitions) -> None:
        self._broker = broker
        self._led = led
        self._is_timed = False

    def begin(self) -> None:
        """There is something to tell of from now on."""
        if not self._is_timed:
            self._is_timed = True
            self._broker.call_later_by_clock(TELL_EVERY_S, lambda: self._go_on(iter(self._led)))

    def _go_on(self, led_partitions: Iterator[LedPartition]) -> None:
        until = monotonic_ns() + SLICE_NS
        for led in led_partitions:
            if not led.is_gone:
                self.tell(led)
            if monotonic_ns() > until:
                self._broker.call_later(0, lambda: self._go_on(led_partitions))
                return
        self._is_timed = False
        if len(self._led):
            self.begin()

    def tell(self, led: LedPartition) -> None:
        """One line about what has happened since the last one."""
        share = led.share
        if share is None:
            return
        counts, told = share.counts, led.counts_told
        news = {name: getattr(counts, name) - getattr(told, name) for name in NAMES}
        if not any(news.values()):
            return
        led.counts_told = counts.copy()
        window, key = share.window, led.key
        fields = {
            "group": key.group_id,
            "topic": led.partition.topic.name,
            "partition": key.partition,
            **news,
            "start": window.start,
            "in_flight": window.in_flight_count,
        }
        group, *rest = fields.values()
        logger.info(LINE, word(str(group)), *rest, extra={"fields": fields})
