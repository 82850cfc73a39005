"""Spark's mapInArrow and applyInArrow for a machine without pandas.

Spark's own methods go through `pandas_udf`, which insists on pandas although nothing of these two ever touches it. What
it calls next does not insist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


def map_in_arrow(
    frame: DataFrame, function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: str
) -> DataFrame:
    """`function` gets the batches of a Spark partition and yields others, with `schema` (as in DDL)."""
    from pyspark.sql import DataFrame
    from pyspark.util import PythonEvalType

    column = _columns_into(frame, function, schema, PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    return DataFrame(frame._jdf.mapInArrow(column._jc, False, None), frame.sparkSession)


def apply_in_arrow(frame: DataFrame, by: list[str], function: Callable[..., pa.Table], schema: str) -> DataFrame:
    """`function` gets all rows with the same values in `by` as one table and gives one back, with `schema`.

    With two parameters it gets the values first, as a tuple of Arrow scalars.
    """
    from pyspark.sql import DataFrame
    from pyspark.util import PythonEvalType

    column = _columns_into(frame, function, schema, PythonEvalType.SQL_GROUPED_MAP_ARROW_UDF)
    return DataFrame(frame.groupBy(*by)._jgd.flatMapGroupsInArrow(column._jc), frame.sparkSession)


def _columns_into(frame: DataFrame, function: Callable[..., Any], schema: str, kind: int) -> Any:
    from pyspark.sql.pandas.functions import vectorized_udf  # type: ignore[attr-defined]

    wrapped = vectorized_udf(function, returnType=schema, functionType=kind)
    return wrapped(*[frame[name] for name in frame.columns])
