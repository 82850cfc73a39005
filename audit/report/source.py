"""Where the rows of a report come from: plain scans of the tables, brought over as Arrow.

Spark only reads and filters; what is summed up is summed up here, with Arrow and numpy. A query with a shuffle costs
Spark more than a scan of a million rows, and a report would need a dozen of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from audit.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Place = tuple[str, str, int]  # group, topic, partition
SEPARATOR = "\x00"


class Source(Protocol):
    def table(self, name: str, columns: Sequence[str], groups: Sequence[str] | None = None) -> pa.Table:
        """Whole columns, or only the rows of some groups."""

    def intervals(self, columns: Sequence[str], windows: Mapping[str, tuple[int, int]]) -> pa.Table:
        """Ownerships that overlap the stretch of the log that is drawn of their group."""

    def steps(self, columns: Sequence[str], places: Sequence[Place], one_in: int) -> pa.Table:
        """Commits for these partitions: all steps back, and of the others about one in so many."""

    def segments(self) -> pa.Table:
        """Sums over the batches of each segment and codec."""

    def problems(self, columns: Sequence[str], limit: int) -> pa.Table:
        """Batches that could not be read."""


class SparkSource:
    def __init__(self, tables: Mapping[str, DataFrame]) -> None:
        spark = next(iter(tables.values())).sparkSession
        missing = [table for name, table in TABLES.items() if name not in tables]
        self._tables = {**tables, **{table.name: spark.createDataFrame([], table.ddl) for table in missing}}

    def table(self, name: str, columns: Sequence[str], groups: Sequence[str] | None = None) -> pa.Table:
        frame = self._tables[name]
        if groups is not None:
            frame = frame.where(frame["group_id"].isin(list(groups)))
        return frame.select(*columns).toArrow()

    def intervals(self, columns: Sequence[str], windows: Mapping[str, tuple[int, int]]) -> pa.Table:
        from pyspark.sql import functions as f

        frame = self._tables["ownership_intervals"].where(f.col("group_id").isin(list(windows)))
        first, last = (
            f.create_map(*[f.lit(part) for group_id, bounds in windows.items() for part in (group_id, bounds[end])])
            for end in (0, 1)
        )
        ends = f.col("end_log_offset")
        drawn = (f.col("start_log_offset") <= last[f.col("group_id")]) & (
            ends.isNull() | (ends > first[f.col("group_id")])
        )
        return frame.where(drawn).select(*columns).toArrow()

    def steps(self, columns: Sequence[str], places: Sequence[Place], one_in: int) -> pa.Table:
        from pyspark.sql import functions as f

        frame = self._tables["commit_steps"].where("not tombstone and offset is not null")
        place = f.concat_ws(SEPARATOR, "group_id", "topic", f.col("partition").cast("string"))
        frame = frame.where(place.isin([SEPARATOR.join(map(str, each)) for each in places]))
        if one_in > 1:  # by a hash: every so-manieth record may always be of the same partition
            frame = frame.where((f.col("step") < 0) | (f.pmod(f.xxhash64("log_offset"), f.lit(one_in)) == 0))
        return frame.select(*columns).toArrow()

    def segments(self) -> pa.Table:
        from pyspark.sql import functions as f

        sums = self._tables["log_batches"].groupBy("log_partition", "segment", "codec").agg(
            f.sum("size_bytes").alias("bytes"), f.count("*").alias("batches"), f.sum("record_count").alias("records"),
            f.min("log_offset").alias("first"), f.max("last_log_offset").alias("last"),
            f.count("problem").alias("problems"),
        )  # fmt: skip
        return sums.toArrow()

    def problems(self, columns: Sequence[str], limit: int) -> pa.Table:
        damaged = self._tables["log_batches"].where("problem is not null")
        return damaged.select(*columns).limit(limit).toArrow()
