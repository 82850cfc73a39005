"""The scans bring what the tables hold, whoever makes them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from audit.report.gather import INTERVAL, PROBLEM, REBALANCE, RUN, STEP
from audit.report.source import Source, SparkSource, source_of
from tests.audit.report.example import Example
from tests.audit.report.frames import source_without_spark, tables_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLACES = [("one", "t", 1), ("three", "t", 2)]


def an_example() -> Example:
    example = Example()
    for name in ("one", "two", "three"):
        example.generations(name, {"t": 3}, rebalances=9, members=3)
        example.commits(name, {"t": 3}, count=50, minutes=9, rewinds=[(1, 7, 900)])
    example.log(3, damaged=True)
    return example


def everything_of(source: Source, windows: dict[str, tuple[int, int]]) -> list[pa.Table]:
    return [
        source.table("rebalances", REBALANCE, ["one"]),
        source.intervals(INTERVAL, windows),
        source.steps(STEP, PLACES, 1),
        source.segments(),
        source.problems(PROBLEM, 5),
        source.table("audit_runs", RUN),
    ]


def test_spark_and_arrow_bring_the_same(spark: SparkSession) -> None:
    example = an_example()
    starts = {row["group_id"]: row["log_offset"] for row in example.rows["rebalances"] if row["generation"] == 5}
    windows = {group_id: (start, start + 300) for group_id, start in starts.items()}
    by_spark = everything_of(SparkSource(tables_of(spark, example)), windows)
    for told, expected in zip(by_spark, everything_of(source_without_spark(example), windows), strict=True):
        assert _in_order(told) == _in_order(expected)


def test_what_is_brought_is_what_was_asked_for() -> None:
    example = an_example()
    source = source_without_spark(example)
    rows = [row for row in example.rows["ownership_intervals"] if row["group_id"] == "one"]
    middle = sorted({row["start_log_offset"] for row in rows})[4]
    drawn = [
        row for row in rows
        if row["start_log_offset"] <= middle and (row["end_log_offset"] is None or row["end_log_offset"] > middle)
    ]  # fmt: skip
    assert len(source.intervals(INTERVAL, {"one": (middle, middle)})) == len(drawn) < len(rows)
    steps = source.steps(STEP, PLACES, 1)
    assert set(zip(*(steps[name].to_pylist() for name in ("group_id", "topic", "partition")), strict=True)) == set(
        PLACES
    )
    assert len(steps) == 100


def test_a_sample_keeps_every_step_back(spark: SparkSession) -> None:
    example = an_example()
    for source in (source_without_spark(example), SparkSource(tables_of(spark, example))):
        sample = source.steps(STEP, [("one", "t", 1)], 10)
        assert 0 < len(sample) < 25
        assert -900 in sample["step"].to_pylist()


def test_a_table_of_parquet_files_is_read_without_spark(spark: SparkSession, tmp_path: Path) -> None:
    example = an_example()
    frame = tables_of(spark, example)["rebalances"]
    frame.write.parquet(f"{tmp_path}/a table of 100%")
    stored = spark.read.parquet(f"{tmp_path}/a table of 100%")
    told = []
    for tables in ({"rebalances": stored}, {"rebalances": stored.where("generation >= 0")}):
        source = source_of(tables)
        told.append(_in_order(source.table("rebalances", REBALANCE)))
        assert len(source.table("findings", ["check"])) == 0, "a table that is not there is empty"
    assert told[0] == told[1] == _in_order(source_without_spark(example).table("rebalances", REBALANCE))
    spark.sparkContext.setJobGroup("scan", "none should run")
    source_of({"rebalances": stored}).table("rebalances", REBALANCE)
    assert list(spark.sparkContext.statusTracker().getJobIdsForGroup("scan")) == []


def _in_order(table: pa.Table) -> list[str]:
    return sorted(map(str, table.select(sorted(table.column_names)).to_pylist()))
