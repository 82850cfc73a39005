"""Partitions that stand still while others of their topic go on."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.functions import broadcast, expr

from audit.baseline import BASELINE_PARTITIONS
from audit.checks.kit.check import HISTORY, WARNING, Check, Limits, duration, findings, times
from audit.checks.kit.tables import Tables
from audit.tables import COMMIT_STEPS

CHECK = Check(
    "stall",
    WARNING,
    "The same offset committed again and again for a long time, while other partitions of the topic went on.",
    "Either no records arrive in this partition, or the consumer cannot get past one: compare with the end of the"
    " partition (--baseline), and look at the owner's log.",
    {"minutes": 10, "commits": 5},
    needs=(HISTORY,),
)
PLACE = ["group_id", "topic", "partition"]


def find(tables: Tables, limits: Limits) -> DataFrame:
    """The time between commits of one and the same offset, added up. A topic that is silent as a whole is no stall."""
    time_s = limits["minutes"] * 60
    still = (
        tables[COMMIT_STEPS.name]
        .where("step = 0")
        .groupBy("log_partition", *PLACE, "offset")
        .agg(
            expr("count(*) AS n"),
            expr("sum(unix_millis(time) - unix_millis(previous_time)) / 1000 AS still_s"),
            expr("min(log_offset) AS log_offset"),
            expr("min(previous_time) AS since"),
            expr("max(time) AS until"),
        )
        .where(f"n >= {limits['commits']} AND still_s >= {time_s}")
    )
    if BASELINE_PARTITIONS in tables:
        ends = tables[BASELINE_PARTITIONS].selectExpr("topic", "partition", "end_offset")
        still = still.join(ends, ["topic", "partition"], "left").where("end_offset IS NULL OR offset < end_offset")
    else:
        still = still.selectExpr("*", "CAST(NULL AS bigint) AS end_offset")
    moving = (
        tables[COMMIT_STEPS.name]
        .where("step > 0")
        .selectExpr("group_id AS its_group", "topic AS its_topic", "partition AS its_partition", "time AS its_time")
    )
    beside = expr(
        "group_id = its_group AND topic = its_topic AND partition <> its_partition"
        " AND its_time > since AND its_time < until"
    )
    stalls = (
        moving.join(broadcast(still), beside)
        .groupBy("log_partition", *PLACE, "offset", "n", "still_s", "log_offset", "since", "until", "end_offset")
        .agg(
            expr("count(*) AS others"),
            expr("(unix_millis(max(its_time)) - unix_millis(min(its_time))) / 1000 AS others_s"),
        )
        .where(f"others >= {limits['commits']} AND others_s >= {time_s}")
    )
    return findings(
        CHECK,
        stalls,
        group_id="group_id",
        topic="topic",
        partition="partition",
        log_partition="log_partition",
        log_offset="log_offset",
        time="since",
        until="until",
        value="still_s",
        message=f"concat('offset ', offset, ' was committed ', {times('n', 'more time')}, ' over ',"
        f" {duration('still_s')}, ' while other partitions of ', topic, ' went on',"
        f" coalesce(concat('; ', {times('end_offset - offset', 'record')}, ' wait there'), ''))",
    )
