"""Reports rebalances: a line in the broker's log for each, and counters for its metrics.

Counters are kept by cause and not by group, because clients choose the names of groups and could make any number of
counters. The log says which group it was.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections import Counter

from kohort.coordinator.events import News, Reconciled
from kohort.coordinator.group import CLASSIC, CONSUMER, SHARE

logger = logging.getLogger("kohort.rebalance")

DURATION_BUCKETS_S = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000)
REST = "duration_ms=%d members=%d moved=%d"
CLASSIC_LINE = f"rebalanced group=%s generation=%d cause=%r trigger=%r slowest=%r {REST}"
CONSUMER_LINE = (
    f"rebalanced group=%s epoch=%d cause=%r trigger=%r trigger_client=%r slowest=%r slowest_client=%r {REST}"
)


class Counters:
    """The rebalances of groups of one type."""

    def __init__(self) -> None:
        self.by_cause: Counter[str] = Counter()
        self.moved_partitions = 0
        self.seconds = 0.0
        self.buckets = [0] * (len(DURATION_BUCKETS_S) + 1)

    def count(self, event: News) -> None:
        cause = event.cause.partition(": ")[0]  # behind the colon is the reason that the client gave
        self.by_cause[cause] += 1
        self.moved_partitions += max(0, event.moved)
        seconds = event.duration_ms / 1000
        self.seconds += seconds
        self.buckets[bisect_left(DURATION_BUCKETS_S, seconds)] += 1


class Rebalances:
    def __init__(self) -> None:
        self.by_type = {CLASSIC: Counters(), CONSUMER: Counters()}
        self._shared = Counters()  # of share groups: shown once there are any

    def tell(self, event: News) -> None:
        fields = event._asdict()
        kind = fields.pop("type", CLASSIC)
        if kind == SHARE:
            self.by_type[SHARE] = self._shared
        self.by_type[kind].count(event)
        line = CONSUMER_LINE if isinstance(event, Reconciled) else CLASSIC_LINE
        logger.info(line, word(event.group), *list(fields.values())[1:], extra={"fields": fields})


def word(name: str) -> str:
    """The name, if it is one word; otherwise the name in quotes, with line breaks and the like as escapes."""
    is_word = name.isprintable() and not any(char in " '\"=" for char in name)
    return name if name and is_word else repr(name)
