"""`kohort audit PATH ...`: audits log folders, prints the findings and writes the report."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from glob import glob
from typing import TYPE_CHECKING

from kohort.audit.cli.common import (
    COULD_NOT_RUN,
    Spark,
    add_common,
    add_input,
    complain,
    finding_line,
    is_installed,
)
from kohort.audit.moments import in_words, moment
from kohort.audit.result import SEVERITIES, AuditError, Request, Result
from kohort.printable import printable

if TYPE_CHECKING:
    from kohort.audit.run.progress import Progress

EPILOG = """\
also: kohort audit owners --group G --at TIME ...   who owned each partition at a moment
      kohort audit follow PATH ...                  new findings of a running broker, as they happen

Exit status: 0 nothing found at or above --fail-on, 1 something found, 2 the audit, or a part of it, could not be done.
"""
SMALL_BYTES = 32 << 20  # of logs: one process reads them in less time than Spark needs to start
# Workers end with their task, so that the report can have their memory.
ONE_JOB = {"spark.python.worker.reuse": "false"}
SHOWN = 40  # findings on a terminal; the report and the tables have all of them


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    add_input(parser)
    parser.add_argument("--out", metavar="DIR", help="keep the tables here; the next audit adds what is new")
    parser.add_argument("--since", type=moment, metavar="TIME", help="2026-11-16T06:30 (UTC), or 2h (ago)")
    parser.add_argument("--until", type=moment, metavar="TIME")
    parser.add_argument("--baseline", metavar="HOST:PORT[,...]", help="a running cluster to compare the log with")
    parser.add_argument(
        "--fail-on", choices=SEVERITIES, default="warning", help="exit with 1 for findings as severe (default: warning)"
    )
    parser.add_argument("--report", metavar="FILE", help="default: DIR/report.html, or kohort-audit.html without --out")
    add_common(parser)


def run(options: argparse.Namespace) -> int:
    if not is_installed():
        return COULD_NOT_RUN
    from kohort.audit.run.progress import Progress

    request = Request(
        tuple(options.path), options.out, options.group, options.since, options.until, options.baseline,
        tuple(options.settings), options.report, options.command_config,
    )  # fmt: skip
    try:
        with Progress() as progress, Spark(options) as spark:
            result = _audit(request, progress, spark)
    except AuditError as problem:
        complain(problem)
        return COULD_NOT_RUN
    for line in result.problems:
        complain(line)
    if options.json:
        print(json.dumps(result.as_json(), default=in_words, indent=2))
    else:
        _print(result)
    return result.exit_code(options.fail_on)


def _audit(request: Request, progress: Progress, spark: Spark) -> Result:
    """A small log is audited in this process: Spark would take longer to start than to do it."""
    if spark.is_asked_for or local_bytes(request.paths) > SMALL_BYTES:
        spark.begin()
    from kohort.audit.run.audit import find_input, run_audit

    progress.step("finding the logs")
    found = find_input(request)
    if not spark.is_asked_for and found.size_bytes <= SMALL_BYTES:
        return run_audit(None, request, progress, found)
    progress.step("starting Spark")
    session = spark.session(ONE_JOB)
    progress.watch(session)
    return run_audit(session, request, progress, found)


def local_bytes(paths: Sequence[str]) -> int:
    """About the size of the logs in the paths that are folders of this machine. It needs none of the imports that take
    half a second, so that the JVM can start before them."""
    found = 0
    for path in paths:
        for name in (f"{path}/*.log", f"{path}/__*-*/*.log"):
            for file in glob(name):
                with suppress(OSError):
                    found += os.path.getsize(file)
    return found


def _print(result: Result) -> None:
    for finding in result.findings[:SHOWN]:
        print(finding_line(finding))
        print(f"          {printable(finding['advice'])}")
    if len(result.findings) > SHOWN:
        print(f"... and {len(result.findings) - SHOWN:,} more, in the report")
    print(result.summary())
    if result.report:
        print(f"Report: {result.report}")
