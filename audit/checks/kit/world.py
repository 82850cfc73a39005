"""Facts about the log as a whole, which are needed to check one partition of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kohort.audit.checks.kit.baseline import Answers
from kohort.coordinator.partitioner import partition_of

KAFKAS_PARTITIONS = 50
OFFSETS_TOPIC = "__consumer_offsets"
MIN_GROUPS = 3  # fewer are not enough to tell the number of log partitions


@dataclass(frozen=True)
class World:
    """Facts about the log as a whole. Spark tasks get a copy."""

    end_time: datetime | None = None  # the latest time in the log; the checks take it as "now"
    runs: Sequence[Mapping[str, Any]] = ()  # rows of audit_runs
    log_partition_count: int = KAFKAS_PARTITIONS
    baseline: Answers | None = None
    topic_partitions: Mapping[str, int] = field(
        default_factory=dict
    )  # topic -> number of partitions, as the baseline says
    since: datetime | None = None  # findings that were over before are left out

    def is_told(self, finding: Mapping[str, Any]) -> bool:
        ended = finding["until"] or finding["time"]
        return self.since is None or ended is None or ended >= self.since


def make_world(
    end_times: Iterable[datetime | None], runs: Iterable[Mapping[str, Any]], groups: Iterable[tuple[str, int]],
    baseline: Answers | None = None, log_partition_count: int | None = None, since: datetime | None = None,
) -> World:  # fmt: skip
    """`groups`: some group ids, each with the log partition where it was found."""
    counts: dict[str, int] = {}
    if baseline is not None:
        for topic, partition in baseline.partitions:
            counts[topic] = max(counts.get(topic, 0), partition + 1)
    if log_partition_count is None:
        log_partition_count = counts.get(OFFSETS_TOPIC) or _guess_count(list(groups))
    end_time = max((time for time in end_times if time is not None), default=None)
    return World(end_time, [dict(run) for run in runs], log_partition_count, baseline, counts, since)


def _guess_count(groups: Sequence[tuple[str, int]]) -> int:
    """Kafka's default, unless it does not fit all groups and the greatest log partition seen, plus one, does."""
    seen = max((place + 1 for _, place in groups), default=0)
    usual = max(KAFKAS_PARTITIONS, seen)
    if len(groups) < MIN_GROUPS or all(partition_of(group_id, usual) == place for group_id, place in groups):
        return usual
    return seen if all(partition_of(group_id, seen) == place for group_id, place in groups) else usual
