"""The tables of an audit as Parquet under one folder, which remembers what compaction has removed since.

    store = Store(out)
    run = store.begin(run_id)                          # sees what finished runs have left, and what it adds itself
    read = run.ingest(spark, folders)                  # base tables: what is new in the logs
    tables = run.derive(spark)                         # derived tables, from the whole of the base tables
    run.replace(spark, "findings", findings)           # tables that somebody else has worked out
    run.finish(rows_of_audit_runs)                     # from here on it counts

Base tables only grow: a run adds the records from the log offset on where the last one ended, per log partition. So a
run must get all records of a log partition, not only those of a group or of a time, or later ones will never read the
rest. Derived tables are those of the last finished run. Both count when the run's rows in audit_runs are there, which
is one file that appears whole; files of a run that was killed are removed by the next one.

A commit in a transaction that was open is kept apart until a later run reads how it ended; see store_files.py.

`ingest` and `derive` read and write files where Spark's tasks run, in Arrow from end to end. On a cluster the folder
must therefore be one that all machines see, or an address of pyarrow.fs that Spark's Hadoop knows as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from audit.decode.folders import LogFolder
from audit.decode.schemas import schema
from audit.derive.partition import MADE
from audit.store_files import STILL_OPEN, SUFFIX, TOPIC_NAMES, UNDECIDED, Lock, StoreFiles, settle
from audit.store_tasks import BASE, Ingested, add_rows, derive_files, ingest_folders
from audit.tables import AUDIT_RUNS, DERIVED_TABLES, OFFSET_COMMITS, TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["BASE", "DERIVED", "Ingested", "Run", "Store"]

DERIVED = tuple(table.name for table in DERIVED_TABLES)


class Store:
    def __init__(self, out: str) -> None:
        self.files = StoreFiles(out)
        self.out = out

    def begin(self, run_id: str) -> Run:
        """A new run. What killed ones have left is removed. StoreBusy, if another is going on."""
        lock = self.files.lock()
        finished = self.files.finished_runs()
        for table in (*BASE, UNDECIDED, TOPIC_NAMES, *DERIVED):
            for stray in set(self.files.runs_of(table)) - set(finished):
                self.files.remove(table, stray)
        return Run(self.files, finished, run_id, lock)

    def table(self, spark: SparkSession, name: str) -> DataFrame:
        """As the last finished run has left it."""
        return _Reader(self.files, self.files.finished_runs()).table(spark, name)

    def next_offsets(self) -> dict[int, int]:
        """The first log offset that was not yet read, by log partition."""
        return _next_offsets(self.files)


def _next_offsets(files: StoreFiles) -> dict[int, int]:
    runs = files.read_runs()
    ends = (
        runs.filter(runs["end_log_offset"].is_valid()).group_by("log_partition").aggregate([("end_log_offset", "max")])
    )
    return dict(zip(ends["log_partition"].to_pylist(), ends["end_log_offset_max"].to_pylist(), strict=True))


class _Reader:
    """Tables of some runs, the last of which has the derived ones."""

    def __init__(self, files: StoreFiles, runs: Sequence[str]) -> None:
        self._files = files
        self._runs = runs

    def table(self, spark: SparkSession, name: str) -> DataFrame:
        of_runs = set(self._files.runs_of(name))
        if name == AUDIT_RUNS.name:
            places = [self._files.address(name, f"{run_id}{SUFFIX}") for run_id in self._runs]
        elif name in BASE:
            places = [self._files.address(name, f"run={run_id}") for run_id in self._runs if run_id in of_runs]
        else:
            places = [self._files.address(name, f"run={run_id}") for run_id in self._runs[-1:] if run_id in of_runs]
        if name == OFFSET_COMMITS.name and self._runs and self._files.exists(UNDECIDED, self._runs[-1], STILL_OPEN):
            places.append(self._files.address(UNDECIDED, f"run={self._runs[-1]}", STILL_OPEN + SUFFIX))
        if not places:
            return spark.createDataFrame([], TABLES[name].ddl)
        return spark.read.schema(TABLES[name].ddl).parquet(*places)


class Run:
    """One audit's part of the store, which it has to itself until `finish` or `release`."""

    def __init__(self, files: StoreFiles, finished: Sequence[str], run_id: str, lock: Lock | None) -> None:
        self.run_id = run_id
        self._lock = lock
        self._files = files
        self._finished = finished
        self._is_settled = False

    def table(self, spark: SparkSession, name: str) -> DataFrame:
        """What finished runs have left and this one has added; derived tables are this one's only."""
        self._settle()
        return _Reader(self._files, [*self._finished, self.run_id]).table(spark, name)

    # --- base tables

    def add(self, name: str, frame: DataFrame) -> None:
        """Rows of a base table that are new, from anywhere. `ingest` is the quick way for log folders."""
        add_rows(self._files, self.run_id, name, frame)

    def ingest(self, spark: SparkSession, folders: Sequence[LogFolder]) -> list[Ingested]:
        """All base tables of these folders, from where the last run ended. A folder that fails adds nothing."""
        return ingest_folders(spark, self._files, self.run_id, folders, _next_offsets(self._files))

    def _settle(self) -> None:
        if not self._is_settled:
            settle(self._files, self._finished, self.run_id)
            self._is_settled = True

    # --- derived tables

    def work_out(self, spark: SparkSession) -> None:
        """The tables of MADE, from the whole of the base tables."""
        self._settle()
        derive_files(spark, self._files, [*self._finished, self.run_id])

    def derive(self, spark: SparkSession) -> dict[str, DataFrame]:
        """Work them out, and here they are."""
        self.work_out(spark)
        return {name: self.table(spark, name) for name in MADE}

    def replace(self, spark: SparkSession, name: str, frame: DataFrame) -> DataFrame:
        """A derived table, worked out elsewhere."""
        address = self._files.address(name, f"run={self.run_id}")
        frame.select(*schema(name).names).write.mode("overwrite").parquet(address)
        return self.table(spark, name)

    # --- the end

    def finish(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """The run counts from here on, and derived tables of runs before are no longer needed. `rows`: audit_runs."""
        assert rows, "a run that has read nothing is none"
        self._settle()
        self._files.write_run(pa.Table.from_pylist(list(rows), schema=schema(AUDIT_RUNS.name)), self.run_id)
        for table in DERIVED:
            for run_id in self._files.runs_of(table):
                if run_id != self.run_id:
                    self._files.remove(table, run_id)
        self.release()

    def release(self) -> None:
        """Let others begin; what was not finished will not count."""
        if self._lock is not None:
            self._lock.release()
