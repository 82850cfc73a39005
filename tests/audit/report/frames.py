"""Rows of an example as tables of Arrow, behind the report's seam."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds

from kohort.audit.decode.schemas import schema
from kohort.audit.report.source import Source

if TYPE_CHECKING:
    from tests.audit.report.example import Example


def _arrow(name: str, rows: list[dict[str, Any]]) -> pa.Table:
    """The times of an example are milliseconds; tables have microseconds."""
    wanted = schema(name)
    times = [field.name for field in wanted if pa.types.is_timestamp(field.type)]
    columns = {field.name: [row[field.name] for row in rows] for field in wanted}
    for column in times:
        columns[column] = [None if ms is None else ms * 1000 for ms in columns[column]]
    return pa.table(columns, schema=wanted)


def source_without_spark(example: Example) -> Source:
    return Source({name: ds.dataset(_arrow(name, rows)) for name, rows in example.rows.items()})
