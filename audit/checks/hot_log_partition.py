"""A log partition that takes far more than the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from kohort.audit.checks.kit.check import WARNING, Check, Limits, Row, finding
from kohort.audit.checks.kit.summary import Summary
from kohort.audit.tables import keeps_groups

CHECK = Check(
    "hot_log_partition",
    WARNING,
    "Log partitions with many times the records of the usual one.",
    "One thread of one broker serves all groups of a log partition: let the busiest group commit less often, or give it"
    " another id.",
    {"factor": 10, "records": 10_000},
)

MIN_LOG_PARTITIONS = 3  # fewer are not enough to say what is usual


def find_overall(parts: Sequence[Summary], limits: Limits) -> Iterator[Row]:
    used = [part for part in parts if part.records and keeps_groups(part.log_partition)]
    for part in used:
        others = [other.records for other in used if other is not part]
        if len(used) < MIN_LOG_PARTITIONS or part.records < limits["records"]:
            continue
        usual = median(others)
        if part.records > limits["factor"] * usual:
            yield finding(
                CHECK,
                f"{part.records:,} records where the usual log partition has {usual:,.0f}; busiest is"
                f" {part.busiest} with {part.commits:,} commits",
                group_id=part.busiest,
                log_partition=part.log_partition,
                value=part.records / max(usual, 1),
            )
