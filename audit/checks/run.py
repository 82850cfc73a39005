"""All checks as one query, and what became of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from audit.checks import ALL, MODULES
from audit.checks.kit.check import SEVERITIES, Check
from audit.checks.kit.commit_rules import commits
from audit.checks.kit.evaluable import NOT_EVALUABLE, not_evaluable
from audit.checks.kit.rebalance_rules import rebalances
from audit.checks.kit.row_rules import apply_rules
from audit.checks.kit.tables import Tables
from audit.checks.settings import Settings
from audit.decode.schemas import schema
from audit.tables import CHECK_RESULTS, FINDINGS, Table

MAX_PER_GROUP = 20  # findings of one check in one group; the worst are shown, the others counted
MAX_GROUPS_NAMED = 100  # more groups than that without what a check needs are counted, not named


def run_checks(
    tables: Mapping[str, DataFrame], settings: Settings | None = None, *, only: Collection[str] | None = None
) -> tuple[DataFrame, DataFrame]:
    """(findings, check_results), worst first, worked out here and now.

    Args:
        tables: by name: base and derived tables, audit_runs, and those of a baseline if there is one.
        only: names of the checks to run; all if None.
    """
    settings = settings or Settings()
    checks = [check for name, check in ALL.items() if only is None or name in only]
    shared = Tables(tables)
    try:
        query = reduce(DataFrame.unionAll, [*_queries(checks, shared, settings), *not_evaluable(checks, shared)])
        rows = _capped(query).toArrow().to_pylist()
    finally:
        shared.release()
    rows.sort(key=_worst_first)
    found = [row for row in rows if row["severity"] != NOT_EVALUABLE]
    missing = [row for row in rows if row["severity"] == NOT_EVALUABLE]
    spark = shared.spark
    results = _results(checks, settings, found, missing)
    return _frame(spark, FINDINGS, found), _frame(spark, CHECK_RESULTS, results)


def _queries(checks: Collection[Check], tables: Tables, settings: Settings) -> list[DataFrame]:
    made = []
    for attribute, source in (("commit_rule", commits), ("rebalance_rule", rebalances)):
        rules = [
            (check, getattr(MODULES[check.name], attribute)(settings.of(check)))
            for check in checks
            if hasattr(MODULES[check.name], attribute)
        ]
        if rules:
            made.append(apply_rules(source(tables), rules))
    made += [
        MODULES[check.name].find(tables, settings.of(check)) for check in checks if hasattr(MODULES[check.name], "find")
    ]
    return made


def _capped(query: DataFrame) -> DataFrame:
    """No more than the worst findings of each check in a group; the last of them says how many there are beside."""
    window = "PARTITION BY check, group_id"
    ranked = query.selectExpr(
        "*",
        f"row_number() OVER ({window} ORDER BY value DESC, topic, partition) AS rank",
        f"count(*) OVER ({window}) AS alike",
    )
    shown = f"(group_id IS NULL OR severity = '{NOT_EVALUABLE}')"
    columns = [column.name for column in FINDINGS.columns]
    message = (
        f"if({shown} OR rank < {MAX_PER_GROUP} OR alike <= {MAX_PER_GROUP}, message,"
        f" concat(message, '; and ', alike - {MAX_PER_GROUP}, ' more like it in this group')) AS message"
    )
    return ranked.where(f"{shown} OR rank <= {MAX_PER_GROUP}").selectExpr(
        *(message if name == "message" else f"`{name}`" for name in columns)
    )


def _worst_first(row: Mapping[str, Any]) -> tuple[Any, ...]:
    severity = SEVERITIES.index(row["severity"]) if row["severity"] in SEVERITIES else len(SEVERITIES)
    place = (row["group_id"] or "", row["topic"] or "", row["partition"] or 0, row["log_offset"] or 0)
    return severity, row["check"], -(row["value"] or 0.0), *place


def _results(
    checks: Collection[Check], settings: Settings, found: list[dict[str, Any]], missing: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    counts = Counter(row["check"] for row in found)
    worst = {row["check"]: row["severity"] for row in reversed(found)}
    results = []
    for check in checks:
        row = {
            "check": check.name,
            "status": "found" if counts[check.name] else "clean",
            "severity": worst.get(check.name, check.severity),
            "findings": counts[check.name],
            "threshold": settings.in_words(check),
        }
        reasons = [(one["group_id"], one["message"]) for one in missing if one["check"] == check.name]
        for_all = [reason for group_id, reason in reasons if group_id is None]
        of_groups = [(group_id, reason) for group_id, reason in reasons if group_id is not None]
        if for_all and not counts[check.name]:
            row |= {"status": NOT_EVALUABLE, "reason": "; ".join(for_all)}
        results.append(row)
        results += [row | {"status": NOT_EVALUABLE, "findings": 0, "group_id": g, "reason": why}
                    for g, why in _named(of_groups)]  # fmt: skip
    return results


def _named(of_groups: list[tuple[str | None, str]]) -> list[tuple[str | None, str]]:
    """Group by group, unless they are too many to read."""
    if len(of_groups) <= MAX_GROUPS_NAMED:
        return of_groups
    return [(None, f"{len(of_groups):,} groups, such as {of_groups[0][0]}: {of_groups[0][1]}")]


def _frame(spark: SparkSession, table: Table, rows: list[dict[str, Any]]) -> DataFrame:
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema=schema(table.name)))
