"""The request for an audit, and its result."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

DEFAULT_REPORT = "kohort-audit.html"
SEVERITIES = ("critical", "error", "warning", "info")  # worst first


class AuditError(Exception):
    """The audit cannot be done; the message says why, a line for each reason."""


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asks for."""

    paths: tuple[str, ...]
    out: str | None = None  # folder for the tables; None: they are temporary
    group: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    baseline: str | None = None  # HOST:PORT,HOST:PORT of a cluster to compare with
    settings: tuple[str, ...] = ()  # check.threshold=value
    report: str | None = None
    command_config: str | None = None  # file with the settings of a client

    @property
    def since(self) -> datetime | None:
        return None if self.since_ms is None else datetime.fromtimestamp(self.since_ms / 1000, UTC)

    @property
    def until(self) -> datetime | None:
        return None if self.until_ms is None else datetime.fromtimestamp(self.until_ms / 1000, UTC)

    def report_path(self) -> str:
        """In the folder of the tables, if that is on this machine."""
        if self.report:
            return self.report
        return str(Path(self.out) / "report.html") if self.out and "://" not in self.out else DEFAULT_REPORT


@dataclass(frozen=True, slots=True)
class Result:
    """What the audit found."""

    run_id: str
    findings: list[dict[str, Any]]  # rows of the table findings, worst first
    check_results: list[dict[str, Any]]
    folders: int
    records: int  # number of new records
    problems: list[str]  # what could not be read, a line each
    report: str

    def exit_code(self, fail_on: str) -> int:
        """1: there are findings at or above `fail_on`; 2: there are none, but a part of the input could not be read."""
        bad = SEVERITIES[: SEVERITIES.index(fail_on) + 1]
        if any(finding["severity"] in bad for finding in self.findings):
            return 1
        return 2 if self.problems else 0

    def summary(self) -> str:
        by_severity = Counter(finding["severity"] for finding in self.findings)
        found = ", ".join(f"{by_severity[name]:,} {name}" for name in SEVERITIES if by_severity[name]) or "none"
        states = Counter(row["status"] for row in self.check_results if row["group_id"] is None)
        checks = ", ".join(f"{count} {status}" for status, count in sorted(states.items()))
        return f"Findings: {found}. Checks: {checks}. Read {self.records:,} new records in {self.folders} log folders."

    def as_json(self) -> dict[str, Any]:
        return {
            "run_id": self.run_id,
            "findings": self.findings,
            "checks": self.check_results,
            "problems": self.problems,
            "log_folders": self.folders,
            "new_records": self.records,
            "report": self.report,
        }
