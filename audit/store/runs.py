"""The tables of an audit as Parquet under one folder, which remembers what compaction has removed since.

    store = Store(out)
    run = store.begin(run_id)                          # sees what finished runs have left, and what it adds itself
    read = run.ingest(spark, folders)                  # base tables: what is new in the logs
    run.work_out(spark)                                # derived tables, from the whole of the base tables
    run.finish(rows_of_audit_runs)                     # from here on it counts

Base tables only grow: a run adds the records from the log offset on where the last one ended, per log partition. So a
run must get all records of a log partition, not only those of a group or of a time, or later ones will never read the
rest. Derived tables are those of the last finished run. Both count when the run's rows in audit_runs are there, which
is one file that appears whole; files of a run that was killed are removed by the next one.

A commit in a transaction that was open is kept apart until a later run reads how it ended; see store_files.py.

Files are read and written where Spark's tasks run, in Arrow from end to end. On a cluster the folder must therefore be
one that all machines see, or an address of pyarrow.fs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kohort.audit.decode.folders import LogFolder
from kohort.audit.decode.schemas import schema
from kohort.audit.store.files import OWN, TAILS, Lock, StoreFiles
from kohort.audit.store.tasks import Ingested, cut_files, derive_files, ingest_folders
from kohort.audit.store.undecided import settle
from kohort.audit.tables import AUDIT_RUNS, BASE, DERIVED_TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DERIVED = tuple(table.name for table in DERIVED_TABLES)


class Store:
    def __init__(self, out: str) -> None:
        self.files = StoreFiles(out)

    def begin(self, run_id: str) -> Run:
        """A new run. What killed ones have left is removed. StoreBusy, if another is going on."""
        lock = self.files.lock()
        finished = self.files.finished_runs()
        for table in (*BASE, *OWN, *DERIVED):
            for stray in set(self.files.runs_of(table)) - set(finished):
                self.files.remove(table, stray)
        return Run(self.files, finished, run_id, lock)


class Run:
    """One audit's part of the store, which it has to itself until `finish` or `release`."""

    def __init__(self, files: StoreFiles, finished: Sequence[str], run_id: str, lock: Lock | None) -> None:
        self.run_id = run_id
        self.runs = [*finished, run_id]  # whose base tables count
        self._lock = lock
        self._files = files
        self._is_settled = False
        self._cut_id: str | None = None

    def ingest(self, spark: SparkSession, folders: Sequence[LogFolder]) -> list[Ingested]:
        """All base tables of these folders, from where the last run ended. A folder that fails adds nothing."""
        return ingest_folders(spark, self._files, self.run_id, folders, self._files.next_offsets())

    def _settle(self) -> None:
        if not self._is_settled:
            settle(self._files, self.runs[:-1], self.run_id)
            self._is_settled = True

    def work_out(self, spark: SparkSession) -> None:
        """The derived tables, from the whole of the base tables."""
        self._settle()
        derive_files(spark, self._files, self.runs)

    def cut(self, spark: SparkSession, until: datetime) -> str:
        """The tables as if the log had ended then, for the time of this run; the run id under which they are."""
        self._settle()
        self._cut_id = f"{self.run_id}-cut"
        cut_files(spark, self._files, self.runs, until, self._cut_id)
        return self._cut_id

    def finish(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """The run counts from here on; what was so only after runs before is no longer needed. `rows`: audit_runs."""
        assert rows, "a run that has read nothing is none"
        self._settle()
        self._files.write_run(pa.Table.from_pylist(list(rows), schema=schema(AUDIT_RUNS.name)), self.run_id)
        for table in (*DERIVED, TAILS):
            for run_id in self._files.runs_of(table):
                if run_id != self.run_id:
                    self._files.remove(table, run_id)
        self.release()

    def release(self) -> None:
        """Let others begin; what was not finished will not count."""
        if self._cut_id is not None:
            for table in (*BASE, *DERIVED):
                self._files.remove(table, self._cut_id)
            self._cut_id = None
        if self._lock is not None:
            self._lock.release()
