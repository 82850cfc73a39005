"""Rows of an example as tables: of Arrow behind the report's seam, or of Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from audit.decode.schemas import schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from audit.report.source import Place
    from tests.audit.report.example import Example


def tables_of(spark: SparkSession, example: Example) -> dict[str, DataFrame]:
    return {name: spark.createDataFrame(_arrow(name, rows)) for name, rows in example.rows.items()}


def _arrow(name: str, rows: list[dict[str, Any]]) -> pa.Table:
    """The times of an example are milliseconds; tables have microseconds."""
    wanted = schema(name)
    times = [field.name for field in wanted if pa.types.is_timestamp(field.type)]
    columns = {field.name: [row[field.name] for row in rows] for field in wanted}
    for column in times:
        columns[column] = [None if ms is None else ms * 1000 for ms in columns[column]]
    return pa.table(columns, schema=wanted)


class ArrowSource:
    """What SparkSource does, without Spark. test_source.py compares the two."""

    def __init__(self, example: Example) -> None:
        self._tables = {name: _arrow(name, rows) for name, rows in example.rows.items()}

    def table(self, name: str, columns: Sequence[str], groups: Sequence[str] | None = None) -> pa.Table:
        table = self._tables[name]
        if groups is not None:
            table = table.filter(pc.is_in(table["group_id"], pa.array(groups, pa.string())))
        return table.select(list(columns))

    def intervals(self, columns: Sequence[str], windows: Mapping[str, tuple[int, int]]) -> pa.Table:
        rows = [
            row
            for row in self._tables["ownership_intervals"].to_pylist()
            if row["group_id"] in windows
            and row["start_log_offset"] <= windows[row["group_id"]][1]
            and (row["end_log_offset"] is None or row["end_log_offset"] > windows[row["group_id"]][0])
        ]
        return pa.Table.from_pylist(rows, schema("ownership_intervals")).select(list(columns))

    def steps(self, columns: Sequence[str], places: Sequence[Place], one_in: int) -> pa.Table:
        wanted = set(places)
        rows = [
            row
            for row in self._tables["commit_steps"].to_pylist()
            if (row["group_id"], row["topic"], row["partition"]) in wanted and row["offset"] is not None
        ]
        return pa.Table.from_pylist(rows, schema("commit_steps")).select(list(columns))

    def segments(self) -> pa.Table:
        sums = [("size_bytes", "sum"), ([], "count_all"), ("record_count", "sum"), ("log_offset", "min"),
                ("last_log_offset", "max"), ("problem", "count")]  # fmt: skip
        keys = ["log_partition", "segment", "codec"]
        names = ["bytes", "batches", "records", "first", "last", "problems"]
        return self._tables["log_batches"].group_by(keys).aggregate(sums).rename_columns([*keys, *names])

    def problems(self, columns: Sequence[str], limit: int) -> pa.Table:
        table = self._tables["log_batches"]
        return table.filter(table["problem"].is_valid()).select(list(columns)).slice(0, limit)
