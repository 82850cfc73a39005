"""The tables of audits as Parquet files under one folder, which remember what compaction has removed since.

    store = Store(out)
    run = store.begin(run_id)                          # sees the tables of finished runs, and its own
    read = run.ingest(spark, folders)                  # base tables: what is new in the logs
    run.work_out(spark)                                # derived tables, from all base tables
    run.finish(rows_of_audit_runs)                     # from here on the run counts

Base tables only grow: a run reads each log partition from the log offset where the last run ended. So a run must read
all records of a log partition, not only those of one group or time; later runs would never read the rest. Derived
tables are those of the last finished run. A run counts when its file in audit_runs is there, which appears as a whole.
The files of a run that was killed are removed by the next run. When there are many small runs, they become one; see
merge.py.

A commit in an open transaction is kept apart until a later run reads how the transaction ended; see undecided.py.

Spark tasks read and write the files, in Arrow from end to end. So on a cluster the folder must be one that all machines
see, or an address that pyarrow.fs knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kohort.audit.decode.folders import LogFolder
from kohort.audit.decode.schemas import schema
from kohort.audit.store.files import OWN, TAILS, StoreFiles
from kohort.audit.store.lock import StoreLock
from kohort.audit.store.merge import merge_small_runs
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
        """Begin a run, and remove what killed runs have left. StoreBusy if another run is going on."""
        lock = self.files.lock()
        try:
            self.files.remove_replaced()
            finished = self.files.finished_runs()
            for table in (*BASE, *OWN, *DERIVED):
                for stray in set(self.files.runs_of(table)) - set(finished):
                    self.files.remove(table, stray)
        except BaseException:
            lock.release()
            raise
        return Run(self.files, finished, run_id, lock)


class Run:
    """One audit into the store. No other may begin before `finish` or `release`."""

    def __init__(self, files: StoreFiles, finished: Sequence[str], run_id: str, lock: StoreLock) -> None:
        self.run_id = run_id
        self.runs = [*finished, run_id]  # the runs whose base tables are read
        self._lock = lock
        self._files = files
        self._is_settled = False
        self._cut_id: str | None = None

    def ingest(self, spark: SparkSession | None, folders: Sequence[LogFolder]) -> list[Ingested]:
        """Read the base tables of these folders, from where the last run ended. A folder that fails adds nothing."""
        return ingest_folders(spark, self._files, self.run_id, folders, self._files.next_offsets())

    def _settle(self) -> None:
        if not self._is_settled:
            settle(self._files, self.runs[:-1], self.run_id)
            self._is_settled = True

    def work_out(self, spark: SparkSession | None) -> None:
        """Derive the other tables from all base tables."""
        self._settle()
        derive_files(spark, self._files, self.runs)

    def cut(self, spark: SparkSession | None, until: datetime) -> str:
        """Write all tables as if the log had ended at `until`, for the time of this run. Returns their run id."""
        self._settle()
        self._cut_id = f"{self.run_id}-cut"
        cut_files(spark, self._files, self.runs, until, self._cut_id)
        return self._cut_id

    def finish(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """From here on the run counts. Derived tables of earlier runs are removed. `rows`: for audit_runs."""
        assert rows, "a run that has read nothing is none"
        self._settle()
        self._lock.check()
        self._files.write_run(pa.Table.from_pylist(list(rows), schema=schema(AUDIT_RUNS.name)), self.run_id)
        for table in (*DERIVED, TAILS):
            for run_id in self._files.runs_of(table):
                if run_id != self.run_id:
                    self._files.remove(table, run_id)
        merge_small_runs(self._files, self.runs[:-1])
        self.release()

    def release(self) -> None:
        """Let other runs begin. Without `finish`, this run does not count."""
        if self._cut_id is not None:
            for table in (*BASE, *DERIVED):
                self._files.remove(table, self._cut_id)
            self._cut_id = None
        self._lock.release()
