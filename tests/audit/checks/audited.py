"""From a data folder to findings, through everything but Spark and the command line: decode, derive, check."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kohort.audit import pipeline
from kohort.audit.checks import Settings
from kohort.audit.checks.kit.baseline import Answers
from kohort.audit.checks.kit.part import COLUMNS
from kohort.audit.decode import schema
from kohort.audit.decode.folders import find_logs
from kohort.audit.store.topic_names import name_topics
from kohort.audit.tables import AUDIT_RUNS

Row = dict[str, Any]


def tables_of(*paths: Path) -> dict[str, pa.Table]:
    """Base and derived tables and audit_runs of all log folders in `paths`, as a first audit would have them."""
    folders, problems = find_logs([str(path) for path in paths])
    assert not problems
    bases: dict[int, Mapping[str, pa.Table]] = {folder.log_partition: pipeline.decode(folder) for folder in folders}
    name_topics(bases)
    parts: dict[str, list[pa.Table]] = {}
    runs = []
    for folder in folders:
        for name, rows in pipeline.derive(folder.log_partition, bases[folder.log_partition]).items():
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


def check_tables(
    tables: Mapping[str, pa.Table], settings: Settings | None = None, *, only: Collection[str] | None = None,
    baseline: Answers | None = None, since: datetime | None = None,
) -> tuple[list[Row], list[Row]]:  # fmt: skip
    """Findings and check_results of such tables."""
    runs = tables[AUDIT_RUNS.name].to_pylist()
    numbers = sorted({number for name in COLUMNS for number in tables[name]["log_partition"].unique().to_pylist()})
    parts = {
        number: {name: tables[name].filter(pc.field("log_partition") == number) for name in COLUMNS}
        for number in numbers
    }
    return pipeline.check_all(parts, runs, settings, only=only, baseline=baseline, since=since)


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
