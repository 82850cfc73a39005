"""Log offsets that come twice, or are missing where compaction has not been."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.functions import expr

from audit.checks.kit.check import CLEANER_CHECKPOINT, CRITICAL, Check, Limits, findings, times
from audit.checks.kit.tables import Tables
from audit.tables import LOG_BATCHES

CHECK = Check(
    "offset_overlap_or_gap",
    CRITICAL,
    "Batches that begin before the one before them ends, or leave offsets out above the cleaner's checkpoint.",
    "Compare this log partition with a replica or a copy: records were lost or numbered twice.",
    needs=(CLEANER_CHECKPOINT,),
)

IN_ORDER = "OVER (PARTITION BY log_partition ORDER BY log_offset, last_log_offset)"


def find(tables: Tables, _: Limits) -> DataFrame:
    """Numbers lie outside the checksums, so this is the only witness of a change to them."""
    cleaned = " ".join(f"WHEN {place} THEN {offset}" for place, offset in tables.complete_from.items() if offset)
    cleaned = f"CASE log_partition {cleaned} ELSE 0 END" if cleaned else "0"
    unknown = ", ".join(map(str, tables.unknown_cleaning)) or "-1"
    beside = (
        tables[LOG_BATCHES.name]
        .where("log_offset IS NOT NULL")
        .selectExpr(
            "log_partition", "log_offset", "max_time",
            f"lag(last_log_offset) {IN_ORDER} + 1 AS expected",
        )
        .where("log_offset <> expected")
        .where(f"log_offset < expected OR (log_offset > {cleaned} AND log_partition NOT IN ({unknown}))")
        .groupBy("log_partition")
        .agg(
            expr("count_if(log_offset < expected) AS overlaps"),
            expr("count_if(log_offset > expected) AS gaps"),
            expr("coalesce(sum(if(log_offset > expected, log_offset - expected, 0)), 0) AS missing"),
            expr("min_by(struct(log_offset, expected, max_time), log_offset) AS first"),
        )
    )  # fmt: skip
    return findings(
        CHECK,
        beside,
        log_partition="log_partition",
        log_offset="first.log_offset",
        time="first.max_time",
        value="overlaps + gaps",
        message=f"concat({times('overlaps', 'overlap')}, ' and ', {times('gaps', 'gap')},"
        f" ' (', {times('missing', 'offset')}, ' missing); first a batch at ', first.log_offset,"
        " ' where ', first.expected, ' should be')",
    )
