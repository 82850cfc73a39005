"""The Spark data source "kohort_log": log folders as tables, in batch and as a stream.

    register(spark)
    spark.read.format("kohort_log").option("table", "offset_commits").option("paths", json.dumps([folder])).load()

Options:

table               a base table of audit/tables.py
paths               JSON list of folders or addresses
bootstrap           instead of `paths`: HOST:PORT,HOST:PORT of a cluster, from which the tasks fetch
command_config      optional: file that says how to log in at the cluster, read where the query is planned
folders             instead of `paths`: what find_logs returned for them. Several tables with the same `folders` show
                    the same moment of a running broker
group               optional: only this group
since_ms, until_ms  optional: only records with times in [since, until)
offsets             optional: JSON, log partition -> first offset to read
partitions          optional: the number of log partitions, if the folders do not tell
tasks               optional: into how many Spark partitions the folders are packed

If a query filters by `group_id` or `record_time`, less is read.

A Spark partition reads some folders one after the other. The position of a stream is a log offset in each log
partition, not a position in a file: compaction rewrites files, but never changes offsets.

Credentials are no options, which Spark shows: they are read from the file when the tasks are planned, and go to the
tasks in pickled form.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)

from kohort.audit.decode import read_table
from kohort.audit.decode.access import kept_open
from kohort.audit.decode.folders import CLUSTER, LogFolder, find_logs, with_access
from kohort.audit.decode.partition_count import home_of
from kohort.audit.spark.packing import TASKS_PER_CORE, pack, task_count
from kohort.audit.tables import BASE_TABLES, TABLES

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

FORMAT = "kohort_log"

Range: TypeAlias = tuple[LogFolder, int | None, int | None]  # with the first offset to read, and the end offset


def register(spark: SparkSession) -> None:
    """Register the data source with a session."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(KohortLog)


def read(
    spark: SparkSession, table: str, folders: Sequence[LogFolder], *, offsets: Mapping[int, int] | None = None,
    group: str | None = None, since_ms: int | None = None, until_ms: int | None = None, partitions: int | None = None,
    command_config: str | None = None,
) -> DataFrame:  # fmt: skip
    """A base table of folders that find_logs found. `offsets`: log partition -> first offset to read."""
    optional = {
        "group": group, "since_ms": since_ms, "until_ms": until_ms, "partitions": partitions,
        "command_config": command_config,
    }  # fmt: skip
    options = {name: str(value) for name, value in optional.items() if value is not None}
    return (
        spark.read.format(FORMAT)
        .options(
            table=table,
            folders=json.dumps([asdict(replace(folder, access=None)) for folder in folders]),
            offsets=json.dumps(offsets or {}),
            tasks=str(task_count(spark)),
            **options,
        )
        .load()
    )


@dataclass(frozen=True)
class Query:
    """The options, parsed."""

    table: str
    group: str | None
    since_ms: int | None
    until_ms: int | None
    offsets: Mapping[int, int]  # log partition -> first offset to read
    partitions: int | None
    tasks: int

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Query:
        table = options.get("table", "")
        if table not in {one.name for one in BASE_TABLES}:
            names = ", ".join(one.name for one in BASE_TABLES)
            raise ValueError(f'option "table" of {FORMAT} is {table!r}, not one of {names}')

        def number(name: str) -> int | None:
            return int(options[name]) if name in options else None

        offsets = {
            int(partition): int(offset) for partition, offset in json.loads(options.get("offsets", "{}")).items()
        }
        tasks = number("tasks") or TASKS_PER_CORE * (os.cpu_count() or 1)
        group = options.get("group")
        return cls(table, group, number("since_ms"), number("until_ms"), offsets, number("partitions"), tasks)

    def folders_of_group(self, folders: Sequence[LogFolder]) -> Sequence[LogFolder]:
        """All folders, or only the one that the group lives in, if that is known."""
        home = None if self.group is None else home_of(self.group, folders, self.partitions)
        if home is None:
            return folders
        return [folder for folder in folders if folder.log_partition == home or folder.keeps_share_state]


class Piece(InputPartition):
    """The folders that one task reads."""

    def __init__(self, ranges: Sequence[Range]) -> None:
        self.ranges = ranges


class KohortLog(DataSource):
    """The data source; the top of this file describes it."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return TABLES[Query.of(self.options).table].ddl

    def reader(self, schema: StructType) -> BatchReader:  # noqa: ARG002 - Spark's signature
        return BatchReader(dict(self.options))

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802, ARG002 - Spark's signature
        return StreamReader(dict(self.options))


class BatchReader(DataSourceReader):
    """Reads all records that are in the folders now."""

    def __init__(self, options: dict[str, str]) -> None:
        self.query = Query.of(options)
        self._options = options

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Use filters to read less. Spark still applies all of them, because we may read more than a filter allows."""
        for one in filters:
            self.query = _narrowed(self.query, one)
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        folders = self.query.folders_of_group(_folders(self._options))
        return pieces(
            [(folder, self.query.offsets.get(folder.log_partition), None) for folder in folders], self.query.tasks
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self.query, partition)


class StreamReader(DataSourceStreamReader):
    """Reads appended records in micro-batches. A position is {log partition: next offset}."""

    def __init__(self, options: dict[str, str]) -> None:
        self.query = Query.of(options)
        self._options = options
        self._found: Sequence[LogFolder] = ()

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {str(partition): offset for partition, offset in self.query.offsets.items()}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:  # noqa: N802, ARG002 - Spark's signature
        """A folder that cannot be read at the moment, such as one that is being deleted, keeps its position."""
        _keep_connections()
        self._found = self.query.folders_of_group(_folders(self._options))
        return start | {str(folder.log_partition): folder.end_offset for folder in self._found}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        found = {str(folder.log_partition): folder for folder in self._found}
        if any(key not in found or found[key].end_offset < until for key, until in end.items()):
            found = {str(folder.log_partition): folder for folder in _folders(self._options)}  # the query was restarted
        ranges = [
            (found[key], start.get(key), until)
            for key, until in end.items()
            if key in found and until > start.get(key, 0)
        ]
        return pieces(ranges, self.query.tasks)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self.query, partition)


@lru_cache
def _keep_connections() -> None:
    """Until the end of this process, which plans one stream: it asks the cluster twice a second."""
    kept_open().__enter__()


def pieces(ranges: Sequence[Range], tasks: int) -> list[Piece]:
    """The folders in at most `tasks` pieces of about the same size."""
    return [Piece(some) for some in pack([(one, one[0].size_bytes) for one in ranges], tasks)]


def _read(query: Query, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    assert isinstance(partition, Piece)
    with kept_open():
        for folder, start, end in partition.ranges:
            yield from read_table(
                folder, query.table, group=query.group, since_ms=query.since_ms, until_ms=query.until_ms,
                from_offset=start, until_offset=end,
            )  # fmt: skip


def _folders(options: Mapping[str, str]) -> list[LogFolder]:
    config = options.get("command_config")
    if "folders" in options:
        return [with_access(LogFolder(**folder), config) for folder in json.loads(options["folders"])]
    clusters = [f"{CLUSTER}{options['bootstrap']}"] if "bootstrap" in options else []
    folders, problems = find_logs(clusters + json.loads(options.get("paths", "[]")), config)
    if problems and not folders:
        raise ValueError("; ".join(map(str, problems)))
    return folders


def _narrowed(query: Query, asked: Filter) -> Query:
    if not isinstance(asked, (EqualTo, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual)):
        return query
    value = asked.value
    match asked.attribute:
        case ("group_id",) if isinstance(asked, EqualTo) and isinstance(value, str):
            return query if query.group else replace(query, group=value)  # another group: Spark filters out all rows
        case ("record_time",) if isinstance(value, datetime):
            ms = int(value.timestamp() * 1000)
            since = query.since_ms if isinstance(asked, (LessThan, LessThanOrEqual)) else _later(query.since_ms, ms - 1)
            until = (
                query.until_ms
                if isinstance(asked, (GreaterThan, GreaterThanOrEqual))
                else _earlier(query.until_ms, ms + 2)
            )
            return replace(query, since_ms=since, until_ms=until)
    return query


def _later(one: int | None, other: int) -> int:
    return other if one is None else max(one, other)


def _earlier(one: int | None, other: int) -> int:
    return other if one is None else min(one, other)
