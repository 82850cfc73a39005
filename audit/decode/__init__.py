"""Reads log folders into Arrow, as the base tables of audit/tables.py; knows nothing of Spark.

folders.py   finds the folders in what a user names
files.py     local files and other addresses
segments.py  the files of a folder, although a broker may rewrite them meanwhile
walk.py      the bytes of a file -> batches, and what is wrong with them
split.py     batches -> records, many at once, with the help of vector.py
commits.py   records that commit offsets -> columns, many at once
rows.py      all other records -> rows, one by one
share_states.py  records of __share_group_state -> columns, many at once
transaction_states.py  records of __transaction_state -> rows, one by one
scan.py      all of these together: a folder -> the rows of one table
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pyarrow as pa

from kohort.audit.decode.folders import LogFolder
from kohort.audit.decode.scan import scan
from kohort.audit.decode.schemas import schema
from kohort.audit.decode.wanted import EVERYTHING, Wanted

__all__ = ["EVERYTHING", "Wanted", "read_table", "read_tables", "schema", "whole_tables"]


def read_table(
    folder: LogFolder,
    table: str,
    *,
    group: str | None = None,
    since_ms: int | None = None,
    until_ms: int | None = None,
    from_offset: int | None = None,
    until_offset: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of a base table in a folder; those of one group, of record times in [since, until), of log offsets in
    [from, until).

    Rows of log_batches have no group; they are taken if any of their records could be.
    """
    wanted = Wanted(group, since_ms, until_ms, from_offset, until_offset)
    return (batch for _, batch in scan(folder, (table,), wanted))


def read_tables(
    folder: LogFolder, tables: Collection[str], wanted: Wanted = EVERYTHING
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of several tables, each with the table's name, for about the price of one."""
    return scan(folder, tables, wanted)


def whole_tables(folder: LogFolder, tables: Collection[str], wanted: Wanted = EVERYTHING) -> dict[str, pa.Table]:
    """The same, each table in one piece."""
    found: dict[str, list[pa.RecordBatch]] = {name: [] for name in tables}
    for name, batch in read_tables(folder, tables, wanted):
        found[name].append(batch)
    return {name: pa.Table.from_batches(batches, schema(name)) for name, batches in found.items()}
