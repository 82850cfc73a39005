"""Merges the tables of many small runs into one, so that a store of hundreds of nightly runs stays quick to read.

The newest runs that are small, up to the one before the last, become one run. Its files are written first, and then its
file in audit_runs, whose metadata names the runs that it replaces: from that moment on they do not count. So a merge
that is killed has happened or not. The files of replaced runs are removed afterwards, or by the next run.

Large runs are left as they are: each row is written again few times, however long the store is used.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from kohort.audit.decode.schemas import schema
from kohort.audit.store import topic_names
from kohort.audit.store.files import REPLACES, SUFFIX, TOPIC_NAMES, StoreFiles
from kohort.audit.tables import BASE

MERGE_AT = 30  # runs
LARGE_BYTES = 256 << 20  # of the base tables of a run


def merge_small_runs(files: StoreFiles, runs: Sequence[str]) -> str | None:
    """Merge the newest of `runs` if there are many small ones. Returns the name of the run that they became."""
    small: list[str] = []
    for run_id in reversed(runs if len(runs) >= MERGE_AT else ()):
        if sum(info.size for table in BASE for info in files.files_in(table, f"run={run_id}")) >= LARGE_BYTES:
            break
        small.insert(0, run_id)
    if len(small) < MERGE_AT:
        return None
    merged = f"{small[-1]}-merged"
    for table in (*BASE, TOPIC_NAMES):
        _merge_table(files, table, small, merged)
    about = files.read_runs()
    about = about.filter(pc.is_in(about["run_id"], pa.array(small)))
    place = about.schema.get_field_index("run_id")
    about = about.set_column(place, about.schema.field(place), pa.array([merged] * len(about), pa.string()))
    files.write_run(about.replace_schema_metadata({REPLACES: json.dumps(small)}), merged)
    files.remove_replaced()
    return merged


def _merge_table(files: StoreFiles, table: str, runs: Sequence[str], merged: str) -> None:
    of = topic_names.SCHEMA if table == TOPIC_NAMES else schema(table)
    names = {info.base_name for run_id in runs for info in files.files_in(table, f"run={run_id}")}
    for name in sorted(base_name.removesuffix(SUFFIX) for base_name in names):
        rows = files.read_named(table, runs, [name], of=of)
        if table == TOPIC_NAMES:
            rows = rows.group_by(of.names).aggregate([])
        files.write(rows, table, merged, name)
