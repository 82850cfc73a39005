"""Topics that were deleted and created anew, under groups that remember the old one."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.functions import expr

from audit.checks.kit.check import HISTORY, WARNING, Check, Limits, findings
from audit.checks.kit.tables import Tables

CHECK = Check(
    "topic_recreated",
    WARNING,
    "Commits for a topic of the same name with another id.",
    "Offsets of the old topic mean nothing in the new one: see that the group has started where it should.",
    needs=(HISTORY,),
)
OF_TOPIC = "OVER (PARTITION BY group_id, topic ORDER BY log_offset)"


def find(tables: Tables, _: Limits) -> DataFrame:
    recreated = (
        tables.commit_summary.where("topic_id IS NOT NULL")
        .selectExpr("*", f"lag(topic_id) {OF_TOPIC} AS before")
        .where("before IS NOT NULL")
        .groupBy("log_partition", "group_id", "topic")
        .agg(
            expr("count(*) AS n"),
            expr("min_by(struct(log_offset, time, topic_id, before), log_offset) AS first"),
        )
    )
    return findings(
        CHECK,
        recreated,
        group_id="group_id",
        topic="topic",
        log_partition="log_partition",
        log_offset="first.log_offset",
        time="first.time",
        value="n",
        message="concat(topic, ' has another id: ', first.topic_id, ' after ', first.before,"
        " if(n > 1, concat(', and ', n - 1, ' more'), ''))",
    )
