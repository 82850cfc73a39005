"""The one pass over commit_steps.

Rows that look bad get: the usual step and rhythm of their partition (`usual_step`, `usual_ms`, `usual_commits`,
`unregained`), since when the owner had it without a break (`owned_since`), and whether the group had members
(`had_members`).
"""

from __future__ import annotations

from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql.functions import expr

from audit.checks.kit.row_rules import Source
from audit.checks.kit.tables import Tables
from audit.tables import COMMIT_STEPS, OWNERSHIP_INTERVALS, PARTITION_FACTS, REBALANCES

PLACE = ["group_id", "topic", "partition"]
DETAILS = (
    "log_offset", "time", "offset", "previous_offset", "previous_time", "step", "high", "member_id", "generation",
    "owner", "group_generation", "usual_step", "usual_ms",
)  # fmt: skip
SINCE_BEFORE_MS = "(unix_millis(time) - unix_millis(previous_time))"  # how long after the commit before it


def commits(tables: Tables) -> Source:
    return Source(
        tables[COMMIT_STEPS.name],
        keys=["log_partition", *PLACE],
        details=DETAILS,
        columns={"member_id": "first.member_id", "generation": "first.group_generation"},
        enrich=partial(_enrich, tables),
    )


def _enrich(tables: Tables, frame: DataFrame) -> DataFrame:
    usual = tables[PARTITION_FACTS.name].selectExpr(
        *PLACE, "median_step AS usual_step", "median_interval_ms AS usual_ms", "commits AS usual_commits", "unregained"
    )
    owned = tables[OWNERSHIP_INTERVALS.name].selectExpr(
        "group_id AS its_group", "topic AS its_topic", "partition AS its_partition", "member_id AS its_owner",
        "start_time AS owned_since", "start_log_offset",
        "coalesce(end_log_offset, 9223372036854775807) AS end_log_offset",
    )  # fmt: skip
    with_members = (
        tables[REBALANCES.name]
        .selectExpr("group_id", "generation AS group_generation", "true AS had_members")
        .distinct()
    )
    its = expr(
        "group_id = its_group AND topic = its_topic AND partition = its_partition AND owner = its_owner"
        " AND log_offset >= start_log_offset AND log_offset < end_log_offset"
    )
    return (
        frame.join(usual, PLACE, "left")
        .join(owned, its, "left")
        .join(with_members, ["group_id", "group_generation"], "left")
    )
