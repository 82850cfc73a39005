"""From a data folder to findings, through everything but Spark and the command line: decode, derive, check."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from kohort.audit.decode import read_table, schema
from kohort.audit.decode.folders import find_logs
from kohort.audit.derive.partition import MADE, NEEDED, derive_partition
from kohort.audit.tables import AUDIT_RUNS, BASE_TABLES

Row = dict[str, Any]


def tables_of(*paths: Path) -> dict[str, pa.Table]:
    """Base and derived tables and audit_runs of all log folders in `paths`, as a first audit would have them."""
    folders, problems = find_logs([str(path) for path in paths])
    assert not problems
    parts: dict[str, list[pa.Table]] = {}
    runs = []
    for folder in folders:
        base = {
            table.name: pa.Table.from_batches(read_table(folder, table.name), schema(table.name))
            for table in BASE_TABLES
        }
        made = derive_partition(folder.log_partition, {name: base[name] for name in NEEDED})
        for name, rows in (base | {name: made[name] for name in MADE}).items():
            parts.setdefault(name, []).append(rows)
        runs.append(
            {
                "run_id": "first", "path": folder.path, "log_partition": folder.log_partition,
                "first_log_offset": folder.first_offset, "from_log_offset": 0,
                "end_log_offset": folder.end_offset, "cleaned_to": folder.cleaned_to,
            }
        )  # fmt: skip
    parts[AUDIT_RUNS.name] = [pa.Table.from_pylist(runs, schema(AUDIT_RUNS.name))]
    return {name: pa.concat_tables(some) for name, some in parts.items()}


def of_check(rows: Sequence[Row], check: str, **where: Any) -> list[Row]:
    """Those of one check; with these values in these columns."""
    return [row for row in rows if row["check"] == check and all(row[name] == value for name, value in where.items())]


def explain(rows: Sequence[Row]) -> str:
    """For people who read what a test printed."""
    return "\n".join(
        f"{row['severity']:8} {row['check']:36} {row['group_id'] or ''} {row['topic'] or ''}-{row['partition']}"
        f" @{row['log_partition']}:{row['log_offset']} value={row['value']}: {row['message']}"
        for row in rows
    )
