"""The usual audit, of a log that no audit into the same folder has read before, in one pass over each log folder.

A task reads a folder, writes its base tables, works out the derived ones and checks them, while all of it is in memory.
What a partition of the log needs to know of the others is when the log ends and how many partitions it has. That is
guessed before, from the ends of the folders, and compared with what the tasks have seen: if it was wrong, or if names
of topics have to come from other partitions, the audit goes the long way, step by step over the store.
"""

from __future__ import annotations

import gc
import pickle
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kohort.audit.checks import Settings
from kohort.audit.checks.kit.part import COLUMNS, Part
from kohort.audit.checks.kit.world import World, make_world
from kohort.audit.checks.run import Seen, check_part, conclude
from kohort.audit.decode.folders import LogFolder
from kohort.audit.decode.schemas import schema
from kohort.audit.derive.partition import derive_partition
from kohort.audit.spark.packing import pack, task_count
from kohort.audit.store import topic_names
from kohort.audit.store.files import BASE, StoreFiles
from kohort.audit.store.tasks import Ingested, ingest_folder, run_tasks
from kohort.audit.tables import GROUP_GENERATIONS, LOG_BATCHES, MEMBER_ASSIGNMENTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = dict[str, Any]


class Passed(NamedTuple):
    """What came of one folder."""

    ingested: Ingested
    seen: Seen | None  # None: it could not be judged on its own
    end_time: datetime | None
    groups: list[str]


class OnePass(NamedTuple):
    ingested: list[Ingested]
    judged: tuple[list[Row], list[Row]] | None  # findings and check_results; None: go the long way


def one_pass(
    spark: SparkSession, files: StoreFiles, run_id: str, folders: Sequence[LogFolder], settings: Settings, *,
    log_partition_count: int | None, group: str | None = None, since: datetime | None = None,
) -> OnePass:  # fmt: skip
    """Base and derived tables of a run that is the first in its store, and what the checks say of them."""
    world = _guessed(folders, log_partition_count, since)
    packs = pack([(folder, folder.size_bytes) for folder in folders], task_count(spark))

    def task(number: int) -> Iterator[tuple[bytes]]:
        gc.disable()  # millions of rows, no cycles: it would look at all of them again and again
        try:
            for folder in packs[number]:
                yield (pickle.dumps(_pass(files, run_id, folder, world, settings, group)),)
        finally:
            gc.enable()

    passed = [Passed(*pickle.loads(row[0])) for row in run_tasks(spark, len(packs), task, {"passed": "binary"})]  # noqa: S301
    ingested = sorted(one.ingested for one in passed)
    seen = [one.seen for one in passed if one.seen is not None]
    found = _found(passed, world)
    agrees = (found.end_time, found.log_partition_count) == (world.end_time, world.log_partition_count)
    return OnePass(ingested, conclude(seen, world, settings) if len(seen) == len(passed) and agrees else None)


def _pass(
    files: StoreFiles, run_id: str, folder: LogFolder, world: World, settings: Settings, group: str | None
) -> Passed:
    batches: dict[str, list[pa.RecordBatch]] = {name: [] for name in BASE}
    ingested = ingest_folder(files, run_id, folder, 0, lambda name, batch: batches[name].append(batch))
    if ingested.problem:
        return Passed(ingested, None, None, [])
    base = {name: pa.Table.from_batches(some, schema(name)) for name, some in batches.items()}
    derived = derive_partition(folder.log_partition, base)
    for name, table in derived.items():
        files.write(table, name, run_id, folder.log_partition)
    end_time = pc.max(base[LOG_BATCHES.name]["max_time"]).as_py()
    groups = base[GROUP_GENERATIONS.name]["group_id"].unique().to_pylist()
    if topic_names.has_nameless(base[MEMBER_ASSIGNMENTS.name]):
        return Passed(ingested, None, end_time, groups)
    tables = {name: _of_group((base | derived)[name].select(columns), group) for name, columns in COLUMNS.items()}
    return Passed(ingested, check_part(Part(folder.log_partition, tables, world), settings), end_time, groups)


def _of_group(table: pa.Table, group: str | None) -> pa.Table:
    is_narrow = group is not None and "group_id" in table.column_names
    return table.filter(pc.equal(table["group_id"], group)) if is_narrow else table


def _guessed(folders: Sequence[LogFolder], log_partition_count: int | None, since: datetime | None) -> World:
    """As the ends of the folders tell."""
    times = [folder.end_time_ms for folder in folders if folder.end_time_ms is not None]
    runs = [
        {
            "log_partition": folder.log_partition, "from_log_offset": 0, "end_log_offset": folder.end_offset,
            "cleaned_to": folder.cleaned_to, "problem": None,
        }
        for folder in folders
    ]  # fmt: skip
    end_times = [datetime.fromtimestamp(max(times) / 1000, UTC)] if times else []
    return make_world(end_times, runs, [], None, log_partition_count, since)


def _found(passed: Sequence[Passed], guessed: World) -> World:
    groups = [(group_id, one.ingested.log_partition) for one in passed for group_id in one.groups]
    return make_world([one.end_time for one in passed], guessed.runs, groups)
