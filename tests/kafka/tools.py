"""Kafka's command line tools in a JVM that stays: starting one takes two seconds of CPU."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import TracebackType

from tests.kafka.jars import java_command

DONE = "\x1fdone\n"
SOURCE = Path(__file__).with_name("Tools.java")


class Tools:
    def __init__(self) -> None:
        self._process = subprocess.Popen(
            java_command(str(SOURCE)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
        )

    def run(self, tool: str, address: str, *arguments: str) -> str:
        """What the tool of this class prints. A last line says its exit status if that is not 0."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\x1f".join((tool, "--bootstrap-server", address, *arguments)) + "\n")
        self._process.stdin.flush()
        printed: list[str] = []
        for each in self._process.stdout:
            if each == DONE:
                return "".join(printed)
            if not each.startswith("\tat "):  # a line of a stack trace
                printed.append(each)
        raise AssertionError(f"the tool died: {''.join(printed)}")

    def stop(self) -> None:
        self._process.communicate()

    def __enter__(self) -> Tools:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
