"""Spark's mapInArrow for a machine without pandas.

Spark's own method calls `pandas_udf`, which refuses to work without pandas, although mapInArrow does not use pandas. So
the function that `pandas_udf` calls next is called directly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


def map_in_arrow(
    frame: DataFrame, function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: str
) -> DataFrame:
    """`function` gets the batches of a Spark partition and yields batches of `schema`, which is written as DDL."""
    from pyspark.sql import DataFrame
    from pyspark.sql.pandas.functions import vectorized_udf  # type: ignore[attr-defined]
    from pyspark.util import PythonEvalType

    wrapped = vectorized_udf(function, returnType=schema, functionType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    column = wrapped(*[frame[name] for name in frame.columns])
    return DataFrame(frame._jdf.mapInArrow(column._jc, False, None), frame.sparkSession)
