"""The queries of the report: each bounded, independent ones side by side, and only what is shown is collected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from audit.report import ranking
from audit.report.details import by_group, offset_lines
from audit.report.limits import (
    BINS,
    FEWEST_POINTS_OF_LINE,
    FINDINGS_PER_GROUP,
    FINDINGS_PER_RULE,
    INTERVALS,
    LISTED_GROUPS,
    LOG_PROBLEMS,
    POINTS,
    POINTS_OF_LINE,
    REBALANCES,
    REBALANCES_OF_GROUP,
)
from audit.report.rows import SEVERITIES, Gathered, Row
from audit.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Tables = Mapping[str, "DataFrame"]


def gather(tables: Tables) -> Gathered:
    from audit.checks import ALL

    spark = next(iter(tables.values())).sparkSession
    missing = [table for name, table in TABLES.items() if name not in tables]
    tables = {**tables, **{table.name: spark.createDataFrame([], table.ddl) for table in missing}}
    gathered = Gathered(about_checks={name: check.about for name, check in ALL.items()})
    with ThreadPoolExecutor(4) as pool:
        _first(tables, gathered, pool)
        found = ranking.found_by_group(gathered.finding_counts)
        gathered.detailed = ranking.detailed(ranking.ranked(gathered.groups, found))
        _second(tables, gathered, pool)
        _third(spark, tables, gathered, pool)
    return gathered


def _rows(frame: DataFrame) -> list[Row]:
    listed: list[Row] = frame.toArrow().to_pylist()
    return listed


def _run(pool: ThreadPoolExecutor, gathered: Gathered, queries: Mapping[str, DataFrame]) -> None:
    for name, rows in zip(queries, pool.map(_rows, queries.values()), strict=True):
        setattr(gathered, name, rows)


def _ms(*names: str) -> list[Column]:
    return [f.unix_millis(name).alias(name) for name in names]


def _rank(severity: str = "severity") -> Column:
    return f.array_position(f.array(*map(f.lit, SEVERITIES)), f.col(severity))


def _numbered(frame: DataFrame, by: str, *order: Column) -> DataFrame:
    from pyspark.sql import Window

    return frame.withColumn("number", f.row_number().over(Window.partitionBy(by).orderBy(*order)))


# --- first: what there is -------------------------------------------------------------------------


def _first(tables: Tables, gathered: Gathered, pool: ThreadPoolExecutor) -> None:
    findings = tables["findings"]
    worst = _numbered(findings, "check", _rank(), f.desc("time")).where(f.col("number") <= FINDINGS_PER_RULE)
    problems = tables["log_batches"].where("problem is not null").orderBy("log_partition", "segment", "position")
    queries = {
        "finding_counts": findings.groupBy("check", "severity", "group_id").agg(f.count("*").alias("found")),
        "findings": _with_times(worst, "time", "until").drop("number"),
        "check_results": tables["check_results"],
        "groups": _groups(tables),
        "log_partitions": _log_partitions(tables["log_batches"]),
        "log_problems": problems.select(
            "log_partition", "segment", "position", "log_offset", "size_bytes", "problem", "detail"
        ).limit(LOG_PROBLEMS),
        "runs": _with_times(tables["audit_runs"], "started", "finished"),
    }
    _run(pool, gathered, queries)
    gathered.group_count = len(gathered.groups)
    if gathered.group_count > LISTED_GROUPS:
        gathered.group_count = _groups(tables, limited=False).count()


def _with_times(frame: DataFrame, *names: str) -> DataFrame:
    return frame.withColumns({name: f.unix_millis(name) for name in names})


def _groups(tables: Tables, *, limited: bool = True) -> DataFrame:
    facts = tables["partition_facts"].select(
        "group_id", f.lit(0).alias("is_rebalance"), "commits", "rewinds", f.unix_millis("last_time").alias("last"),
        f.lit(None).cast("bigint").alias("duration_ms"), f.lit(None).cast("bigint").alias("log_offset"),
        f.lit(None).cast("string").alias("group_type"), f.lit(None).cast("int").alias("member_count"),
    )  # fmt: skip
    rebalances = tables["rebalances"].select(
        "group_id", f.lit(1).alias("is_rebalance"), f.lit(None).cast("bigint").alias("commits"),
        f.lit(None).cast("bigint").alias("rewinds"), f.lit(None).cast("bigint").alias("last"),
        "duration_ms", "log_offset", "group_type", "member_count",
    )  # fmt: skip
    groups = facts.unionByName(rebalances).groupBy("group_id").agg(
        f.max_by("group_type", "log_offset").alias("group_type"),
        f.sum("is_rebalance").alias("rebalances"),
        f.max_by("member_count", "log_offset").alias("members"),
        f.sum(1 - f.col("is_rebalance")).alias("partitions"),
        f.coalesce(f.sum("commits"), f.lit(0)).alias("commits"),
        f.coalesce(f.sum("rewinds"), f.lit(0)).alias("rewinds"),
        f.max("last").alias("last"),
        f.max("duration_ms").alias("longest"),
    )  # fmt: skip
    if not limited:
        return groups
    counts = tables["findings"].where("group_id is not null").groupBy("group_id").agg(f.min(_rank()).alias("worst"))
    known = groups.join(counts, "group_id", "left")
    order = (f.asc_nulls_last("worst"), f.desc("rebalances"), f.desc("commits"))
    return known.orderBy(*order).limit(LISTED_GROUPS + 1).drop("worst")


def _log_partitions(batches: DataFrame) -> DataFrame:
    return batches.groupBy("log_partition").agg(
        f.sum("size_bytes").alias("bytes"),
        f.count_distinct("segment").alias("segments"),
        f.count("*").alias("batches"),
        f.coalesce(f.sum("record_count"), f.lit(0)).alias("records"),
        f.concat_ws(", ", f.array_sort(f.collect_set("codec"))).alias("codecs"),
        f.min("log_offset").alias("first"),
        (f.max("last_log_offset") + 1).alias("end"),
        f.count("problem").alias("problems"),
    )


# --- second: the histories of the groups that get drawings ----------------------------------------


def _second(tables: Tables, gathered: Gathered, pool: ThreadPoolExecutor) -> None:
    if not gathered.detailed:
        return
    wanted = f.col("group_id").isin(gathered.detailed)
    of_group = max(1, min(REBALANCES_OF_GROUP, REBALANCES // len(gathered.detailed)))
    rebalances = _numbered(tables["rebalances"].where(wanted), "group_id", f.desc("log_offset"))
    findings = _numbered(tables["findings"].where(wanted), "group_id", _rank(), f.desc("time"))
    queries = {
        "rebalances": rebalances.where(f.col("number") <= of_group).select(
            "group_id", "generation", "log_offset", *_ms("time"), "protocol", "cause", "trigger", "member_count",
            f.size("joined").alias("joined"), f.size("left").alias("left"), "join_ms", "sync_ms", "duration_ms",
            "timeout_ms", "moved", "forced_moves", "avoidable_moves", "max_load", "min_load", "idle_members",
        ),
        "group_findings": _with_times(
            findings.where(f.col("number") <= FINDINGS_PER_GROUP), "time", "until"
        ).orderBy("group_id", "number"),
        "facts": tables["partition_facts"].where(wanted).select(
            "group_id", "topic", "partition", "commits", "rewinds", *_ms("first_time", "last_time")
        ),
        "what_if_totals": _what_if_totals(tables, wanted),
    }  # fmt: skip
    _run(pool, gathered, queries)
    gathered.rebalances.sort(key=lambda row: (row["group_id"], row["log_offset"]))
    findings_of = by_group(gathered.group_findings)
    for group_id, rows in by_group(gathered.rebalances).items():
        drawn = ranking.window(rows, findings_of.get(group_id, []))
        if drawn:
            gathered.windows[group_id] = drawn


def _what_if_totals(tables: Tables, wanted: Column) -> DataFrame:
    """Sums over the whole history: a row per assignor, and one without an assignor for what there really was."""
    if_so = tables["what_if"].where(wanted).select(
        "group_id", "assignor", "moved", "interrupted", "max_load", "min_load", "actual"
    )  # fmt: skip
    as_it_was = tables["rebalances"].where(wanted & (f.col("group_type") == "classic")).select(
        "group_id", f.lit(None).cast("string").alias("assignor"), "moved", f.lit(None).cast("int").alias("interrupted"),
        "max_load", "min_load", f.lit(True).alias("actual"),
    )  # fmt: skip
    return if_so.unionByName(as_it_was).groupBy("group_id", "assignor").agg(
        f.sum("moved").alias("moved"),
        f.sum("interrupted").alias("interrupted"),
        f.max(f.col("max_load") - f.col("min_load")).alias("gap"),
        f.max("actual").alias("own"),
        f.count("*").alias("rebalances"),
    )  # fmt: skip


# --- third: what is drawn of them -----------------------------------------------------------------


def _third(spark: SparkSession, tables: Tables, gathered: Gathered, pool: ThreadPoolExecutor) -> None:
    queries: dict[str, DataFrame] = {}
    if gathered.windows:
        rows = [(group_id, *bounds) for group_id, bounds in gathered.windows.items()]
        windows = f.broadcast(spark.createDataFrame(rows, "group_id string, first bigint, last bigint"))
        queries["intervals"] = _intervals(tables["ownership_intervals"].join(windows, "group_id"))
        in_window = f.col("log_offset").between(f.col("first"), f.col("last"))
        what_if = tables["what_if"].join(windows, "group_id").where(in_window)
        queries["what_if"] = what_if.select("group_id", "log_offset", "assignor", "moved")
    lines = [line for rows in by_group(gathered.facts).values() for line in offset_lines(rows)]
    if lines:
        queries["points"] = _points(spark, tables["commit_steps"], lines)
    span = _span(gathered)
    if span:
        queries["histogram"] = _histogram(tables["findings"], *span)
        gathered.histogram_span = span
    _run(pool, gathered, queries)


def _intervals(joined: DataFrame) -> DataFrame:
    from pyspark.sql import Window

    overlaps = (f.col("start_log_offset") <= f.col("last")) & (
        f.col("end_log_offset").isNull() | (f.col("end_log_offset") > f.col("first"))
    )
    counted = joined.where(overlaps).withColumn("of", f.count("*").over(Window.partitionBy("group_id")))
    latest = _numbered(counted, "group_id", f.desc("start_log_offset")).where(f.col("number") <= INTERVALS)
    return latest.select(
        "group_id", "topic", "partition", "member_id", "instance_id", "client_id", "client_host", "start_log_offset",
        "end_log_offset", *_ms("start_time", "end_time"), "ended_by", "of",
    )  # fmt: skip


def _points(spark: SparkSession, steps: DataFrame, lines: Sequence[Row]) -> DataFrame:
    """Of each stretch of time the last commit, and the longest way back if there was one."""
    count = max(FEWEST_POINTS_OF_LINE, min(POINTS_OF_LINE, POINTS // len(lines)))
    rows = [
        (line["group_id"], line["topic"], line["partition"], line["first_time"],
         max(1, -(-(line["last_time"] - line["first_time"] + 1) // count)))
        for line in lines
    ]  # fmt: skip
    chosen = spark.createDataFrame(rows, "group_id string, topic string, partition int, start bigint, width bigint")
    ms = f.unix_millis("time")
    back = f.when(f.col("step") < 0, f.array(ms, "previous_offset", "offset"))
    return (
        steps.where("not tombstone and offset is not null")
        .join(f.broadcast(chosen), ["group_id", "topic", "partition"])
        .groupBy("group_id", "topic", "partition", f.floor((ms - f.col("start")) / f.col("width")).alias("stretch"))
        .agg(
            f.max_by(f.struct(ms.alias("time"), "offset"), "log_offset").alias("end"),
            f.min_by(back, f.when(f.col("step") < 0, f.col("step"))).alias("back"),
        )
        .select("group_id", "topic", "partition", "end.time", "end.offset", "back")
    )


def _span(gathered: Gathered) -> tuple[int, int] | None:
    times = [row["time"] for row in (*gathered.findings, *gathered.group_findings) if row["time"] is not None]
    return (min(times), max(times) + 1) if times else None


def _histogram(findings: DataFrame, start: int, end: int) -> DataFrame:
    width = max(1, -(-(end - start) // BINS))
    number = f.floor((f.unix_millis("time") - f.lit(start)) / f.lit(width)).alias("bin")
    return findings.where("time is not null").groupBy(number, "severity").agg(f.count("*").alias("found"))
