"""The Arrow types of the tables, as Spark expects them, and how to make columns from Python values."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

import pyarrow as pa

from kohort.audit.tables import MAX_MS, TABLES

TIMESTAMP = pa.timestamp("us", tz="UTC")
_SIMPLE = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "timestamp": TIMESTAMP,
}


@cache
def schema(table: str) -> pa.Schema:
    """The Arrow schema of a table of audit/tables.py."""
    return pa.schema([pa.field(column.name, arrow_type(column.type)) for column in TABLES[table].columns])


def arrow_type(ddl: str) -> pa.DataType:
    """The Arrow type for int, array<string>, array<struct<topic:string,partition:int>> and the like."""
    if ddl in _SIMPLE:
        return _SIMPLE[ddl]
    kind, _, inner = ddl.removesuffix(">").partition("<")
    if kind == "array":
        return pa.list_(pa.field("element", arrow_type(inner)))
    assert kind == "struct", ddl
    fields = [field.split(":", 1) for field in inner.split(",")]
    return pa.struct([pa.field(name, arrow_type(of)) for name, of in fields])


def micros(ms: int | None) -> int | None:
    """Microseconds for a time in ms; None for no time, and for one that Python cannot represent."""
    return None if ms is None or ms < 0 or ms > MAX_MS else ms * 1000


@lru_cache(maxsize=100_000)
def uuid_text(raw: bytes) -> str:
    """An id as Kafka prints it."""
    return urlsafe_b64encode(raw).decode().rstrip("=")


def from_rows(table: str, rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    """A batch from tuples in the order of the columns; times are microseconds."""
    of = schema(table)
    columns: Sequence[Sequence[Any]] = list(zip(*rows, strict=True)) or [()] * len(of)
    return pa.record_batch([column(values, field.type) for values, field in zip(columns, of, strict=True)], schema=of)


def column(values: Sequence[Any], of: pa.DataType) -> pa.Array:
    """A list object that occurs several times is converted once: decoded values are shared between rows."""
    if not pa.types.is_list(of):
        return pa.array(values, of)
    seen: dict[int, int] = {}
    distinct: list[Any] = []
    places = []
    for value in values:
        place = seen.setdefault(id(value), len(distinct))
        if place == len(distinct):
            distinct.append(value)
        places.append(place)
    if len(distinct) == len(values):
        return pa.array(values, of)
    return pa.array(distinct, of).take(pa.array(places, pa.int32()))
