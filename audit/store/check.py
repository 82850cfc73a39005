"""The checks as Spark runs them: a task takes some log partitions and reads what it needs from the files of a store."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from kohort.audit.checks.kit.baseline import Answers
from kohort.audit.checks.kit.check import Row
from kohort.audit.checks.kit.part import COLUMNS, Part
from kohort.audit.checks.kit.world import World, make_world
from kohort.audit.checks.run import check_part, conclude
from kohort.audit.checks.settings import Settings
from kohort.audit.decode.schemas import schema
from kohort.audit.spark.packing import pack, task_count
from kohort.audit.store.files import BASE, SUFFIX, TAILS, StoreFiles
from kohort.audit.store.tasks import run_tasks
from kohort.audit.tables import COMMIT_STEPS, GROUP_GENERATIONS, LOG_BATCHES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GROUPS_SAMPLED = 20  # log partitions whose groups tell how many log partitions there are


def check_run(
    spark: SparkSession, files: StoreFiles, runs: Sequence[str], about_runs: pa.Table, *,
    settings: Settings | None = None, baseline: Answers | None = None, group: str | None = None,
    since: datetime | None = None,
) -> tuple[list[Row], list[Row]]:  # fmt: skip
    """Rows of findings and check_results, from an audit's tables in their store, worked out by Spark's tasks.

    Args:
        runs: of which the base tables are read; the last one has the derived tables.
        about_runs: audit_runs, this run included.
        group: look at this one only.
        since: leave out what was over before.
    """
    settings = settings or Settings()
    sizes = _sizes(files, runs)
    world = _world(files, runs, sorted(sizes), about_runs, baseline, since)
    packs = pack(sizes.items(), task_count(spark))

    def check(number: int) -> Iterator[tuple[bytes]]:
        for log_partition in packs[number]:
            part = Part(log_partition, _read(files, runs, log_partition, group), world)
            yield (pickle.dumps(check_part(part, settings)),)

    seen = [pickle.loads(row[0]) for row in run_tasks(spark, len(packs), check, {"seen": "binary"})]  # noqa: S301
    return conclude(seen, world, settings)


def _sizes(files: StoreFiles, runs: Sequence[str]) -> dict[int, int]:
    """Bytes to read of each log partition, more or less."""
    sizes: dict[int, int] = {}
    of_last = [(COMMIT_STEPS.name, runs[-1]), (TAILS, runs[-1])]
    of_runs = [(LOG_BATCHES.name, run_id) for run_id in runs] + of_last
    for info in (info for name, run_id in of_runs for info in files.files_in(name, f"run={run_id}")):
        number = int(info.base_name.removesuffix(SUFFIX))
        sizes[number] = sizes.get(number, 0) + info.size
    return sizes


def _world(
    files: StoreFiles,
    runs: Sequence[str],
    log_partitions: Sequence[int],
    about_runs: pa.Table,
    baseline: Answers | None,
    since: datetime | None,
) -> World:
    times, groups = schema(LOG_BATCHES.name).field("max_time"), schema(GROUP_GENERATIONS.name).field("group_id")
    ends = [
        pc.max(files.read_rows(LOG_BATCHES.name, runs, number, of=pa.schema([times]))["max_time"]).as_py()
        for number in log_partitions
    ]
    some = [
        (group_id, number)
        for number in log_partitions[-GROUPS_SAMPLED:]
        for group_id in files.read_rows(GROUP_GENERATIONS.name, runs, number, of=pa.schema([groups]))["group_id"]
        .unique()
        .to_pylist()
    ]
    return make_world(ends, about_runs.to_pylist(), some, baseline, since=since)


def _read(files: StoreFiles, runs: Sequence[str], log_partition: int, group: str | None) -> dict[str, pa.Table]:
    tables = {}
    for name, columns in COLUMNS.items():
        of = pa.schema([schema(name).field(column) for column in columns])
        rows = files.read_rows(name, runs if name in BASE else runs[-1:], log_partition, of=of)
        is_narrow = group is not None and "group_id" in columns
        tables[name] = rows.filter(pc.equal(rows["group_id"], group)) if is_narrow else rows
    return tables
