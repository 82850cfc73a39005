"""What Spark tasks do with a store: read log folders into it, derive tables in it, cut its tables at a moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kohort.audit import pipeline
from kohort.audit.decode import Wanted, read_tables
from kohort.audit.decode.folders import LogFolder
from kohort.audit.decode.schemas import schema
from kohort.audit.spark.tasks import for_each
from kohort.audit.store.files import OWN, SETTLED, StoreFiles
from kohort.audit.store.writers import FolderWriters
from kohort.audit.tables import BASE, LOG_BATCHES, OFFSET_COMMITS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Take = Callable[[str, pa.RecordBatch], object]


class Ingested(NamedTuple):
    """What became of one folder."""

    path: str
    log_partition: int
    from_log_offset: int
    end_log_offset: int | None  # None: it could not be read
    records: int
    problem: str | None


# --- base tables ----------------------------------------------------------------------------------


def ingest_folders(
    spark: SparkSession | None, files: StoreFiles, run_id: str, folders: Sequence[LogFolder], offsets: Mapping[int, int]
) -> list[Ingested]:
    """Write all base tables of the folders, each from the log offset of its log partition in `offsets`."""
    numbers = [folder.log_partition for folder in folders]
    if twice := sorted({number for number in numbers if numbers.count(number) > 1}):
        raise ValueError(f"log partition {twice[0]} is there twice: logs of one broker at a time")

    def ingest(folder: LogFolder) -> Ingested:
        return ingest_folder(files, run_id, folder, offsets.get(folder.log_partition, 0))

    return sorted(for_each(spark, [(folder, folder.size_bytes) for folder in folders], ingest))


def ingest_folder(
    files: StoreFiles, run_id: str, folder: LogFolder, start: int, take: Take | None = None
) -> Ingested:  # fmt: skip
    """Write all base tables of one folder. `take` is called with everything that was decoded, too."""
    if folder.end_offset < start:
        problem = f"ends at log offset {folder.end_offset}, but {start} was read before: is it another broker's?"
        return Ingested(folder.path, folder.log_partition, start, None, 0, problem)
    records = 0
    try:
        with FolderWriters(files, run_id, folder) as writers:
            for name, batch in read_tables(folder, BASE, Wanted(from_offset=start)):
                if take is not None:
                    take(name, batch)
                if name == LOG_BATCHES.name:
                    records += pc.sum(batch["record_count"]).as_py() or 0
                writers.write(name, batch)
            writers.finish()
    except OSError as error:  # remove what was written of the folder: the next run reads it again from `start`
        for name in (*BASE, *OWN):
            files.remove_file(name, run_id, folder.log_partition)
        return Ingested(folder.path, folder.log_partition, start, None, 0, error.strerror or str(error))
    return Ingested(folder.path, folder.log_partition, start, folder.end_offset, records, None)


# --- derived tables -------------------------------------------------------------------------------


def derive_files(spark: SparkSession | None, files: StoreFiles, runs: Sequence[str]) -> None:
    """Write the derived tables of the last of the runs, from the base tables of all of them."""

    def derive(log_partition: int) -> None:
        base = {name: files.read_rows(name, runs, log_partition) for name in pipeline.NEEDED}
        tables = pipeline.derive(log_partition, base)
        for name in pipeline.MADE:
            files.write(tables[name], name, runs[-1], log_partition)

    for_each(spark, _sizes(files, runs, pipeline.NEEDED).items(), derive)


def cut_files(spark: SparkSession | None, files: StoreFiles, runs: Sequence[str], until: datetime, cut_id: str) -> None:
    """Write all tables as if the log had ended at `until`, under the name `cut_id` instead of a run's."""

    def cut(log_partition: int) -> None:
        base = {name: _before(until, name, files.read_rows(name, runs, log_partition)) for name in BASE}
        for name, table in pipeline.derive(log_partition, base).items():
            files.write(table, name, cut_id, log_partition)

    for_each(spark, _sizes(files, runs, BASE).items(), cut)


def _before(until: datetime, name: str, rows: pa.Table) -> pa.Table:
    time = rows["max_time" if name == LOG_BATCHES.name else "record_time"]
    return rows.filter(pc.less(time, pa.scalar(until, time.type)))


def _sizes(files: StoreFiles, runs: Sequence[str], names: Sequence[str]) -> dict[int, int]:
    """Bytes to read of each log partition. One that has only late commits, in the file SETTLED, counts with 0."""
    of = pa.schema([schema(OFFSET_COMMITS.name).field("log_partition")])
    late = files.read_named(OFFSET_COMMITS.name, runs, [SETTLED], of=of)
    return dict.fromkeys(late["log_partition"].unique().to_pylist(), 0) | files.sizes(
        (name, run_id) for name in names for run_id in runs
    )
