"""One group's history for the time machine, without Spark: its folder is one of 50, and a JVM takes longer to start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from audit.decode import read_table, schema
from audit.derive.partition import NEEDED, derive_partition
from audit.derive.records import CLASSIC_GENERATION, CURRENT
from audit.owners import TimeMachine
from audit.result import AuditError
from audit.store import Store
from audit.tables import COMMIT_STEPS, GROUP_GENERATIONS, MEMBER_ASSIGNMENTS, OWNERSHIP_INTERVALS

ROWS = ["record_time", "log_offset", "generation"]


def from_folders(paths: Sequence[str], group: str) -> tuple[TimeMachine, list[str]]:
    """From the log as it is now, and a line for each path that cannot be read."""
    from audit.find import find_folders

    folders, problems = find_folders(paths, group)
    tables: dict[str, list[pa.Table]] = {}
    for folder in folders:
        base = {name: _together(name, read_table(folder, name, group=group)) for name in NEEDED}
        for name, table in (base | derive_partition(folder.log_partition, base)).items():
            tables.setdefault(name, []).append(table)
    return _machine({name: pa.concat_tables(parts) for name, parts in tables.items()}), problems


def from_store(out: str, group: str) -> TimeMachine:
    """From the tables of earlier audits."""
    files = Store(out).files
    runs = files.finished_runs()
    if not runs:
        raise AuditError(f"{out}: no finished audit has left its tables there")

    def rows(table: str, of_runs: Sequence[str]) -> pa.Table:
        places = [info.path for run in of_runs for info in files.files_in(table, f"run={run}")]
        parts = [files.read(path, filters=pc.field("group_id") == group) for path in places]
        return pa.concat_tables([schema(table).empty_table(), *parts])

    base = {name: rows(name, runs) for name in (GROUP_GENERATIONS.name, MEMBER_ASSIGNMENTS.name)}
    return _machine(base | {name: rows(name, runs[-1:]) for name in (OWNERSHIP_INTERVALS.name, COMMIT_STEPS.name)})


def _together(name: str, batches: Any) -> pa.Table:
    return pa.Table.from_batches(list(batches), schema(name))


def _machine(tables: Mapping[str, pa.Table]) -> TimeMachine:
    members, generations = tables[MEMBER_ASSIGNMENTS.name], tables[GROUP_GENERATIONS.name]
    epochs = members.filter(pc.equal(members["record_type"], CURRENT)).select(["member_id", *ROWS])
    classic = generations.filter(pc.equal(generations["record_type"], CLASSIC_GENERATION)).select(["tombstone", *ROWS])
    commits = tables[COMMIT_STEPS.name].select(["topic", "partition", "time", "log_offset", "offset"])
    intervals = tables[OWNERSHIP_INTERVALS.name]
    return TimeMachine(intervals.to_pylist(), classic.to_pylist(), epochs.to_pylist(), commits.to_pylist())
