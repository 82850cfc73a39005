"""Rows of an example as Spark tables."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from audit.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.audit.report.example import Example


def tables_of(spark: SparkSession, example: Example) -> dict[str, DataFrame]:
    return {name: _frame(spark, name, rows) for name, rows in example.rows.items()}


def _frame(spark: SparkSession, name: str, rows: list[dict[str, Any]]) -> DataFrame:
    table = TABLES[name]
    times = [column.name for column in table.columns if column.type == "timestamp"]
    for row in rows:
        for column in times:
            if isinstance(row[column], int):
                row[column] = datetime.fromtimestamp(row[column] / 1000, UTC)
    return spark.createDataFrame([tuple(row.values()) for row in rows], table.ddl)
