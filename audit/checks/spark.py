"""The checks as Spark runs them: a task takes some log partitions and reads what it needs from the files of a store."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from audit.arrow import map_in_arrow
from audit.baseline import Answers
from audit.checks.kit.check import Row
from audit.checks.kit.evaluable import Missing
from audit.checks.kit.part import COLUMNS, Part
from audit.checks.kit.summary import Summary
from audit.checks.kit.world import World, make_world
from audit.checks.run import Seen, check_part, check_tables, conclude
from audit.checks.settings import Settings
from audit.decode.schemas import arrow_type, schema
from audit.store_files import SUFFIX, StoreFiles
from audit.store_tasks import pack
from audit.tables import AUDIT_RUNS, BASE_TABLES, CHECK_RESULTS, COMMIT_STEPS, FINDINGS, GROUP_GENERATIONS, LOG_BATCHES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TASKS_PER_CORE = 2
GROUPS_SAMPLED = 20  # log partitions whose groups tell how many log partitions there are
BASE = {table.name for table in BASE_TABLES}

# What a task gives back: findings, what is missing for some groups, and summaries, told apart by `kind`.
FINDING, MISSING, SUMMARY = "finding", "missing", "summary"
TOLD = {"kind": "string", **{column.name: column.type for column in FINDINGS.columns}}


def run_checks(
    tables: Mapping[str, DataFrame], settings: Settings | None = None, *, only: Collection[str] | None = None,
    baseline: Answers | None = None,
) -> tuple[DataFrame, DataFrame]:  # fmt: skip
    """(findings, check_results) of any DataFrames, worked out on the driver: for a part of a log, not for all of it.

    Args:
        tables: by name: those of COLUMNS, and audit_runs.
        only: names of the checks to run; all if None.
    """
    spark = tables[LOG_BATCHES.name].sparkSession
    arrow = {name: tables[name].select("log_partition", *columns).toArrow() for name, columns in COLUMNS.items()}
    if AUDIT_RUNS.name in tables:
        arrow[AUDIT_RUNS.name] = tables[AUDIT_RUNS.name].toArrow()
    return _frames(spark, check_tables(arrow, settings, only=only, baseline=baseline))


def check_run(
    spark: SparkSession, files: StoreFiles, runs: Sequence[str], about_runs: pa.Table, *,
    settings: Settings | None = None, baseline: Answers | None = None, group: str | None = None,
) -> tuple[DataFrame, DataFrame]:  # fmt: skip
    """(findings, check_results) of an audit's tables in their store, worked out by Spark's tasks.

    Args:
        runs: of which the base tables are read; the last one has the derived tables.
        about_runs: audit_runs, this run included.
        group: look at this one only.
    """
    settings = settings or Settings()
    sizes = _sizes(files, runs)
    world = _world(files, runs, sorted(sizes), about_runs, baseline)
    packs = pack(list(sizes.items()), spark.sparkContext.defaultParallelism * TASKS_PER_CORE)
    of = pa.schema([(name, arrow_type(kind)) for name, kind in TOLD.items()])

    def check(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch["id"].to_pylist():
                for log_partition in packs[number]:
                    part = Part(log_partition, _read(files, runs, log_partition, group), world)
                    yield pa.RecordBatch.from_pylist(_told(check_part(part, settings)), schema=of)

    ddl = ", ".join(f"`{name}` {kind}" for name, kind in TOLD.items())
    told = map_in_arrow(spark.range(0, len(packs), 1, len(packs)), check, ddl).toArrow().to_pylist() if packs else []
    return _frames(spark, conclude([_heard(told)], world, settings))


def _sizes(files: StoreFiles, runs: Sequence[str]) -> dict[int, int]:
    """Bytes to read of each log partition, more or less."""
    sizes: dict[int, int] = {}
    of_runs = [(LOG_BATCHES.name, run_id) for run_id in runs] + [(COMMIT_STEPS.name, runs[-1])]
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
    return make_world(ends, about_runs.to_pylist(), some, baseline)


def _read(files: StoreFiles, runs: Sequence[str], log_partition: int, group: str | None) -> dict[str, pa.Table]:
    tables = {}
    for name, columns in COLUMNS.items():
        of = pa.schema([schema(name).field(column) for column in columns])
        rows = files.read_rows(name, runs if name in BASE else runs[-1:], log_partition, of=of)
        is_narrow = group is not None and "group_id" in columns
        tables[name] = rows.filter(pc.equal(rows["group_id"], group)) if is_narrow else rows
    return tables


def _told(seen: Seen) -> list[Row]:
    return [
        *(row | {"kind": FINDING} for row in seen.findings),
        *(
            {"kind": MISSING, "check": one.need, "group_id": one.group_id, "message": one.reason}
            for one in seen.missing
        ),
        *(
            {"kind": SUMMARY, "message": json.dumps(one)}
            for one in seen.summaries
        ),
    ]  # fmt: skip


def _heard(told: Sequence[Row]) -> Seen:
    seen = Seen([], [], [])
    for row in told:
        kind = row.pop("kind")
        if kind == FINDING:
            seen.findings.append(row)
        elif kind == MISSING:
            seen.missing.append(Missing(row["check"], row["group_id"], row["message"]))
        else:
            seen.summaries.append(Summary(*json.loads(row["message"])))
    return seen


def _frames(spark: SparkSession, rows: tuple[list[Row], list[Row]]) -> tuple[DataFrame, DataFrame]:
    findings, results = (
        spark.createDataFrame(pa.Table.from_pylist(some, schema=schema(table.name)))
        for some, table in zip(rows, (FINDINGS, CHECK_RESULTS), strict=True)
    )
    return findings, results
