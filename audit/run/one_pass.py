"""The usual audit: one pass over each log folder, if no audit into the same store has read the log before.

A Spark task reads a folder, writes its base tables, derives the others and checks them, while all of it is in memory.
To check one partition of the log, two facts about the others are needed: when the log ends, and how many partitions it
has. Both are guessed beforehand from the ends of the folders, and compared with what the tasks have seen. If a guess
was wrong, or if names of topics have to come from other partitions, then the findings are dropped, and the audit
derives and checks again, step by step over the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from kohort.audit import pipeline
from kohort.audit.checks import Settings
from kohort.audit.checks.kit.check import Row
from kohort.audit.checks.kit.world import World, make_world
from kohort.audit.checks.run import Seen
from kohort.audit.decode.folders import LogFolder
from kohort.audit.decode.schemas import schema
from kohort.audit.spark.tasks import for_each
from kohort.audit.store import topic_names
from kohort.audit.store.files import StoreFiles
from kohort.audit.store.tasks import Ingested, ingest_folder
from kohort.audit.tables import BASE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Passed(NamedTuple):
    """What came of one folder."""

    ingested: Ingested
    seen: Seen | None  # None: it could not be read, or not be checked on its own
    end_time: datetime | None
    groups: list[str]


class OnePass(NamedTuple):
    ingested: list[Ingested]
    judged: tuple[list[Row], list[Row]] | None  # findings and check_results; None: derive and check step by step


def one_pass(
    spark: SparkSession | None, files: StoreFiles, run_id: str, folders: Sequence[LogFolder], settings: Settings, *,
    log_partition_count: int | None, group: str | None = None, since: datetime | None = None,
) -> OnePass:  # fmt: skip
    """Write the base and derived tables of the first run in a store, and check them."""
    world = _guessed(folders, log_partition_count, since)

    def pass_over(folder: LogFolder) -> Passed:
        return _pass(files, run_id, folder, world, settings, group)

    passed = for_each(spark, [(folder, folder.size_bytes) for folder in folders], pass_over)
    ingested = sorted(one.ingested for one in passed)
    seen = [one.seen for one in passed if one.seen is not None]
    found = _found(passed, world)
    agrees = (found.end_time, found.log_partition_count) == (world.end_time, world.log_partition_count)
    return OnePass(ingested, pipeline.conclude(seen, world, settings) if len(seen) == len(passed) and agrees else None)


def _pass(
    files: StoreFiles, run_id: str, folder: LogFolder, world: World, settings: Settings, group: str | None
) -> Passed:
    batches: dict[str, list[pa.RecordBatch]] = {name: [] for name in BASE}
    ingested = ingest_folder(files, run_id, folder, 0, lambda name, batch: batches[name].append(batch))
    if ingested.problem:
        return Passed(ingested, None, None, [])
    base = {name: pa.Table.from_batches(some, schema(name)) for name, some in batches.items()}
    tables = pipeline.derive(folder.log_partition, base)
    for name in pipeline.MADE:
        files.write(tables[name], name, run_id, folder.log_partition)
    seen = None
    if not topic_names.has_nameless(base):
        seen = pipeline.check(folder.log_partition, tables, world, settings, group=group)
    return Passed(ingested, seen, pipeline.end_time(base), pipeline.groups(base))


def _guessed(folders: Sequence[LogFolder], log_partition_count: int | None, since: datetime | None) -> World:
    """What the ends of the folders say about the log as a whole."""
    times = [folder.end_time_ms for folder in folders if folder.end_time_ms is not None]
    runs = [
        {
            "log_partition": folder.log_partition, "first_log_offset": folder.first_offset, "from_log_offset": 0,
            "end_log_offset": folder.end_offset, "cleaned_to": folder.cleaned_to, "problem": None,
        }
        for folder in folders
    ]  # fmt: skip
    end_times = [datetime.fromtimestamp(max(times) / 1000, UTC)] if times else []
    return make_world(end_times, runs, [], None, log_partition_count, since)


def _found(passed: Sequence[Passed], guessed: World) -> World:
    """What the tasks have seen of the log as a whole."""
    groups = [(group_id, one.ingested.log_partition) for one in passed for group_id in one.groups]
    return make_world([one.end_time for one in passed], guessed.runs, groups)
