"""Records that nobody can read, or only a newer Kafka."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.functions import expr

from audit.checks.kit.check import ERROR, INFO, Check, Limits, findings, literal, times
from audit.checks.kit.tables import Tables
from audit.tables import LOG_BATCHES, OTHER_RECORDS

CHECK = Check(
    "undecodable_record",
    ERROR,
    "Bytes between batches, batches and records that cannot be decoded, and records of an unknown type.",
    "An unknown type comes from a newer Kafka and is skipped; anything else stops a coordinator from loading: find out"
    " who wrote it.",
)


def at_the_end(tables: Tables) -> str:
    """Of rows of log_batches, in SQL: no readable batch comes after it in its log partition."""
    last = {one.log_partition: one for one in tables.segments if one.last_good_position >= 0}
    if not last:
        return "true"
    cases = " ".join(
        f"WHEN {place} THEN segment > {one.segment}"
        f" OR (segment = {one.segment} AND position > {one.last_good_position})"
        for place, one in last.items()
    )
    return f"(CASE log_partition {cases} ELSE true END)"


def find(tables: Tables, _: Limits) -> DataFrame:
    batches = (
        tables[LOG_BATCHES.name]
        .where(f"problem = 'undecodable' OR (problem IN ('torn', 'garbage') AND NOT {at_the_end(tables)})")
        .selectExpr(
            "log_partition", "log_offset", "max_time AS time", "CAST(NULL AS string) AS group_id", "problem",
            "concat('batch at byte ', position, ' of segment ', segment, coalesce(concat(', ', detail), '')) AS detail",
        )
    )  # fmt: skip
    records = (
        tables[OTHER_RECORDS.name]
        .where("problem IS NOT NULL")
        .selectExpr(
            "log_partition", "log_offset", "record_time AS time", "group_id", "problem",
            "coalesce(detail, concat('type ', record_type)) AS detail",
        )
    )  # fmt: skip
    bad = (
        batches.unionAll(records)
        .groupBy("log_partition", "problem")
        .agg(expr("count(*) AS n"), expr("min_by(struct(*), coalesce(log_offset, -1)) AS first"))
    )
    return findings(
        CHECK,
        bad,
        severity=f"if(problem = 'unknown', {literal(INFO)}, {literal(ERROR)})",
        group_id="if(n = 1, first.group_id, NULL)",
        log_partition="log_partition",
        log_offset="first.log_offset",
        time="first.time",
        value="n",
        message=f"concat({times('n', 'place', 'places')}, ' (', problem, '), the first: ', first.detail)",
    )
