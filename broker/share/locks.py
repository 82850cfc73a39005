"""The timer of acquisition locks: one for all share partitions of this broker.

A share partition is in the heap once, with a time at which it has to be looked at. Most records are acknowledged long
before their locks expire, and nothing here is touched then: when the time comes, the partition is asked what has
expired and when the next lock does.

Many locks may expire at once. They are freed in slices, between other requests.
"""

from __future__ import annotations

import heapq
import logging
from itertools import count
from time import monotonic_ns
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kohort.broker.broker import Broker, Cancellable
    from kohort.broker.share.led_partition import LedPartition

logger = logging.getLogger(__name__)

SLICE_NS = 5_000_000
AT_LEAST_MS = 10  # between two looks at the same partition, whose locks may expire one by one


class Locks:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._heap: list[tuple[int, int, LedPartition]] = []
        self._numbers = count()
        self._timer: Cancellable | None = None
        self._rings_at = 0

    def watch(self, led: LedPartition, deadline: int) -> None:
        """Look at the partition at that time of the steady clock, or earlier."""
        if led.looked_at is None or deadline < led.looked_at:
            led.looked_at = deadline
            heapq.heappush(self._heap, (deadline, next(self._numbers), led))
            self._set_timer()

    def _set_timer(self) -> None:
        deadline = self._heap[0][0]
        if self._timer is not None:
            if self._rings_at <= deadline:
                return
            self._timer.cancel()
        self._rings_at = deadline
        delay_ms = max(0, deadline - self._broker.clock.steady_ms())
        self._timer = self._broker.call_later_by_clock(delay_ms / 1000, self._expire)

    def _expire(self) -> None:
        self._timer = None
        until = monotonic_ns() + SLICE_NS
        now = self._broker.clock.steady_ms()
        heap = self._heap
        while heap and heap[0][0] <= now:
            if monotonic_ns() > until:
                self._rings_at = heap[0][0]
                self._timer = self._broker.call_later(0, self._expire)
                return
            deadline, _, led = heapq.heappop(heap)
            if led.looked_at != deadline:
                continue  # an old entry: the partition was looked at since, or has another deadline
            led.looked_at = None
            try:
                next_deadline = led.expire_locks(now)
            except Exception:  # the other partitions' locks must still expire
                logger.exception("locks of %s could not be freed; this is a bug", led)
                continue
            if next_deadline is not None:
                self.watch(led, max(next_deadline, now + AT_LEAST_MS))
        if heap:
            self._set_timer()
