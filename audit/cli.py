"""`kohort audit`: who owned what when, who committed what, and what went wrong, from a log of consumer offsets.

Actions beside it, `kohort audit owners` and `kohort audit follow`, have files of their own. A folder with such a name
is written ./owners.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
from importlib.util import find_spec
from typing import Any

from kohort.audit.moments import in_words, moment
from kohort.audit.result import SEVERITIES, AuditError, Request, Result

ACTIONS = {"owners": "kohort.audit.cli_owners", "follow": "kohort.audit.cli_follow"}
EPILOG = """\
also: kohort audit owners --group G --at TIME ...   who owned each partition at a moment
      kohort audit follow PATH ...                  new findings of a running broker, as they happen

Exit status: 0 nothing found at or above --fail-on, 1 something found, 2 the audit, or a part of it, could not be done.
"""
NEEDED = ("pyspark", "pyarrow", "numpy")
SHOWN = 40  # findings on a terminal; the report and the tables have all
COULD_NOT_RUN = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    add_input(parser)
    parser.add_argument("--out", metavar="DIR", help="keep the tables here; the next audit adds what is new")
    parser.add_argument("--since", type=moment, metavar="TIME", help="2026-11-16T06:30 (UTC), or 2h (ago)")
    parser.add_argument("--until", type=moment, metavar="TIME")
    parser.add_argument("--baseline", metavar="HOST:PORT", help="a running broker to compare the log with")
    parser.add_argument(
        "--fail-on", choices=SEVERITIES, default="warning", help="exit with 1 for findings as severe (default: warning)"
    )
    parser.add_argument("--report", metavar="FILE", help="default: DIR/report.html, or kohort-audit.html without --out")
    add_common(parser)


def add_input(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "path", nargs="+", metavar="PATH",
        help="a data folder, or a copy of a __consumer_offsets-N folder; local, or an address such as s3://bucket/folder",
    )  # fmt: skip
    parser.add_argument("--group", metavar="G", help="this group only")


def add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set", action="append", default=[], metavar="CHECK.THRESHOLD=VALUE", dest="settings",
        help="another threshold for a check; docs/audit.md lists them",
    )  # fmt: skip
    add_machine(parser)


def add_machine(parser: argparse.ArgumentParser) -> None:
    """How Spark shall run, and who reads the output."""
    parser.add_argument("--json", action="store_true", help="for machines")
    parser.add_argument(
        "--jvm-cache", metavar="DIR", default=os.environ.get("KOHORT_JVM_CACHE"),
        help="keep Spark's classes here: written once, 160 MB, the next starts take half the time",
    )  # fmt: skip
    parser.add_argument("--spark", action="append", default=[], metavar="KEY=VALUE", help="a setting of Spark's own")


def run(options: argparse.Namespace) -> int:
    if not is_installed():
        return COULD_NOT_RUN
    from kohort.audit.progress import Progress
    from kohort.audit.run import run_audit

    request = Request(
        tuple(options.path), options.out, options.group, options.since, options.until, options.baseline,
        tuple(options.settings), options.report,
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


def spark_session(options: argparse.Namespace) -> Any:
    """For `with`."""
    from kohort.audit.session import session

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: temporary tables go, the JVM ends
    logging.getLogger().addHandler(logging.NullHandler())  # py4j would print a trace of each call that Ctrl-C ends
    return session(dict(setting.partition("=")[::2] for setting in options.spark), jvm_cache=options.jvm_cache)


def is_installed() -> bool:
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        complain(f"{', '.join(missing)} is not installed: pip install 'kohort[audit]'")
    return not missing


def complain(problem: object) -> None:
    for line in str(problem).splitlines():
        print(f"kohort audit: {line}", file=sys.stderr)


def _print(result: Result) -> None:
    for finding in result.findings[:SHOWN]:
        print(finding_line(finding))
        print(f"          {finding['advice']}")
    if len(result.findings) > SHOWN:
        print(f"... and {len(result.findings) - SHOWN:,} more, in the report")
    print(result.summary())
    if result.report:
        print(f"Report: {result.report}")


def finding_line(finding: dict[str, Any]) -> str:
    """One finding: how bad, which rule, where, what."""
    topic, partition = finding["topic"], finding["partition"]
    place = f"{topic}-{partition}" if topic and partition is not None else topic
    where = " ".join(filter(None, [finding["group_id"], place]))
    when = f" at {in_words(finding['time'])}" if finding["time"] is not None else ""
    return f"{finding['severity']:<9} {finding['check']}: {where + ': ' if where else ''}{finding['message']}{when}"
