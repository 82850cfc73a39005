"""Owned partitions without a commit for far longer than usual."""

from __future__ import annotations

from pyspark.sql import DataFrame

from audit.checks.kit.check import HISTORY, WARNING, Check, Limits, duration, findings, seconds, times
from audit.checks.kit.commit_rules import SINCE_BEFORE_MS
from audit.checks.kit.row_rules import RowRule
from audit.checks.kit.tables import Tables
from audit.tables import PARTITION_FACTS

CHECK = Check(
    "commit_gap",
    WARNING,
    "No commit for a partition for far longer than usual, though the same member owned it all the time.",
    "Unless the topic was silent: the owner is stuck, or commits fail; look at its log at that time.",
    {"minutes": 10, "factor": 20, "commits": 10},
    needs=(HISTORY,),
)


def commit_rule(limits: Limits) -> RowRule:
    """Between two commits. `commits`: with fewer there is no usual."""
    return RowRule(
        when=f"owner IS NOT NULL AND {SINCE_BEFORE_MS} >= {limits['minutes'] * 60_000}",
        value=f"{SINCE_BEFORE_MS} / 1000",
        and_then=f"usual_commits >= {limits['commits']} AND {SINCE_BEFORE_MS} >= {limits['factor']} * usual_ms"
        " AND owned_since <= previous_time",
        message=f"concat({times('n', 'time')}, ' no commit for up to ', {duration('worst')}, ' though ', w.owner,"
        f" ' owned the partition; usual are ', {duration('w.usual_ms / 1000')})",
        columns={"member_id": "first.owner", "time": "first.previous_time"},
    )


def find(tables: Tables, limits: Limits) -> DataFrame:
    """From the last commit to the end of the log."""
    silent_s = seconds(tables.end_time, "last_time")
    silent = (
        tables[PARTITION_FACTS.name]
        .where(f"owner IS NOT NULL AND owner_since <= last_time AND commits >= {limits['commits']}")
        .selectExpr("*", f"{silent_s} AS silent_s")
        .where(f"silent_s >= {limits['minutes'] * 60} AND silent_s >= {limits['factor']} * median_interval_ms / 1000")
    )
    return findings(
        CHECK,
        silent,
        group_id="group_id",
        topic="topic",
        partition="partition",
        member_id="owner",
        log_partition="log_partition",
        time="last_time",
        value="silent_s",
        message=f"concat('no commit in the last ', {duration('silent_s')}, ' of the log though ', owner,"
        f" ' owns the partition; usual are ', {duration('median_interval_ms / 1000')})",
    )
