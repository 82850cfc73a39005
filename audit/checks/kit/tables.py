"""The tables as the checks see them, and what several checks need of them, worked out once.

What is asked of the log as a whole (where it ends, up to where compaction has been) is a row per segment, so it is
fetched here before the checks' one query is made, and stands in that query as numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr

from audit.checks.kit.check import seconds
from audit.tables import AUDIT_RUNS, COMMIT_STEPS, LOG_BATCHES, REBALANCES


class SegmentFacts(NamedTuple):
    """What the batches of one segment add up to. Damaged ones count as far as their header can be read."""

    log_partition: int
    segment: int
    batches: int
    size_bytes: int
    records: int
    first: int  # log offset
    end: int  # log offset after the last
    covered: int  # offsets that the batches claim: less than end - first if some are missing between them
    max_time_us: int | None
    last_good_position: int  # of the last batch that can be read; -1 if none can


class Tables(Mapping[str, DataFrame]):
    """Give it any mapping of table names to DataFrames; those of a baseline are optional."""

    def __init__(self, tables: Mapping[str, DataFrame]) -> None:
        self._tables = dict(tables)
        self._kept: list[DataFrame] = []

    def __getitem__(self, name: str) -> DataFrame:
        return self._tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    @property
    def spark(self) -> SparkSession:
        return self[LOG_BATCHES.name].sparkSession

    def release(self) -> None:
        """Give back the memory of what was kept."""
        for frame in self._kept:
            frame.unpersist()
        self._kept.clear()

    # --- the log as a whole ---------------------------------------------------------------------------------------

    @cached_property
    def segments(self) -> list[SegmentFacts]:
        rows = (
            self[LOG_BATCHES.name]
            .groupBy("log_partition", "segment")
            .agg(*map(expr, (
                "count(*)", "sum(size_bytes)", "coalesce(sum(record_count), 0)",
                "coalesce(min(log_offset), -1)", "coalesce(max(last_log_offset), -2) + 1",
                "coalesce(sum(last_log_offset - log_offset + 1), 0)", "max(unix_micros(max_time))",
                "coalesce(max(if(problem IS NULL, position, -1)), -1)",
            )))
            .collect()
        )  # fmt: skip
        return sorted(SegmentFacts(*row) for row in rows)

    @cached_property
    def end_time_us(self) -> int | None:
        """The latest time in the log: "now", as far as the log knows."""
        return max((one.max_time_us for one in self.segments if one.max_time_us is not None), default=None)

    @property
    def end_time(self) -> str:
        """The same in SQL."""
        return "CAST(NULL AS timestamp)" if self.end_time_us is None else f"timestamp_micros({self.end_time_us})"

    @cached_property
    def complete_from(self) -> dict[int, int]:
        """Per log partition, the log offset below which compaction may have removed records before they were read.

        A stretch that an earlier audit into the same folder has read before the cleaner came by is complete.
        """
        known: dict[int, int] = {}
        for log_partition, start, end, cleaned_to in self._runs:
            if cleaned_to is None:
                cleaned_to = self._seems_cleaned_to(log_partition)
            lost_below = min(cleaned_to, end) if cleaned_to > start else 0
            known[log_partition] = max(known.get(log_partition, 0), lost_below)
        return known

    @cached_property
    def unknown_cleaning(self) -> list[int]:
        """Log partitions of which no cleaner's checkpoint was there to ask."""
        return sorted({log_partition for log_partition, _, _, cleaned_to in self._runs if cleaned_to is None})

    @cached_property
    def _runs(self) -> list[tuple[int, int, int, int | None]]:
        if AUDIT_RUNS.name not in self:
            return []
        rows = (
            self[AUDIT_RUNS.name]
            .where("log_partition IS NOT NULL AND problem IS NULL")
            .selectExpr("log_partition", "coalesce(from_log_offset, 0)", "coalesce(end_log_offset, 0)", "cleaned_to")
            .collect()
        )
        return [(row[0], row[1], row[2], row[3]) for row in rows]

    def _seems_cleaned_to(self, log_partition: int) -> int:
        """No checkpoint says, but holes do: the end of the last segment that has some."""
        return max(
            (
                one.end
                for one in self.segments
                if one.log_partition == log_partition
                and (one.records < one.covered or one.covered < one.end - one.first)
            ),
            default=0,
        )

    # --- views that several checks use ----------------------------------------------------------------------------

    @cached_property
    def generations(self) -> DataFrame:
        """Rebalances with how long their outcome was in force: `until` (null: still is) and `in_force_s`."""
        return (
            self[REBALANCES.name]
            .selectExpr("*", "lead(time) OVER (PARTITION BY group_id ORDER BY log_offset) AS until")
            .selectExpr("*", f"{seconds(f'coalesce(until, {self.end_time})', 'time')} AS in_force_s")
        )

    @cached_property
    def commit_summary(self) -> DataFrame:
        """A row per group, topic and topic id: commits, those that say who committed, first place and time."""
        frame = (
            self[COMMIT_STEPS.name]
            .groupBy("log_partition", "group_id", "topic", "topic_id")
            .agg(*map(expr, (
                "count_if(NOT tombstone) AS commits", "count(member_id) AS with_member",
                "min(log_offset) AS log_offset", "min(time) AS time", "max(log_offset) AS last_log_offset",
            )))
        )  # fmt: skip
        return self.keep(frame)

    def keep(self, frame: DataFrame) -> DataFrame:
        """Have Spark work this out once, until `release`. For small results of big inputs."""
        kept = frame.persist()
        self._kept.append(kept)
        return kept
