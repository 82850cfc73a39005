"""Where the rows of a report come from: plain scans, brought over as Arrow.

What is summed up is summed up on this side: a query with a shuffle costs Spark more than a scan of a million rows, and
a report would need a dozen of them. A table that is nothing but Parquet files of this machine is read without Spark,
which takes a tenth of the time; tables that are filtered or worked out on the way are scanned by Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote, urlparse

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from audit.decode.schemas import schema
from audit.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Place = tuple[str, str, int]  # group, topic, partition
Windows = Mapping[str, tuple[int, int]]
SEPARATOR = "\x00"
SUMS = {
    "bytes": ("size_bytes", "sum"), "batches": ([], "count_all"), "records": ("record_count", "sum"),
    "first": ("log_offset", "min"), "last": ("last_log_offset", "max"), "problems": ("problem", "count"),
}  # fmt: skip
SEGMENT = ["log_partition", "segment", "codec"]


class Source(Protocol):
    def table(self, name: str, columns: Sequence[str], groups: Sequence[str] | None = None) -> pa.Table:
        """Whole columns, or only the rows of some groups."""

    def intervals(self, columns: Sequence[str], windows: Windows) -> pa.Table:
        """Ownerships that overlap the stretch of the log that is drawn of their group."""

    def steps(self, columns: Sequence[str], places: Sequence[Place], one_in: int) -> pa.Table:
        """Commits for these partitions: all steps back, and of the others about one in so many."""

    def segments(self) -> pa.Table:
        """Sums over the batches of each segment and codec."""

    def problems(self, columns: Sequence[str], limit: int) -> pa.Table:
        """Batches that could not be read."""


def source_of(tables: Mapping[str, DataFrame]) -> Source:
    datasets = {}
    frames = {}
    for name, frame in tables.items():
        if name in TABLES:
            files = _plain_files(frame)
            if files is None:
                frames[name] = frame
            else:
                datasets[name] = ds.dataset(files, schema=schema(name), format="parquet", partitioning=None)
    missing = {name: ds.dataset(schema(name).empty_table()) for name in TABLES if name not in tables}
    return _Either(ArrowSource(datasets | missing), SparkSource(frames), frames)


def _plain_files(frame: DataFrame) -> list[str] | None:
    """The files of a table that is just those."""
    if frame._jdf.queryExecution().optimizedPlan().getClass().getSimpleName() != "LogicalRelation":
        return None
    places = [urlparse(address) for address in frame.inputFiles()]
    local = all(place.scheme == "file" and place.path.endswith(".parquet") for place in places)
    return [unquote(place.path) for place in places] if places and local else None


class _Either:
    """Each table from where it can be had."""

    def __init__(self, arrow: Source, spark: Source, by_spark: Iterable[str]) -> None:
        self._arrow, self._spark, self._by_spark = arrow, spark, frozenset(by_spark)

    def _of(self, name: str) -> Source:
        return self._spark if name in self._by_spark else self._arrow

    def table(self, name: str, columns: Sequence[str], groups: Sequence[str] | None = None) -> pa.Table:
        return self._of(name).table(name, columns, groups)

    def intervals(self, columns: Sequence[str], windows: Windows) -> pa.Table:
        return self._of("ownership_intervals").intervals(columns, windows)

    def steps(self, columns: Sequence[str], places: Sequence[Place], one_in: int) -> pa.Table:
        return self._of("commit_steps").steps(columns, places, one_in)

    def segments(self) -> pa.Table:
        return self._of("log_batches").segments()

    def problems(self, columns: Sequence[str], limit: int) -> pa.Table:
        return self._of("log_batches").problems(columns, limit)


class ArrowSource:
    def __init__(self, datasets: Mapping[str, ds.Dataset]) -> None:
        self._datasets = datasets

    def table(self, name: str, columns: Sequence[str], groups: Sequence[str] | None = None) -> pa.Table:
        wanted = None if groups is None else pc.field("group_id").isin(list(groups))
        return self._datasets[name].to_table(columns=list(columns), filter=wanted)

    def intervals(self, columns: Sequence[str], windows: Windows) -> pa.Table:
        table = self.table("ownership_intervals", columns, list(windows))
        which = pc.index_in(table["group_id"], pa.array(list(windows), pa.string()))
        first, last = (pa.array([bounds[end] for bounds in windows.values()], pa.int64()).take(which) for end in (0, 1))
        began = pc.less_equal(table["start_log_offset"], last)
        goes_on = pc.fill_null(pc.greater(table["end_log_offset"], first), True)
        return table.filter(pc.and_(began, goes_on))

    def steps(self, columns: Sequence[str], places: Sequence[Place], one_in: int) -> pa.Table:
        """A batch at a time: there may be very many."""
        dataset = self._datasets["commit_steps"]
        wanted = pa.array([SEPARATOR.join(map(str, place)) for place in places], pa.string())
        groups = sorted({group_id for group_id, _, _ in places})
        in_groups = pc.field("group_id").isin(groups) & ~pc.field("tombstone") & pc.field("offset").is_valid()
        kept = [
            batch.filter(_of_places(batch, wanted) & _sampled(batch, one_in))
            for batch in dataset.to_batches(columns=list(columns), filter=in_groups)
        ]
        return pa.Table.from_batches(kept, pa.schema([dataset.schema.field(name) for name in columns]))

    def segments(self) -> pa.Table:
        columns = [*SEGMENT, *(column for column, _ in SUMS.values() if column)]
        batches = self._datasets["log_batches"].to_table(columns=columns)
        return batches.group_by(SEGMENT).aggregate(list(SUMS.values())).rename_columns([*SEGMENT, *SUMS])

    def problems(self, columns: Sequence[str], limit: int) -> pa.Table:
        damaged = self._datasets["log_batches"].scanner(columns=list(columns), filter=pc.field("problem").is_valid())
        return damaged.head(limit)


def _of_places(batch: pa.RecordBatch, wanted: pa.Array) -> Any:
    parts = (batch["group_id"], batch["topic"], batch["partition"].cast(pa.string()))
    return pc.is_in(pc.binary_join_element_wise(*parts, SEPARATOR), wanted).to_numpy(zero_copy_only=False)


def _sampled(batch: pa.RecordBatch, one_in: int) -> Any:
    """By a hash of the place in the log: every so-manieth record may always be of the same partition."""
    back = pc.fill_null(pc.less(batch["step"], 0), False).to_numpy(zero_copy_only=False)
    mixed = (batch["log_offset"].to_numpy().astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)
    return back | (mixed % np.uint64(one_in) == 0)


class SparkSource:
    def __init__(self, frames: Mapping[str, DataFrame]) -> None:
        self._frames = frames

    def table(self, name: str, columns: Sequence[str], groups: Sequence[str] | None = None) -> pa.Table:
        frame = self._frames[name]
        if groups is not None:
            frame = frame.where(frame["group_id"].isin(list(groups)))
        return frame.select(*columns).toArrow()

    def intervals(self, columns: Sequence[str], windows: Windows) -> pa.Table:
        table = self.table("ownership_intervals", columns, list(windows))
        return ArrowSource({"ownership_intervals": ds.dataset(table)}).intervals(columns, windows)

    def steps(self, columns: Sequence[str], places: Sequence[Place], one_in: int) -> pa.Table:
        from pyspark.sql import functions as f

        frame = self._frames["commit_steps"].where("not tombstone and offset is not null")
        place = f.concat_ws(SEPARATOR, "group_id", "topic", f.col("partition").cast("string"))
        frame = frame.where(place.isin([SEPARATOR.join(map(str, each)) for each in places]))
        if one_in > 1:
            frame = frame.where((f.col("step") < 0) | (f.pmod(f.xxhash64("log_offset"), f.lit(one_in)) == 0))
        return frame.select(*columns).toArrow()

    def segments(self) -> pa.Table:
        from pyspark.sql import functions as f

        made = {"sum": f.sum, "min": f.min, "max": f.max, "count": f.count}
        sums = [
            f.count("*").alias(name) if how == "count_all" else made[how](str(column)).alias(name)
            for name, (column, how) in SUMS.items()
        ]
        return self._frames["log_batches"].groupBy(*SEGMENT).agg(*sums).toArrow()

    def problems(self, columns: Sequence[str], limit: int) -> pa.Table:
        damaged = self._frames["log_batches"].where("problem is not null")
        return damaged.select(*columns).limit(limit).toArrow()
