"""A log partition that takes far more than the others."""

from __future__ import annotations

from statistics import median

from pyspark.sql import DataFrame
from pyspark.sql.functions import expr

from audit.checks.kit.check import WARNING, Check, Limits, findings
from audit.checks.kit.tables import Tables

CHECK = Check(
    "hot_log_partition",
    WARNING,
    "Log partitions with many times the records of the usual one.",
    "One thread of one broker serves all groups of a log partition: let the busiest group commit less often, or give it"
    " another id.",
    {"factor": 10, "records": 10_000},
)
MIN_LOG_PARTITIONS = 3  # of fewer nobody can say what is usual


def find(tables: Tables, limits: Limits) -> DataFrame:
    records: dict[int, int] = {}
    for one in tables.segments:
        records[one.log_partition] = records.get(one.log_partition, 0) + one.records
    hot = {place: count for place, count in records.items() if _is_hot(place, records, limits)}
    rows = " ".join(f"WHEN {place} THEN {count}" for place, count in hot.items())
    usual = median(records.values()) if records else 0
    busiest = (
        tables.commit_summary.where(f"log_partition IN ({', '.join(map(str, hot)) or '-1'})")
        .groupBy("log_partition", "group_id")
        .agg(expr("sum(commits) AS commits"))
        .groupBy("log_partition")
        .agg(expr("max_by(struct(group_id, commits), commits) AS top"))
        .selectExpr("*", f"CASE log_partition {rows} END AS records" if hot else "0 AS records")
    )
    return findings(
        CHECK,
        busiest,
        group_id="top.group_id",
        log_partition="log_partition",
        value=f"records / {max(usual, 1)}",
        message=f"concat(format_number(records, 0), ' records where the usual log partition has {usual:,.0f}; busiest"
        " is ', top.group_id, ' with ', format_number(top.commits, 0), ' commits')",
    )


def _is_hot(place: int, records: dict[int, int], limits: Limits) -> bool:
    others = [count for other, count in records.items() if other != place and count]
    if len(others) < MIN_LOG_PARTITIONS - 1 or records[place] < limits["records"]:
        return False
    return records[place] > limits["factor"] * median(others)
