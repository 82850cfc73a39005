"""Members that got partitions of topics that they did not ask for."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.functions import expr

from audit.checks.kit.check import ERROR, HISTORY, Check, Limits, findings, times
from audit.checks.kit.tables import Tables
from audit.tables import MEMBER_ASSIGNMENTS

CHECK = Check(
    "assignment_outside_subscription",
    ERROR,
    "Assignments with partitions of a topic that the member does not subscribe to.",
    "A consumer may refuse such partitions, and then nobody reads them: look at the assignor, and at members with other"
    " subscriptions.",
    needs=(HISTORY,),
)
COLUMNS = (
    "log_partition", "log_offset", "record_time", "group_id", "generation", "member_id", "subscribed_topics",
    "assigned",
)  # fmt: skip
SO_FAR = "OVER (PARTITION BY group_id, member_id ORDER BY log_offset)"


def find(tables: Tables, _: Limits) -> DataFrame:
    members = tables[MEMBER_ASSIGNMENTS.name]
    classic = members.where("record_type = 2 AND readable AND size(assigned) > 0").select(*COLUMNS)
    # In the new protocol what a member wants (5) and what it is to get (7) are records of their own. A pattern may
    # match anything.
    new = (
        members.where("record_type IN (5, 7)")
        .withColumn("pattern", expr(f"last(if(record_type = 5, coalesce(subscribed_regex, ''), NULL), true) {SO_FAR}"))
        .withColumn("subscribed_topics", expr(f"last(subscribed_topics, true) {SO_FAR}"))
        .where("record_type = 7 AND pattern = '' AND size(assigned) > 0")
        .select(*COLUMNS)
    )
    outside = "filter(assigned, one -> one.topic IS NOT NULL AND NOT array_contains(subscribed_topics, one.topic))"
    strangers = (
        classic.unionAll(new)
        .where(f"subscribed_topics IS NOT NULL AND size({outside}) > 0")
        .withColumn("outside", expr(outside))
        .groupBy("log_partition", "group_id")
        .agg(
            expr("count(*) AS n"),
            expr(
                "min_by(struct(log_offset, record_time, generation, member_id, outside[0] AS one), log_offset) AS first"
            ),
            expr("max(record_time) AS last_time"),
        )
    )
    return findings(
        CHECK,
        strangers,
        group_id="group_id",
        topic="first.one.topic",
        partition="first.one.partition",
        member_id="first.member_id",
        generation="first.generation",
        log_partition="log_partition",
        log_offset="first.log_offset",
        time="first.record_time",
        until="last_time",
        value="n",
        message=f"concat({times('n', 'assignment')}, ' outside of the subscription; first ', first.member_id, ' got ',"
        " first.one.topic, '-', first.one.partition)",
    )
