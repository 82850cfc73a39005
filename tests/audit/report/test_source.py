"""Spark's scans bring what the tables hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from audit.report.gather import INTERVAL, PROBLEM, REBALANCE, RUN, STEP
from audit.report.source import SparkSource
from tests.audit.report.example import Example
from tests.audit.report.frames import ArrowSource, tables_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_spark_brings_what_the_tables_hold(spark: SparkSession) -> None:
    example = Example()
    for name in ("one", "two", "three"):
        example.generations(name, {"t": 3}, rebalances=9, members=3)
        example.commits(name, {"t": 3}, count=50, minutes=9, rewinds=[(1, 7, 900)])
    example.log(3, damaged=True)
    by_spark, by_arrow = SparkSource(tables_of(spark, example)), ArrowSource(example)
    windows = {
        row["group_id"]: (row["log_offset"], row["log_offset"] + 900) for row in example.rows["rebalances"][4::9]
    }
    places = [("one", "t", 1), ("three", "t", 2)]
    for told, expected in (
        (
            by_spark.table("rebalances", REBALANCE, ["one"]),
            by_arrow.table("rebalances", REBALANCE, ["one"]),
        ),
        (by_spark.intervals(INTERVAL, windows), by_arrow.intervals(INTERVAL, windows)),
        (by_spark.steps(STEP, places, 1), by_arrow.steps(STEP, places, 1)),
        (by_spark.segments(), by_arrow.segments()),
        (by_spark.problems(PROBLEM, 5), by_arrow.problems(PROBLEM, 5)),
        (by_spark.table("audit_runs", RUN), by_arrow.table("audit_runs", RUN)),
    ):
        assert _in_order(told) == _in_order(expected)
    sample = by_spark.steps(STEP, [("one", "t", 1)], 10)
    assert 0 < len(sample) < 25
    assert -900 in sample["step"].to_pylist(), "a sample keeps every step back"


def _in_order(table: pa.Table) -> list[str]:
    return sorted(map(str, table.select(sorted(table.column_names)).to_pylist()))
