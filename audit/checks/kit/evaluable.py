"""Which check cannot be evaluated for whom, and why: rows like findings, with the reason as their message.

A row without a group is about the check as a whole. Compaction keeps the last record of each key, so what is left is
true, only not all there was: the checks run on it, and for what is gone they say so here.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pyspark.sql import DataFrame

from audit.baseline import BASELINE_PARTITIONS
from audit.checks.kit.check import (
    BASELINE,
    CLEANER_CHECKPOINT,
    COMMITTERS,
    HISTORY,
    JOIN_STARTS,
    PARTITION_COUNTS,
    Check,
    as_column,
    literal,
)
from audit.checks.kit.tables import Tables
from audit.tables import FINDINGS, GROUP_GENERATIONS, REBALANCES

NOT_EVALUABLE = "not evaluable"

NO_BASELINE = "needs a broker to compare with: --baseline"
NO_COUNTS = (
    "how many partitions a topic has is not in the log: only partitions that somebody has owned or committed were"
    " looked for; --baseline tells all"
)


def not_evaluable(checks: Collection[Check], tables: Tables) -> list[DataFrame]:
    """In the schema of findings, with NOT_EVALUABLE as their severity."""
    made = [
        _for_all([check.name for check in checks if need in check.needs], reason, tables)
        for need, reason in _missing_for_all(tables)
    ]
    for need, of_groups in ((HISTORY, _cut_by_compaction), (COMMITTERS, _no_committers), (JOIN_STARTS, _no_starts)):
        names = [check.name for check in checks if need in check.needs]
        if names and (frame := of_groups(tables)) is not None:
            made.append(_rows(frame, names, "group_id", "reason"))
    return [frame for frame in made if frame is not None]


def _missing_for_all(tables: Tables) -> list[tuple[str, str]]:
    missing = []
    if BASELINE_PARTITIONS not in tables:
        missing += [(BASELINE, NO_BASELINE), (PARTITION_COUNTS, NO_COUNTS)]
    if tables.unknown_cleaning:
        where = ", ".join(map(str, tables.unknown_cleaning))
        reason = f"no cleaner-offset-checkpoint came with log partition {where}: what is missing may be compaction's"
        missing.append((CLEANER_CHECKPOINT, reason))
    return missing


def _for_all(names: Sequence[str], reason: str, tables: Tables) -> DataFrame | None:
    return _rows(tables.spark.range(1), names, "NULL", literal(reason)) if names else None


def _rows(frame: DataFrame, names: Sequence[str], group_id: str, reason: str) -> DataFrame:
    given = {"check": "name", "severity": literal(NOT_EVALUABLE), "group_id": group_id, "message": reason}
    each = frame.selectExpr("*", f"explode(array({', '.join(map(literal, names))})) AS name")
    return each.selectExpr(*(as_column(column.name, given.get(column.name, "NULL")) for column in FINDINGS.columns))


def _cut_by_compaction(tables: Tables) -> DataFrame | None:
    cut = {place: offset for place, offset in tables.complete_from.items() if offset > 0}
    if not cut:
        return None
    below = f"CASE log_partition {' '.join(f'WHEN {place} THEN {offset}' for place, offset in cut.items())} END"
    columns = ("log_partition", "group_id", "log_offset")
    records = tables.commit_summary.select(*columns).unionAll(tables[GROUP_GENERATIONS.name].select(*columns))
    return (
        records.where(f"log_offset < {below}")
        .groupBy("group_id", "log_partition")
        .agg({"log_offset": "min"})
        .selectExpr(
            "group_id",
            f"concat('compaction has removed records of this group from before log offset ', {below},"
            " '; what is left was looked at') AS reason",
        )
    )


def _no_committers(tables: Tables) -> DataFrame:
    """Of groups that have members, as others commit for nobody in particular."""
    return (
        tables.commit_summary.groupBy("group_id")
        .agg({"commits": "sum", "with_member": "sum"})
        .where("`sum(with_member)` < `sum(commits)`")
        .join(tables[REBALANCES.name].select("group_id").distinct(), "group_id", "left_semi")
        .selectExpr(
            "group_id",
            "concat('the log does not say who made ', `sum(commits)` - `sum(with_member)`, ' of ', `sum(commits)`,"
            " ' commits (Kafka writes no such header)') AS reason",
        )
    )


def _no_starts(tables: Tables) -> DataFrame:
    return (
        tables[REBALANCES.name]
        .where("duration_ms IS NULL")
        .groupBy("group_id")
        .count()
        .selectExpr(
            "group_id",
            "concat('the log does not say when ', count, ' rebalances began (Kafka writes no such header);"
            " only the time from the end of the join phase on was looked at') AS reason",
        )
    )
