"""Options and output that `kohort audit` and its actions have in common."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from contextlib import AbstractContextManager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from kohort.audit.moments import in_words
from kohort.audit.result import AuditError
from kohort.printable import printable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEEDED = ("pyspark", "pyarrow", "numpy")
COULD_NOT_RUN = 2  # exit status


def add_input(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "path", nargs="+", metavar="PATH",
        help="a data folder, or a copy of a __consumer_offsets-N folder; local, or an address such as s3://bucket/folder;"
        " or a cluster: kafka://HOST:PORT[,HOST:PORT]",
    )  # fmt: skip
    parser.add_argument("--group", metavar="G", help="this group only")
    add_command_config(parser)


def add_command_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--command-config", metavar="FILE",
        help="client.properties for the cluster: TLS, SASL (default: $KOHORT_COMMAND_CONFIG)",
    )  # fmt: skip


def add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set", action="append", default=[], metavar="CHECK.THRESHOLD=VALUE", dest="settings",
        help="another threshold for a check; docs/audit.md lists them",
    )  # fmt: skip
    add_machine(parser)


def add_machine(parser: argparse.ArgumentParser) -> None:
    """Options that change how Spark runs and in which form the output is, but not what is found."""
    parser.add_argument("--json", action="store_true", help="for machines")
    parser.add_argument(
        "--jvm-cache", metavar="DIR", default=os.environ.get("KOHORT_JVM_CACHE"),
        help="keep Spark's classes here: written once, 160 MB, the next starts take half the time",
    )  # fmt: skip
    parser.add_argument("--spark", action="append", default=[], metavar="KEY=VALUE", help="a setting of Spark's own")


def spark_session(options: argparse.Namespace) -> AbstractContextManager[SparkSession]:
    """A session with the settings of the command line, for a `with` block."""
    from kohort.audit.spark.session import session

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # like Ctrl-C: removes temporary tables and ends the JVM
    logging.getLogger().addHandler(logging.NullHandler())  # else py4j prints a traceback for each call that Ctrl-C ends
    return session(dict(setting.partition("=")[::2] for setting in options.spark), jvm_cache=options.jvm_cache)


def is_installed() -> bool:
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        complain(
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed: pip install 'kohort[audit]'"
        )
    return not missing


def complain(problem: object) -> None:
    """Print a text in one line; an AuditError in a line for each reason."""
    for line in str(problem).splitlines() if isinstance(problem, AuditError) else [str(problem)]:
        print(f"kohort audit: {printable(line)}", file=sys.stderr)


def finding_line(finding: dict[str, Any]) -> str:
    """A finding in one line: severity, check, group and partition, message, time."""
    topic, partition = finding["topic"], finding["partition"]
    place = f"{topic}-{partition}" if topic and partition is not None else topic
    where = " ".join(filter(None, [finding["group_id"], place]))
    when = f" at {in_words(finding['time'])}" if finding["time"] is not None else ""
    line = f"{finding['severity']:<9} {finding['check']}: {where + ': ' if where else ''}{finding['message']}{when}"
    return printable(line)
