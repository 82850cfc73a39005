"""Batches whose bytes are not the ones that were written."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.functions import expr

from audit.checks.kit.check import CRITICAL, Check, Limits, findings, times
from audit.checks.kit.tables import Tables
from audit.tables import LOG_BATCHES

CHECK = Check(
    "crc_mismatch",
    CRITICAL,
    "Record batches whose checksum does not match their bytes.",
    "Restore this log partition from a replica or a copy, and look at the disk: a broker refuses to load it.",
)


def find(tables: Tables, _: Limits) -> DataFrame:
    damaged = (
        tables[LOG_BATCHES.name]
        .where("problem = 'crc'")
        .groupBy("log_partition")
        .agg(
            expr("count(*) AS n"),
            expr("min_by(struct(log_offset, segment, position, detail, max_time), log_offset) AS first"),
        )
    )
    return findings(
        CHECK,
        damaged,
        log_partition="log_partition",
        log_offset="first.log_offset",
        time="first.max_time",
        value="n",
        message=f"concat({times('n', 'batch', 'batches')}, ' with a wrong checksum, the first in segment ',"
        " first.segment, ' at byte ', first.position, coalesce(concat(': ', first.detail), ''))",
    )
