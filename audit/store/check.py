"""Checks the tables of a store: a Spark task takes some log partitions and reads what the rules need from the files."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from kohort.audit import pipeline
from kohort.audit.checks.kit.baseline import Answers
from kohort.audit.checks.kit.check import Row
from kohort.audit.checks.kit.part import COLUMNS
from kohort.audit.checks.kit.world import World, make_world
from kohort.audit.checks.run import Seen
from kohort.audit.checks.settings import Settings
from kohort.audit.decode.schemas import schema
from kohort.audit.spark.tasks import for_each
from kohort.audit.store.files import TAILS, StoreFiles
from kohort.audit.tables import BASE, COMMIT_STEPS, GROUP_GENERATIONS, LOG_BATCHES, keeps_groups

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GROUPS_SAMPLED = 20  # log partitions whose groups are read to find out how many log partitions there are


def check_run(
    spark: SparkSession | None, files: StoreFiles, runs: Sequence[str], about_runs: pa.Table, *,
    settings: Settings | None = None, baseline: Answers | None = None, group: str | None = None,
    since: datetime | None = None,
) -> tuple[list[Row], list[Row]]:  # fmt: skip
    """Rows of findings and of check_results.

    Args:
        runs: the runs whose base tables are read; the last one has the derived tables.
        about_runs: the table audit_runs, with this run.
        group: check this group only.
        since: leave out findings that were over before.
    """
    settings = settings or Settings()
    sizes = files.sizes(
        [(LOG_BATCHES.name, run_id) for run_id in runs] + [(COMMIT_STEPS.name, runs[-1]), (TAILS, runs[-1])]
    )
    world = _world(files, runs, sorted(sizes), about_runs, baseline, since)

    def check(log_partition: int) -> Seen:
        tables = _read(files, runs, log_partition)
        return pipeline.check(log_partition, tables, world, settings, group=group)

    return pipeline.conclude(for_each(spark, sizes.items(), check), world, settings)


def _world(
    files: StoreFiles,
    runs: Sequence[str],
    log_partitions: Sequence[int],
    about_runs: pa.Table,
    baseline: Answers | None,
    since: datetime | None,
) -> World:
    def column(table: str, name: str, log_partition: int) -> pa.ChunkedArray:
        of = pa.schema([schema(table).field(name)])
        return files.read_rows(table, runs, log_partition, of=of)[name]

    ends = [pc.max(column(LOG_BATCHES.name, "max_time", number)).as_py() for number in log_partitions]
    some = [
        (group_id, number)
        for number in [one for one in log_partitions if keeps_groups(one)][-GROUPS_SAMPLED:]
        for group_id in column(GROUP_GENERATIONS.name, "group_id", number).unique().to_pylist()
    ]
    return make_world(ends, about_runs.to_pylist(), some, baseline, since=since)


def _read(files: StoreFiles, runs: Sequence[str], log_partition: int) -> dict[str, pa.Table]:
    tables = {}
    for name, columns in COLUMNS.items():
        of = pa.schema([schema(name).field(column) for column in columns])
        tables[name] = files.read_rows(name, runs if name in BASE else runs[-1:], log_partition, of=of)
    return tables
