"""Base tables -> ownership, rebalances, what-if, commit steps, facts about partitions.

records.py    rows about one group -> its records in the order of the log
history.py    these records -> who owned what when, and what each rebalance did
moves.py      how much an assignment moved, and how much of that it could have done without
what_if.py    what other assignors would have done
commits.py    visible commits, sorted by place
steps.py      each beside the one before, the owner, the generation in force
facts.py      what can be said of each partition
partition.py  all of it for one partition of the log, in Arrow

Spark runs partition.py for each partition of the log. `derive` takes any DataFrames, shuffles them by log partition and
keeps the result in memory. A store's files lie by log partition already: Store.derive reads and writes them where the
tasks run, which is several times as fast for millions of commits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from audit.arrow import apply_in_arrow
from audit.decode.schemas import schema
from audit.derive.partition import MADE, NEEDED, derive_partition
from audit.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


def derive(spark: SparkSession, base: Mapping[str, DataFrame]) -> dict[str, DataFrame]:  # noqa: ARG001 - for symmetry
    """The tables of MADE, from those of NEEDED; kept in memory as soon as one of them is asked for."""
    from pyspark.sql import functions as f

    frames = [
        base[name].select(
            "log_partition",
            *[
                f.struct(*schema(name).names).alias(name) if name == other else _nothing(other).alias(other)
                for other in NEEDED
            ],
        )
        for name in NEEDED
    ]
    together = frames[0].unionAll(frames[1]).unionAll(frames[2])
    ddl = ", ".join(f"{name} struct<{_inner(name)}>" for name in MADE)
    made = apply_in_arrow(together, ["log_partition"], _derive_rows, ddl).persist()
    return {name: made.where(f.col(name).isNotNull()).select(f"{name}.*") for name in MADE}


def _inner(table: str) -> str:
    return ", ".join(f"`{column.name}`: {column.type}" for column in TABLES[table].columns)


def _nothing(table: str) -> Column:
    from pyspark.sql import functions as f

    return f.lit(None).cast(f"struct<{_inner(table)}>")


def _derive_rows(rows: pa.Table) -> pa.Table:
    """One log partition: a row has one of the base tables' columns, and gets one of the derived tables'."""
    log_partition = rows["log_partition"][0].as_py()
    base = {name: _unpacked(rows[name], schema(name)) for name in NEEDED}
    made = derive_partition(log_partition, base)
    parts = [
        pa.table({other: _packed(table) if other == name else pa.nulls(len(table), _type(other)) for other in MADE})
        for name, table in made.items()
    ]
    return pa.concat_tables(parts)


def _type(table: str) -> pa.DataType:
    return pa.struct(list(schema(table)))


def _packed(table: pa.Table) -> pa.ChunkedArray:
    return table.to_struct_array().cast(pa.struct(list(table.schema)))


def _unpacked(column: pa.ChunkedArray, of: pa.Schema) -> pa.Table:
    there = column.filter(pc.is_valid(column)).combine_chunks()
    return pa.table([there.field(name) for name in of.names], schema=of) if len(there) else of.empty_table()
