"""Python over Arrow inside a query, without pandas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from audit.arrow import apply_in_arrow, map_in_arrow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_function_maps_the_batches_of_a_partition(spark: SparkSession) -> None:
    def double(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_arrays([pc.multiply(batch["id"], 2)], ["twice"])

    rows = map_in_arrow(spark.range(5), double, "twice bigint").collect()
    assert sorted(row.twice for row in rows) == [0, 2, 4, 6, 8]


def test_a_function_sees_all_rows_of_a_group_at_once(spark: SparkSession) -> None:
    def count(key: tuple[pa.Scalar], rows: pa.Table) -> pa.Table:
        return pa.table({"odd": pa.array([key[0].as_py()], pa.int64()), "rows": pa.array([rows.num_rows], pa.int64())})

    numbers = spark.range(5).selectExpr("id", "id % 2 as odd")
    rows = apply_in_arrow(numbers, ["odd"], count, "odd bigint, rows bigint").collect()
    assert sorted((row.odd, row.rows) for row in rows) == [(0, 3), (1, 2)]
