"""Reports the ends of transactions: a line in the broker's log for each, and counters for its metrics.

Most transactions are ended by their producers, many times a second: those lines have the level DEBUG. A transaction
that the broker aborted, because it took too long or because another producer has taken its transactional id over, is
told at the level WARNING or INFO: somebody's work was lost.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections import Counter

from kohort.broker.rebalances import word
from kohort.coordinator.events import TransactionEnded
from kohort.coordinator.transactions.headers import Cause

logger = logging.getLogger("kohort.transaction")

DURATION_BUCKETS_S = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000)
LEVELS = {Cause.TIMEOUT.value: logging.WARNING, Cause.FENCED.value: logging.INFO}
LINE = "ended transaction id=%s producer_id=%d epoch=%d result=%s cause=%r partitions=%d duration_ms=%d"


class TransactionNews:
    def __init__(self) -> None:
        self.ended: Counter[tuple[str, str]] = Counter()  # by result and cause
        self.seconds = 0.0
        self.buckets = [0] * (len(DURATION_BUCKETS_S) + 1)

    def tell(self, event: TransactionEnded) -> None:
        self.ended[event.result, event.cause] += 1
        seconds = event.duration_ms / 1000
        self.seconds += seconds
        self.buckets[bisect_left(DURATION_BUCKETS_S, seconds)] += 1
        level = LEVELS.get(event.cause, logging.DEBUG)
        if logger.isEnabledFor(level):
            fields = event._asdict()
            logger.log(level, LINE, word(event.transactional_id), *event[1:], extra={"fields": fields})
