"""Committed offsets that are not in the topic."""

from __future__ import annotations

from pyspark.sql import DataFrame

from audit.baseline import BASELINE_PARTITIONS
from audit.checks.kit.check import BASELINE, ERROR, Check, Limits, findings
from audit.checks.kit.tables import Tables
from audit.tables import FINDINGS, PARTITION_FACTS

CHECK = Check(
    "committed_beyond_end_or_below_start",
    ERROR,
    "Committed offsets above the end or below the start of their partition, as the broker tells them.",
    "The consumer will be out of range and start at auto.offset.reset: reset the group's offsets on purpose, and see"
    " whether the topic lost records or is not the one that was committed for.",
    needs=(BASELINE,),
)


def find(tables: Tables, _: Limits) -> DataFrame:
    if BASELINE_PARTITIONS not in tables:
        return tables.spark.createDataFrame([], FINDINGS.ddl)
    outside = (
        tables[PARTITION_FACTS.name]
        .where("last_offset IS NOT NULL")
        .join(tables[BASELINE_PARTITIONS], ["topic", "partition"])
        .where("last_offset > end_offset OR last_offset < start_offset")
        .selectExpr(
            "*", "if(last_offset > end_offset, last_offset - end_offset, start_offset - last_offset) AS distance"
        )
    )
    return findings(
        CHECK,
        outside,
        group_id="group_id",
        topic="topic",
        partition="partition",
        log_partition="log_partition",
        time="last_time",
        value="distance",
        message="concat('offset ', last_offset, ' is committed; ', topic, '-', partition,"
        " if(last_offset > end_offset, concat(' ends at ', end_offset), concat(' starts at ', start_offset)))",
    )
