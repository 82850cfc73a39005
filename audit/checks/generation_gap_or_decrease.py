"""Generations that are not numbered one after the other."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.functions import expr

from audit.checks.kit.check import ERROR, HISTORY, INFO, Check, Limits, findings, literal, times
from audit.checks.kit.tables import Tables
from audit.tables import GROUP_GENERATIONS

CHECK = Check(
    "generation_gap_or_decrease",
    ERROR,
    "A group's generation or epoch is lower than the one before it in the log, or leaves numbers out.",
    "A lower number means lost records or two coordinators at once: compare with a replica; a number left out is a"
    " rebalance that ended before the leader had assigned, look at the leader then.",
    {"gap": 2},
    needs=(HISTORY,),
)
IN_ORDER = "OVER (PARTITION BY group_id, record_type ORDER BY log_offset)"


def find(tables: Tables, limits: Limits) -> DataFrame:
    """`gap`: from this difference on. A group that was deleted begins anew."""
    beside = (
        tables[GROUP_GENERATIONS.name]
        .where("record_type IN (2, 3, 11)")
        .selectExpr(
            "log_partition", "log_offset", "record_time", "group_id", "generation", "tombstone",
            f"lag(if(tombstone, NULL, generation)) {IN_ORDER} AS before",
        )
        .where(f"NOT tombstone AND (generation < before OR generation - before >= {limits['gap']})")
        .groupBy("log_partition", "group_id", expr("generation < before AS lower"))
        .agg(
            expr("count(*) AS n"),
            expr("max(abs(generation - before)) AS worst"),
            expr("min_by(struct(log_offset, record_time, generation, before), log_offset) AS first"),
            expr("max(record_time) AS last_time"),
        )
    )  # fmt: skip
    return findings(
        CHECK,
        beside,
        severity=f"if(lower, {literal(ERROR)}, {literal(INFO)})",
        group_id="group_id",
        generation="first.generation",
        log_partition="log_partition",
        log_offset="first.log_offset",
        time="first.record_time",
        until="last_time",
        value="worst",
        message=f"concat({times('n', 'generation')}, if(lower, ' lower than the one before', ' after a gap'),"
        " '; first ', first.generation, ' after ', first.before)",
    )
