"""Python over Arrow inside a query, without pandas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from kohort.audit.spark.arrow import map_in_arrow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_function_maps_the_batches_of_a_partition(spark: SparkSession) -> None:
    def double(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_arrays([pc.multiply(batch["id"], 2)], ["twice"])

    rows = map_in_arrow(spark.range(5), double, "twice bigint").collect()
    assert sorted(row.twice for row in rows) == [0, 2, 4, 6, 8]
