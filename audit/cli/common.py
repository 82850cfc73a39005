"""Options and output that `kohort audit` and its actions have in common."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from kohort.audit.moments import in_words
from kohort.audit.result import AuditError
from kohort.audit.spark.jvm_cache import default_folder
from kohort.printable import printable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kohort.audit.spark.session import Starting

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
        help="keep Spark's classes here, written once, 160 MB (default: kohort/jvm in your folder for caches)",
    )  # fmt: skip
    parser.add_argument("--no-jvm-cache", action="store_true", help="keep no classes: Spark starts in twice the time")
    parser.add_argument("--spark", action="append", default=[], metavar="KEY=VALUE", help="a setting of Spark's own")


class Spark:
    """Spark with the settings of the command line, for a `with` block. Its JVM starts when somebody says `begin`."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._settings = dict(setting.partition("=")[::2] for setting in options.spark)
        self._cache = None if options.no_jvm_cache else options.jvm_cache or default_folder(os.environ)
        self._starting: Starting | None = None
        self._opened = ExitStack()
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # like Ctrl-C: removes temporary tables, ends the JVM

    def __enter__(self) -> Spark:
        return self

    def __exit__(self, *problem: object) -> None:
        if self._starting is not None:
            self._starting.abandon()
        self._opened.close()

    @property
    def is_asked_for(self) -> bool:
        """Whether the user has said how Spark is to run: then it runs, however small the log."""
        from kohort.audit.spark.session import is_submitted

        return bool(self._settings) or is_submitted()

    def begin(self) -> None:
        """Let the JVM start while this process does other things."""
        from kohort.audit.spark.session import Starting, is_submitted

        if self._starting is None and not is_submitted() and not _has_session():
            self._starting = Starting(self._cache)

    def session(self, defaults: Mapping[str, str] | None = None) -> SparkSession:
        """Wait until Spark is ready. `defaults`: settings that the user may have set otherwise."""
        from kohort.audit.spark.session import session

        logging.getLogger().addHandler(logging.NullHandler())  # else py4j prints a traceback for calls that Ctrl-C ends
        self.begin()
        starting, self._starting = self._starting, None
        return self._opened.enter_context(session({**(defaults or {}), **self._settings}, starting=starting))


def _has_session() -> bool:
    return "pyspark" in sys.modules and sys.modules["pyspark"].SparkContext._active_spark_context is not None


def is_installed() -> bool:
    missing = [name for name in NEEDED if find_spec(name) is None]
    # Freed memory goes back to the system. Arrow's own allocators keep it, in this process and in each worker of Spark.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
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
