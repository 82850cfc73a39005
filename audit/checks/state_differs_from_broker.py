"""Groups of which the log tells something else than the broker."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.functions import expr

from audit.baseline import BASELINE_GROUPS, BASELINE_OFFSETS, BASELINE_OWNERS
from audit.checks.kit.check import BASELINE, CRITICAL, Check, Limits, findings, times
from audit.checks.kit.tables import Tables
from audit.tables import FINDINGS, OWNERSHIP_INTERVALS, PARTITION_FACTS

CHECK = Check(
    "state_differs_from_broker",
    CRITICAL,
    "Committed offsets and owners that follow from the log, and are not what the broker says.",
    "The broker would lose or change this state with its next start: do not restart it before you know why, and keep a"
    " copy of the log.",
    needs=(BASELINE,),
)
PLACE = ["group_id", "topic", "partition"]


def find(tables: Tables, _: Limits) -> DataFrame:
    """Only what the broker said twice alike, see audit/baseline.py."""
    if BASELINE_GROUPS not in tables:
        return tables.spark.createDataFrame([], FINDINGS.ddl)
    differences = (
        _offsets(tables)
        .unionAll(_owners(tables))
        .groupBy("group_id")
        .agg(
            expr("count(*) AS n"),
            expr("min_by(struct(*), struct(what, topic, partition)) AS first"),
            expr("max(log_partition) AS log_partition"),
        )
    )
    return findings(
        CHECK,
        differences,
        group_id="group_id",
        topic="first.topic",
        partition="first.partition",
        log_partition="log_partition",
        value="n",
        message=f"concat({times('n', 'difference')}, '; first the ', first.what, ' of ', first.topic, '-',"
        " first.partition, ': the log says ', coalesce(first.ours, 'none'),"
        " ', the broker ', coalesce(first.theirs, 'none'))",
    )


def _offsets(tables: Tables) -> DataFrame:
    known = tables[BASELINE_GROUPS].where("offsets_known").select("group_id")
    ours = tables[PARTITION_FACTS.name].where("last_offset IS NOT NULL").join(known, "group_id", "left_semi")
    theirs = tables[BASELINE_OFFSETS].join(known, "group_id", "left_semi")
    return (
        ours.select(*PLACE, "log_partition", "last_offset")
        .join(theirs, PLACE, "full")
        .where("NOT (last_offset <=> offset)")
        .selectExpr(
            *PLACE, "log_partition", "'committed offset' AS what", "CAST(last_offset AS string) AS ours",
            "CAST(offset AS string) AS theirs",
        )
    )  # fmt: skip


def _owners(tables: Tables) -> DataFrame:
    """Two owners of one partition are two rows on either side."""
    known = tables[BASELINE_GROUPS].where("owners_known").select("group_id")
    ours = tables[OWNERSHIP_INTERVALS.name].where("end_log_offset IS NULL AND group_type = 'classic'")
    key = [*PLACE, "member_id"]
    return (
        ours.join(known, "group_id", "left_semi")
        .selectExpr(*key, "log_partition", "member_id AS ours")
        .join(tables[BASELINE_OWNERS].selectExpr(*key, "member_id AS theirs"), key, "full")
        .where("NOT (ours <=> theirs)")
        .selectExpr(*PLACE, "log_partition", "'owner' AS what", "ours", "theirs")
    )
