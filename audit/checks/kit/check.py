"""What a check is, and how it says what it found.

Checks are written in Spark's SQL expressions: short, and Spark reads them faster than calls that build them piece by
piece, which matters with so many checks in one query.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from pyspark.sql import DataFrame

from audit.tables import FINDINGS

CRITICAL, ERROR, WARNING, INFO = "critical", "error", "warning", "info"
SEVERITIES = (CRITICAL, ERROR, WARNING, INFO)  # worst first

# What a check may need that a log does not always have; see evaluable.py.
HISTORY = "history"
BASELINE = "baseline"
COMMITTERS = "committers"
JOIN_STARTS = "join starts"
CLEANER_CHECKPOINT = "cleaner checkpoint"
PARTITION_COUNTS = "partition counts"

Limits: TypeAlias = Mapping[str, float]


class Check(NamedTuple):
    """A rule."""

    name: str  # of the rule and of its file
    severity: str  # of its findings, or of the worst of them
    about: str  # what it looks for, in one sentence
    advice: str  # what to do about it, in one sentence
    thresholds: Limits = MappingProxyType({})  # settable, with their defaults
    needs: tuple[str, ...] = ()  # what it cannot do without


def literal(text: str) -> str:
    """As a string in SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def findings(check: Check, frame: DataFrame, *, message: str, severity: str | None = None, **columns: str) -> DataFrame:
    """A finding per row of `frame`. Everything is an SQL expression over it; columns that are not given are null."""
    given = {
        "check": literal(check.name),
        "severity": literal(check.severity) if severity is None else severity,
        "message": message,
        "advice": literal(check.advice),
        **columns,
    }
    return frame.selectExpr(*(as_column(column.name, given.pop(column.name, "NULL")) for column in FINDINGS.columns))


def as_column(name: str, expression: str) -> str:
    kind = next(column.type for column in FINDINGS.columns if column.name == name)
    return f"CAST({expression} AS {kind}) AS `{name}`"


def seconds(later: str, earlier: str) -> str:
    """The time between two timestamps."""
    return f"((unix_millis({later}) - unix_millis({earlier})) / 1000D)"


def times(count: str, one: str, many: str | None = None) -> str:
    """ "1 commit" or "7 commits", in SQL."""
    return f"concat(format_number({count}, 0), if({count} = 1, ' {one}', ' {many or one + 's'}'))"


def duration(of_seconds: str) -> str:
    """ "850 ms", "45 s", "12 min", "3 h", "9 d" in SQL."""
    s = f"({of_seconds})"
    return (
        f"CASE WHEN {s} < 1 THEN concat(CAST(round({s} * 1000) AS bigint), ' ms')"
        f" WHEN {s} < 120 THEN concat(format_number({s}, '0.#'), ' s')"
        f" WHEN {s} < 7200 THEN concat(format_number({s} / 60, '0.#'), ' min')"
        f" WHEN {s} < 172800 THEN concat(format_number({s} / 3600, '0.#'), ' h')"
        f" ELSE concat(format_number({s} / 86400, '0.#'), ' d') END"
    )
