"""Apache Kafka's own jars and tools, fetched from Maven by name on first use and kept in the user's cache."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.clients.cache import made_once

POM = Path(__file__).parent / "pom.xml"
STREAMS_POM = POM.with_name("streams.xml")
OLD_CLIENTS_POM = POM.with_name("old-clients.xml")
KAFKA_VERSION = "4.3.1"
OLD_CLIENTS_VERSION = "3.9.1"


def kafka_jars() -> Path:
    """The folder of jars. Without Java or Maven the calling test is skipped, and says what to install."""
    return _jars(POM, f"kafka-{KAFKA_VERSION}")


def streams_jars() -> Path:
    """The same for Kafka Streams."""
    return _jars(STREAMS_POM, f"kafka-streams-{KAFKA_VERSION}")


def old_client_jars() -> Path:
    """The same for a Java client that knows no transactions of version 2."""
    return _jars(OLD_CLIENTS_POM, f"kafka-clients-{OLD_CLIENTS_VERSION}")


def _jars(pom: Path, name: str) -> Path:
    for command, package in (("java", "a JDK of version 17 or newer"), ("mvn", "Maven")):
        if shutil.which(command) is None:
            pytest.skip(f"needs {package}: `{command}` is not on the PATH")
    return made_once(name, partial(_copy_jars, pom))


def _copy_jars(pom: Path, folder: Path) -> None:
    goal = "dependency:copy-dependencies"
    arguments = ["-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
    subprocess.run(["mvn", "-B", "-q", "-f", str(pom), goal, *arguments], check=True, timeout=600)


def java(*arguments: str, stdin: str | None = None, timeout_s: int = 300) -> str:
    """Runs a class or a single source file with Kafka's jars on the class path; returns what it prints."""
    return _run(arguments, stdin, timeout_s).stdout


def dump_log(*arguments: str) -> tuple[str, str]:
    """kafka-dump-log: what it prints, and what it finds wrong."""
    done = _run(("org.apache.kafka.tools.DumpLogSegments", *arguments), None, 300)
    complaints = [line for line in done.stderr.splitlines() if "StatusLogger" not in line and "SLF4J" not in line]
    return done.stdout, "\n".join(complaints)


def java_command(*arguments: str) -> list[str]:
    """Kafka's jars on the class path; for tools that run briefly."""
    return [
        "java",
        "-Xmx1g",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Dfile.encoding=UTF-8",  # what it prints, whatever the locale
        "-Dstdout.encoding=UTF-8",
        "-cp",
        f"{kafka_jars()}/*",
        *arguments,
    ]


def _run(arguments: Sequence[str], stdin: str | None, timeout_s: int) -> subprocess.CompletedProcess[str]:
    command = java_command(*arguments)
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, encoding="utf-8", timeout=timeout_s)
    assert done.returncode == 0, done.stderr[-4000:]
    return done
