"""What a check is, and the form of a finding."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from kohort.audit.tables import FINDINGS

CRITICAL, ERROR, WARNING, INFO = "critical", "error", "warning", "info"
SEVERITIES = (CRITICAL, ERROR, WARNING, INFO)  # worst first

# What a check may need that a log does not always have; see evaluable.py.
HISTORY = "history"
BASELINE = "baseline"
COMMITTERS = "committers"
JOIN_STARTS = "join starts"
CLEANER_CHECKPOINT = "cleaner checkpoint"
PARTITION_COUNTS = "partition counts"
OWNERS = "owners"
SHARE_HISTORY = "share history"
CAUSES = "causes"

Limits: TypeAlias = Mapping[str, float]
Row: TypeAlias = dict[str, Any]

_EMPTY: Row = {column.name: None for column in FINDINGS.columns}


class Check(NamedTuple):
    """A rule."""

    name: str  # of the rule and of its file
    severity: str  # of its findings, or of the worst of them
    about: str  # what it looks for, in one sentence
    advice: str  # what to do about it, in one sentence
    thresholds: Limits = MappingProxyType({})  # settable, with their defaults
    needs: tuple[str, ...] = ()  # what the check cannot be evaluated without; see evaluable.py


def finding(check: Check, message: str, *, severity: str | None = None, **columns: Any) -> Row:
    """A row of the table; columns that are not given are null."""
    made = _EMPTY | columns
    assert len(made) == len(_EMPTY), columns
    made |= {"check": check.name, "severity": severity or check.severity, "message": message, "advice": check.advice}
    return made
