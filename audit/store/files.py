"""The files of a store: Parquet files by table, run and log partition. Spark tasks use it too, so no Spark here.

    OUT/<table>/run=<run id>/<log partition>.parquet
    OUT/audit_runs/<run id>.parquet                         written last: without it the files of the run do not count

A store has three tables of its own:

undecided_commits  Commits in transactions that have no marker in the log yet. They go to offset_commits when a later
                   run has read the marker; see undecided.py.
topic_names        The name of each topic id, from commits that have both.
log_tails          Damage behind the last sound batch of a log. The broker may still be writing there, or it will cut
                   the damage off at its next start. The next run reads that part again, so these rows count only for
                   the run that has read them, and do not go to log_batches.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType, LocalFileSystem

from kohort.audit.decode.schemas import schema
from kohort.audit.store import topic_names
from kohort.audit.store.lock import FolderLock, Lease, StoreLock
from kohort.audit.tables import AUDIT_RUNS, BASE, LOG_BATCHES, OFFSET_COMMITS

UNDECIDED, TOPIC_NAMES, TAILS = "undecided_commits", "topic_names", "log_tails"
OWN = (UNDECIDED, TOPIC_NAMES, TAILS)  # tables of the store itself
SETTLED, STILL_OPEN = "settled", "open"  # names of files with rows of several log partitions
SUFFIX = ".parquet"
REPLACES = b"kohort.replaces"  # in the metadata of a merged run's file in audit_runs: JSON list of run ids


@dataclass(frozen=True)
class StoreFiles:
    """Finds, reads and writes the files. Spark tasks get a copy."""

    out: str  # a folder, or an address of pyarrow.fs

    @lru_cache  # noqa: B019 - there are few instances, and connecting may ask a server
    def connect(self) -> tuple[FileSystem, str]:
        if "://" in self.out:
            filesystem, path = FileSystem.from_uri(self.out)
            return filesystem, path.rstrip("/")
        return LocalFileSystem(), os.path.abspath(self.out)

    def lock(self) -> StoreLock:
        """Lock the store against other runs. StoreBusy if one is going on."""
        filesystem, root = self.connect()
        if not isinstance(filesystem, LocalFileSystem):
            return Lease(filesystem, root)
        os.makedirs(root, exist_ok=True)
        return FolderLock(root)

    # --- runs

    def finished_runs(self) -> list[str]:
        """Run ids, in the order in which the runs finished."""
        runs = self.read_runs()
        order = runs.group_by("run_id").aggregate([("finished", "max")]).sort_by("finished_max")
        found: list[str] = order["run_id"].to_pylist()
        return found

    def read_runs(self) -> pa.Table:
        """The table audit_runs, without runs that were merged into another one; see merge.py."""
        tables, replaced = self._runs_and_replaced()
        kept = [table.replace_schema_metadata() for run_id, table in tables.items() if run_id not in replaced]
        return pa.concat_tables([schema(AUDIT_RUNS.name).empty_table(), *kept])

    def remove_replaced(self) -> None:
        """Remove the files of runs that were merged into another one."""
        filesystem, root = self.connect()
        for run_id in self._runs_and_replaced()[1]:
            for table in (*BASE, *OWN):
                self.remove(table, run_id)
            with suppress(FileNotFoundError):  # the last one: it says that the others can go
                filesystem.delete_file(f"{root}/{AUDIT_RUNS.name}/{run_id}{SUFFIX}")

    def _runs_and_replaced(self) -> tuple[dict[str, pa.Table], set[str]]:
        """Run id -> its rows in audit_runs; and the runs that do not count any more, as far as there are files."""
        tables = {info.base_name.removesuffix(SUFFIX): self.read(info.path) for info in self.files_in(AUDIT_RUNS.name)}
        metadata = [table.schema.metadata or {} for table in tables.values()]
        replaced = {run_id for each in metadata if REPLACES in each for run_id in json.loads(each[REPLACES])}
        return tables, replaced & tables.keys()

    def next_offsets(self) -> dict[int, int]:
        """Log partition -> the first log offset that no run has read yet."""
        runs = self.read_runs()
        read = runs.filter(runs["end_log_offset"].is_valid())
        ends = read.group_by("log_partition").aggregate([("end_log_offset", "max")])
        return dict(zip(ends["log_partition"].to_pylist(), ends["end_log_offset_max"].to_pylist(), strict=True))

    # --- files

    def files_in(self, *names: str) -> list[FileInfo]:
        """Parquet files in a folder of the store, in the order of their names."""
        filesystem, root = self.connect()
        found = filesystem.get_file_info(FileSelector("/".join((root, *names)), allow_not_found=True))
        return sorted(
            (info for info in found if info.type == FileType.File and info.path.endswith(SUFFIX)),
            key=lambda info: info.path,
        )

    def sizes(self, tables: Iterable[tuple[str, str]]) -> dict[int, int]:
        """Bytes by log partition in these tables and runs. Files with several log partitions are left out."""
        found: dict[int, int] = {}
        for info in (info for table, run_id in tables for info in self.files_in(table, f"run={run_id}")):
            name = info.base_name.removesuffix(SUFFIX)
            if name.isdigit():
                found[int(name)] = found.get(int(name), 0) + info.size
        return found

    def runs_of(self, table: str) -> list[str]:
        """Runs that have a folder in the table, finished or not."""
        filesystem, root = self.connect()
        found = filesystem.get_file_info(FileSelector(f"{root}/{table}", allow_not_found=True))
        return sorted(info.base_name.removeprefix("run=") for info in found if info.type == FileType.Directory)

    def files_of(self, table: str, runs: Sequence[str]) -> list[str]:
        """All files with rows of a table. Base tables: of all these runs; derived tables: of the last one."""
        found = [
            info for run_id in (runs if table in BASE else runs[-1:]) for info in self.files_in(table, f"run={run_id}")
        ]
        for run_id in runs[-1:]:
            if table == LOG_BATCHES.name:
                found += self.files_in(TAILS, f"run={run_id}")
            elif table == OFFSET_COMMITS.name:
                still_open = self.files_in(UNDECIDED, f"run={run_id}")
                found += [info for info in still_open if info.base_name == STILL_OPEN + SUFFIX]
        return [info.path for info in found]

    def read(self, path: str, **how: Any) -> pa.Table:
        filesystem, _ = self.connect()
        return pq.read_table(path, filesystem=filesystem, use_threads=False, partitioning=None, **how)

    def read_rows(
        self, table: str, runs: Sequence[str], log_partition: int, *, of: pa.Schema | None = None
    ) -> pa.Table:
        """One log partition's rows in these runs, with the columns of `of`.

        Base tables are completed by what the store knows now: commits whose transaction ended later, or was open at the
        end of the last run; names of topics for records with only a topic id; the damaged end of the log in the last
        run.
        """
        rows = self.read_named(table, runs, [log_partition], of=of)
        if table == OFFSET_COMMITS.name:
            here = pc.field("log_partition") == log_partition
            settled = self.read_named(table, runs, [SETTLED], of=of, filters=here)
            still_open = self.read_named(UNDECIDED, runs[-1:], [STILL_OPEN], of=rows.schema, filters=here)
            return pa.concat_tables([rows, settled, still_open])
        if table == LOG_BATCHES.name:
            return pa.concat_tables([rows, self.read_named(TAILS, runs[-1:], [log_partition], of=rows.schema)])
        if topic_names.has_nameless({table: rows}):
            return topic_names.named(table, rows, self._topic_names(tuple(runs)))
        return rows

    @lru_cache(maxsize=1)  # noqa: B019 - the same for all log partitions of a task, and read from very many files
    def _topic_names(self, runs: tuple[str, ...]) -> dict[str, str]:
        paths = [info.path for run_id in runs for info in self.files_in(TOPIC_NAMES, f"run={run_id}")]
        known = pa.concat_tables([topic_names.SCHEMA.empty_table(), *map(self.read, paths)])
        return dict(zip(*(known[name].to_pylist() for name in topic_names.SCHEMA.names), strict=True))

    def read_named(
        self, table: str, runs: Sequence[str], names: Sequence[str | int], *, of: pa.Schema | None = None,
        filters: Any = None,
    ) -> pa.Table:  # fmt: skip
        """All rows of the files with these names."""
        filesystem, root = self.connect()
        paths = [f"{root}/{table}/run={run_id}/{name}{SUFFIX}" for run_id in runs for name in names]
        found = [info.path for info in filesystem.get_file_info(paths) if info.type == FileType.File]
        kept = of or schema(table)
        tables = [self.read(path, columns=kept.names, filters=filters).cast(kept) for path in found]
        return pa.concat_tables([kept.empty_table(), *tables])

    def write(self, rows: pa.Table, table: str, run_id: str, name: str | int) -> None:
        with self.writer(table, run_id, name, rows.schema) as writer:
            writer.write_table(rows)

    def writer(self, table: str, run_id: str, name: str | int, of: pa.Schema) -> pq.ParquetWriter:
        filesystem, root = self.connect()
        folder = f"{root}/{table}/run={run_id}"
        filesystem.create_dir(folder)
        texts = [path for field in of for path in _texts(field.name, field.type)]
        return pq.ParquetWriter(f"{folder}/{name}{SUFFIX}", of, filesystem=filesystem, use_dictionary=texts)

    def write_run(self, rows: pa.Table, run_id: str) -> None:
        """Write audit_runs: from here on the run counts. The file appears as a whole: objects of an object store always
        do, and a local file is renamed into place."""
        filesystem, root = self.connect()
        folder = f"{root}/{AUDIT_RUNS.name}"
        filesystem.create_dir(folder)
        if not isinstance(filesystem, LocalFileSystem):
            pq.write_table(rows, f"{folder}/{run_id}{SUFFIX}", filesystem=filesystem)
            return
        unfinished = f"{folder}/.{run_id}.unfinished"
        pq.write_table(rows, unfinished, filesystem=filesystem)
        filesystem.move(unfinished, f"{folder}/{run_id}{SUFFIX}")

    def remove(self, table: str, run_id: str) -> None:
        filesystem, root = self.connect()
        with suppress(FileNotFoundError):
            filesystem.delete_dir(f"{root}/{table}/run={run_id}")

    def remove_file(self, table: str, run_id: str, name: str | int) -> None:
        filesystem, root = self.connect()
        with suppress(FileNotFoundError):
            filesystem.delete_file(f"{root}/{table}/run={run_id}/{name}{SUFFIX}")


def _texts(path: str, kind: pa.DataType) -> Iterator[str]:
    """Paths of text columns. They are written with a dictionary; for numbers it takes time and saves no space."""
    if pa.types.is_string(kind):
        yield path
    elif pa.types.is_list(kind):
        yield from _texts(f"{path}.list.element", kind.value_type)
    elif pa.types.is_struct(kind):
        for field in kind:
            yield from _texts(f"{path}.{field.name}", field.type)
