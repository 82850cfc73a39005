"""What Spark's tasks do with the files of a store: read log folders into them, and work out derived tables.

Nothing but a few rows about it goes through Spark: rows of tables go from Arrow straight to Parquet and back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kohort.audit.decode import read_tables
from kohort.audit.decode.folders import LogFolder
from kohort.audit.decode.schemas import arrow_type, schema
from kohort.audit.decode.wanted import Wanted
from kohort.audit.derive.partition import NEEDED, derive_partition
from kohort.audit.spark.arrow import map_in_arrow
from kohort.audit.spark.packing import pack, task_count
from kohort.audit.store.files import BASE, OWN, SETTLED, SUFFIX, TAILS, StoreFiles
from kohort.audit.store.writers import FolderWriters, Tail
from kohort.audit.tables import LOG_BATCHES, OFFSET_COMMITS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


Batches = Iterator[pa.RecordBatch]


class Ingested(NamedTuple):
    """What became of one folder."""

    path: str
    log_partition: int
    from_log_offset: int
    end_log_offset: int | None  # None: it could not be read
    records: int
    problem: str | None


INGESTED = {
    "path": "string", "log_partition": "int", "from_log_offset": "bigint", "end_log_offset": "bigint",
    "records": "bigint", "problem": "string",
}  # fmt: skip


# --- base tables ----------------------------------------------------------------------------------


def ingest_folders(
    spark: SparkSession, files: StoreFiles, run_id: str, folders: Sequence[LogFolder], offsets: Mapping[int, int]
) -> list[Ingested]:
    """All base tables of the folders, from these log offsets on."""
    numbers = [folder.log_partition for folder in folders]
    if twice := sorted({number for number in numbers if numbers.count(number) > 1}):
        raise ValueError(f"log partition {twice[0]} is there twice: logs of one broker at a time")
    packs = pack([(folder, folder.size_bytes) for folder in folders], task_count(spark))

    def ingest(number: int) -> Iterator[tuple[Any, ...]]:
        for folder in packs[number]:
            yield ingest_folder(files, run_id, folder, offsets.get(folder.log_partition, 0))

    return sorted(Ingested(*row) for row in run_tasks(spark, len(packs), ingest, INGESTED))


def ingest_folder(
    files: StoreFiles, run_id: str, folder: LogFolder, start: int,
    take: Callable[[str, pa.RecordBatch], object] | None = None,
) -> Ingested:  # fmt: skip
    """All base tables of one folder. `take` gets what is written, too."""
    if folder.end_offset < start:
        problem = f"ends at log offset {folder.end_offset}, but {start} was read before: is it another broker's?"
        return Ingested(folder.path, folder.log_partition, start, None, 0, problem)
    records = 0
    tail = Tail(folder.active_base)
    try:
        with FolderWriters(files, run_id, folder.log_partition) as writers:
            for name, batch in read_tables(folder, BASE, Wanted(from_offset=start)):
                if take is not None:
                    take(name, batch)
                if name == LOG_BATCHES.name:
                    records += pc.sum(batch["record_count"]).as_py() or 0
                    batch = tail.without_doubtful(batch)
                writers.write(name, batch)
            inside, behind = tail.inside_and_behind()
            for batch in inside.to_batches():
                writers.write(LOG_BATCHES.name, batch)
            for batch in behind.to_batches():
                writers.write(TAILS, batch)
            writers.write_topics()
    except OSError as error:  # what is written of it must not count: the next run begins here again
        for name in (*BASE, *OWN):
            files.remove_file(name, run_id, folder.log_partition)
        return Ingested(folder.path, folder.log_partition, start, None, 0, error.strerror or str(error))
    return Ingested(folder.path, folder.log_partition, start, folder.end_offset, records, None)


# --- derived tables -------------------------------------------------------------------------------


def derive_files(spark: SparkSession, files: StoreFiles, runs: Sequence[str]) -> None:
    """Derived tables of the last of the runs, from the base tables of all of them."""
    packs = pack(_sizes(files, runs, NEEDED).items(), task_count(spark))

    def derive(number: int) -> Iterator[tuple[Any, ...]]:
        for log_partition in packs[number]:
            base = {name: files.read_rows(name, runs, log_partition) for name in NEEDED}
            for name, table in derive_partition(log_partition, base).items():
                files.write(table, name, runs[-1], log_partition)
        return iter(())

    run_tasks(spark, len(packs), derive, {"done": "boolean"})


def cut_files(spark: SparkSession, files: StoreFiles, runs: Sequence[str], until: datetime, cut_id: str) -> None:
    """All tables of these runs as if the log had ended then, as those of a run of its own."""
    packs = pack(_sizes(files, runs, BASE).items(), task_count(spark))

    def cut(number: int) -> Iterator[tuple[Any, ...]]:
        for log_partition in packs[number]:
            base = {name: _before(until, name, files.read_rows(name, runs, log_partition)) for name in BASE}
            for name, table in (base | derive_partition(log_partition, base)).items():
                files.write(table, name, cut_id, log_partition)
        return iter(())

    run_tasks(spark, len(packs), cut, {"done": "boolean"})


def _before(until: datetime, name: str, rows: pa.Table) -> pa.Table:
    time = rows["max_time" if name == LOG_BATCHES.name else "record_time"]
    return rows.filter(pc.less(time, pa.scalar(until, time.type)))


def _sizes(files: StoreFiles, runs: Sequence[str], names: Sequence[str]) -> dict[int, int]:
    """How many bytes there are of each log partition."""
    of = pa.schema([schema(OFFSET_COMMITS.name).field("log_partition")])
    late = files.read_named(OFFSET_COMMITS.name, runs, [SETTLED], of=of)  # perhaps all that there is of one
    sizes: dict[int, int] = dict.fromkeys(late["log_partition"].unique().to_pylist(), 0)
    for info in (info for name in names for run_id in runs for info in files.files_in(name, f"run={run_id}")):
        name = info.base_name.removesuffix(SUFFIX)
        if name != SETTLED:
            sizes[int(name)] = sizes.get(int(name), 0) + info.size
    return sizes


# --- tasks ----------------------------------------------------------------------------------------


def run_tasks(
    spark: SparkSession, count: int, task: Callable[[int], Iterator[tuple[Any, ...]]], columns: Mapping[str, str]
) -> list[tuple[Any, ...]]:
    """One Spark task per number below `count`. The rows that they yield."""
    if not count:
        return []
    of = pa.schema([(name, arrow_type(kind)) for name, kind in columns.items()])

    def run(batches: Batches) -> Batches:
        for batch in batches:
            for number in batch["id"].to_pylist():
                rows = [dict(zip(columns, row, strict=True)) for row in task(number)]
                yield pa.RecordBatch.from_pylist(rows, schema=of)

    ddl = ", ".join(f"{name} {kind}" for name, kind in columns.items())
    return [tuple(row) for row in map_in_arrow(spark.range(0, count, 1, count), run, ddl).collect()]
