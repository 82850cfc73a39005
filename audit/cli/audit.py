"""`kohort audit PATH ...`: audits log folders, prints the findings and writes the report."""

from __future__ import annotations

import argparse
import json

from kohort.audit.cli.common import (
    COULD_NOT_RUN,
    add_common,
    add_input,
    complain,
    finding_line,
    is_installed,
    spark_session,
)
from kohort.audit.moments import in_words, moment
from kohort.audit.result import SEVERITIES, AuditError, Request, Result
from kohort.printable import printable

EPILOG = """\
also: kohort audit owners --group G --at TIME ...   who owned each partition at a moment
      kohort audit follow PATH ...                  new findings of a running broker, as they happen

Exit status: 0 nothing found at or above --fail-on, 1 something found, 2 the audit, or a part of it, could not be done.
"""
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
    from kohort.audit.run.audit import run_audit
    from kohort.audit.run.progress import Progress

    request = Request(
        tuple(options.path), options.out, options.group, options.since, options.until, options.baseline,
        tuple(options.settings), options.report, options.command_config,
    )  # fmt: skip
    try:
        with Progress() as progress, spark_session(options) as spark:
            progress.watch(spark)
            result = run_audit(spark, request, progress)
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


def _print(result: Result) -> None:
    for finding in result.findings[:SHOWN]:
        print(finding_line(finding))
        print(f"          {printable(finding['advice'])}")
    if len(result.findings) > SHOWN:
        print(f"... and {len(result.findings) - SHOWN:,} more, in the report")
    print(result.summary())
    if result.report:
        print(f"Report: {result.report}")
