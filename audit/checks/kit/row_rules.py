"""Rules about single rows of a big table: one pass for all of them, then what was found is gathered per place.

Most rows break no rule, so the pass is a filter. What is left is joined with whatever tells more about it, judged
again, and gathered: a defect that shows in ten thousand rows is one finding, with a count, the first place and the
worst value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql.functions import expr

from audit.checks.kit.check import Check, as_column, literal
from audit.tables import FINDINGS


class RowRule(NamedTuple):
    """Everything is SQL. Of a row: its columns. Of a finding: `n` rows; `worst`, the greatest value; `first` and `w`,
    the first row and the worst one as structs; `last_time`; `any_flag` and `all_flags`."""

    when: str  # of a row: it looks bad
    value: str  # of a row: how bad, the larger the worse
    message: str  # of a finding
    and_then: str = "true"  # of a row, with what was joined to it: it is bad
    flag: str = "false"  # of a row, with what was joined to it: for the finding to tell apart
    severity: str | None = None  # of a finding, if not always the check's
    columns: Mapping[str, str] = {}  # of a finding, where they are not what `Source` says


class Source(NamedTuple):
    """What the pass goes over."""

    frame: DataFrame
    keys: Sequence[str]  # a finding per value of these
    details: Sequence[str]  # columns that rules want to see of the first and the worst row; log_offset and time too
    columns: Mapping[str, str]  # of a finding
    enrich: Callable[[DataFrame], DataFrame] = lambda frame: frame  # joins more to the rows that look bad


def apply_rules(source: Source, rules: Sequence[tuple[Check, RowRule]]) -> DataFrame:
    """Findings of all the rules."""
    suspects = source.frame.where(" OR ".join(f"({rule.when})" for _, rule in rules))
    hits = ", ".join(
        f"if({rule.when}, named_struct('rule', {number}, 'value', CAST({rule.value} AS double)), NULL)"
        for number, (_, rule) in enumerate(rules)
    )
    marked = source.enrich(suspects.selectExpr("*", f"inline(filter(array({hits}), hit -> hit IS NOT NULL))"))
    bad = marked.where(_by_rule([rule.and_then for _, rule in rules]))
    details = ", ".join(f"'{name}', `{name}`" for name in source.details)
    row = f"named_struct({details})"
    flag = _by_rule([rule.flag for _, rule in rules])
    gathered = bad.groupBy("rule", *source.keys).agg(
        expr("count(*) AS n"),
        expr("max(value) AS worst"),
        expr(f"min_by({row}, log_offset) AS first"),
        expr(f"max_by({row}, value) AS w"),
        expr("max(time) AS last_time"),
        expr(f"coalesce(bool_or({flag}), false) AS any_flag"),
        expr(f"coalesce(bool_and({flag}), false) AS all_flags"),
    )
    return gathered.selectExpr(*_finding_columns(source, rules))


def _by_rule(expressions: Sequence[str]) -> str:
    """The expression of the row's rule."""
    if len(set(expressions)) == 1:
        return f"({expressions[0]})"
    cases = " ".join(f"WHEN {number} THEN ({one})" for number, one in enumerate(expressions))
    return f"(CASE rule {cases} END)"


def _finding_columns(source: Source, rules: Sequence[tuple[Check, RowRule]]) -> list[str]:
    usual = {"value": "worst", "log_offset": "first.log_offset", "time": "first.time", "until": "last_time"}
    made = []
    for column in FINDINGS.columns:
        expressions = []
        for check, rule in rules:
            given = {
                "check": literal(check.name),
                "severity": literal(check.severity) if rule.severity is None else rule.severity,
                "message": rule.message,
                "advice": literal(check.advice),
                **{key: f"`{key}`" for key in source.keys},
                **usual,
                **source.columns,
                **rule.columns,
            }
            expressions.append(given.get(column.name, "NULL"))
        made.append(as_column(column.name, _by_rule(expressions)))
    return made
