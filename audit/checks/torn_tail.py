"""The end of a log that was not written as a whole."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.functions import expr

from audit.checks.kit.check import WARNING, Check, Limits, findings
from audit.checks.kit.tables import Tables
from audit.checks.undecodable_record import at_the_end
from audit.tables import LOG_BATCHES

CHECK = Check(
    "torn_tail",
    WARNING,
    "Bytes at the end of a log partition that are no whole batch.",
    "After a crash, or in a copy of a running broker's files, this is normal and the broker cuts it off; else copy"
    " again.",
)


def find(tables: Tables, _: Limits) -> DataFrame:
    ends = {one.log_partition: one.end for one in tables.segments if one.end > 0}  # in order: the last one stays
    end = f"CASE log_partition {' '.join(f'WHEN {place} THEN {offset}' for place, offset in ends.items())} END"
    torn = (
        tables[LOG_BATCHES.name]
        .where("problem IN ('torn', 'garbage')")
        .where(at_the_end(tables))
        .groupBy("log_partition")
        .agg(expr("sum(size_bytes) AS bytes"), expr("min_by(struct(*), struct(segment, position)) AS first"))
    )
    return findings(
        CHECK,
        torn,
        log_partition="log_partition",
        log_offset=end if ends else "NULL",
        value="bytes",
        message="concat('the last ', bytes, ' bytes, from byte ', first.position, ' of segment ', first.segment,"
        " ' on, are no whole batch', coalesce(concat(': ', first.detail), ''))",
    )
