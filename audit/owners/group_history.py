"""Reads the history of one group for the time machine. Without Spark: one folder is read before a JVM has started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from kohort.audit import pipeline
from kohort.audit.decode import Wanted, files, schema
from kohort.audit.decode.access import kept_open
from kohort.audit.decode.find import find_folders
from kohort.audit.derive.records import CURRENT
from kohort.audit.derive.steps import IN_FORCE
from kohort.audit.owners.time_machine import TimeMachine
from kohort.audit.result import AuditError
from kohort.audit.store import topic_names
from kohort.audit.store.files import StoreFiles
from kohort.audit.tables import (
    COMMIT_STEPS,
    GROUP_GENERATIONS,
    MEMBER_ASSIGNMENTS,
    OWNERSHIP_INTERVALS,
    SHARE_MEMBERS,
    SHARE_STEPS,
)
from kohort.protocol.log_records import SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT

ROWS = ["record_time", "log_offset", "generation"]
DERIVED = (OWNERSHIP_INTERVALS.name, COMMIT_STEPS.name, SHARE_MEMBERS.name, SHARE_STEPS.name)
MEMBERS_EPOCHS = pa.array([CURRENT, SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT], pa.int32())


def from_folders(paths: Sequence[str], group: str, command_config: str | None = None) -> tuple[TimeMachine, list[str]]:
    """The history in the log as it is now, and a line for each path that cannot be read."""
    bases: dict[int, Mapping[str, pa.Table]] = {}
    with kept_open():
        folders, problems = find_folders(paths, group, command_config)
        for folder in folders:
            try:
                bases[folder.log_partition] = pipeline.decode(folder, Wanted(group=group), pipeline.NEEDED)
            except OSError as problem:
                problems.append(f"{files.shown(folder.path)}: {problem.strerror or problem}")
    if not bases:
        raise AuditError("\n".join(problems))
    topic_names.name_topics(bases)
    tables: dict[str, list[pa.Table]] = {}
    for log_partition, base in bases.items():
        for name, table in pipeline.derive(log_partition, base).items():
            tables.setdefault(name, []).append(table)
    return _machine({name: pa.concat_tables(parts) for name, parts in tables.items()}), problems


def from_store(out: str, group: str) -> TimeMachine:
    """The history in the tables of earlier audits."""
    try:
        return _from_files(StoreFiles(out), group)
    except (OSError, ValueError) as problem:  # of pyarrow; they do not name the folder
        raise AuditError(files.shown(f"{out}: {problem}")) from problem


def _from_files(stored: StoreFiles, group: str) -> TimeMachine:
    runs = stored.finished_runs()
    if not runs:
        raise AuditError(f"{files.shown(stored.out)}: no finished audit has left its tables there")

    def rows(table: str, of_runs: Sequence[str]) -> pa.Table:
        places = [info.path for run in of_runs for info in stored.files_in(table, f"run={run}")]
        parts = [stored.read(path, filters=pc.field("group_id") == group) for path in places]
        return pa.concat_tables([schema(table).empty_table(), *parts])

    base = {name: rows(name, runs) for name in (GROUP_GENERATIONS.name, MEMBER_ASSIGNMENTS.name)}
    return _machine(base | {name: rows(name, runs[-1:]) for name in DERIVED})


def _machine(tables: Mapping[str, pa.Table]) -> TimeMachine:
    members, generations = tables[MEMBER_ASSIGNMENTS.name], tables[GROUP_GENERATIONS.name]
    epochs = members.filter(pc.is_in(members["record_type"], MEMBERS_EPOCHS)).select(["member_id", *ROWS])
    numbered = pc.is_in(generations["record_type"], pa.array(IN_FORCE, pa.int32()))
    in_force = generations.filter(numbered).select(["tombstone", "record_type", *ROWS])
    commits = tables[COMMIT_STEPS.name].select(["topic", "partition", "time", "log_offset", "offset"])
    intervals, share_members = tables[OWNERSHIP_INTERVALS.name], tables[SHARE_MEMBERS.name]
    steps = ["topic", "topic_id", "partition", "time", "log_offset", "start_offset", "tombstone"]
    return TimeMachine(
        intervals.to_pylist(), in_force.to_pylist(), epochs.to_pylist(), commits.to_pylist(), share_members.to_pylist(),
        tables[SHARE_STEPS.name].select(steps).to_pylist(),
        is_of_streams=bool(pc.any(pc.equal(generations["group_type"], "streams")).as_py()),
    )  # fmt: skip
