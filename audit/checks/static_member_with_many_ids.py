"""Static members that come back again and again, or are two."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.functions import expr

from audit.checks.kit.check import HISTORY, WARNING, Check, Limits, duration, findings, seconds
from audit.checks.kit.tables import Tables
from audit.tables import MEMBER_ASSIGNMENTS

CHECK = Check(
    "static_member_with_many_ids",
    WARNING,
    "A group.instance.id that had many member ids in a short time.",
    "Either the process restarts again and again, or two have the same group.instance.id and fence each other: give"
    " each its own.",
    {"ids": 5, "minutes": 60},
    needs=(HISTORY,),
)
OF_INSTANCE = "OVER (PARTITION BY group_id, instance_id ORDER BY log_offset)"


def find(tables: Tables, limits: Limits) -> DataFrame:
    many, time_s = int(limits["ids"]), limits["minutes"] * 60
    ids = (
        tables[MEMBER_ASSIGNMENTS.name]
        .where("instance_id IS NOT NULL AND NOT tombstone")
        .groupBy("log_partition", "group_id", "instance_id", "member_id")
        .agg(expr("min(log_offset) AS log_offset"), expr("min(record_time) AS time"))
        .selectExpr("*", f"lag(struct(log_offset, time), {many - 1}) {OF_INSTANCE} AS before")
    )
    restless = (
        ids.where(f"{seconds('time', 'before.time')} <= {time_s}")
        .groupBy("log_partition", "group_id", "instance_id")
        .agg(
            expr(f"count(*) + {many - 1} AS n"),
            expr("min(before) AS first"),
            expr("max_by(struct(time, member_id), log_offset) AS last"),
        )
    )
    return findings(
        CHECK,
        restless,
        group_id="group_id",
        member_id="last.member_id",
        log_partition="log_partition",
        log_offset="first.log_offset",
        time="first.time",
        until="last.time",
        value="n",
        message=f"concat(instance_id, ' had ', n, ' member ids within ',"
        f" {duration(seconds('last.time', 'first.time'))})",
    )
