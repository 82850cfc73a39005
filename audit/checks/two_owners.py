"""Two members that own the same partition at the same time."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.functions import expr

from audit.checks.kit.check import CRITICAL, HISTORY, Check, Limits, findings, times
from audit.checks.kit.tables import Tables
from audit.tables import OWNERSHIP_INTERVALS

CHECK = Check(
    "two_owners",
    CRITICAL,
    "Partitions that two members of a group own at a time.",
    "Both process the same records: look at the assignor of the group's leader (classic), or report a bug of the"
    " coordinator (new protocol).",
    needs=(HISTORY,),
)
BEFORE = (
    "OVER (PARTITION BY group_id, topic, partition ORDER BY start_log_offset, member_id"
    " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
)


def find(tables: Tables, _: Limits) -> DataFrame:
    """Intervals by their beginning: one that begins before all earlier ones have ended shares the partition."""
    shared = (
        tables[OWNERSHIP_INTERVALS.name]
        .selectExpr("*", "coalesce(end_log_offset, 9223372036854775807) AS ends")
        .selectExpr("*", f"max(struct(ends, member_id, end_time)) {BEFORE} AS other")
        .where("start_log_offset < other.ends AND member_id <> other.member_id")
        .groupBy("log_partition", "group_id", "topic", "partition")
        .agg(
            expr("count(*) AS n"),
            expr("min_by(struct(member_id, first_generation, start_log_offset, start_time, end_time, ends, other),"
                   " start_log_offset) AS first"),
        )
    )  # fmt: skip
    return findings(
        CHECK,
        shared,
        group_id="group_id",
        topic="topic",
        partition="partition",
        member_id="first.member_id",
        generation="first.first_generation",
        log_partition="log_partition",
        log_offset="first.start_log_offset",
        time="first.start_time",
        until="if(first.ends < first.other.ends, first.end_time, first.other.end_time)",
        value="n",
        message=f"concat(first.other.member_id, ' and ', first.member_id, ' both owned ', topic, '-', partition,"
        f" ' from generation ', first.first_generation, ' on', if(n > 1, concat('; ', {times('n', 'time')}), ''))",
    )
