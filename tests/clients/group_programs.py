"""How each client's member program is built and started."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.clients.cache import made_from, need
from tests.clients.group_checks import SESSION_MS, TOPIC
from tests.kafka.jars import kafka_jars

HERE = Path(__file__).parent

# (bootstrap, memberships as GROUP=ASSIGNOR[=INSTANCE]) -> command line
Program = Callable[[str, Sequence[str]], list[str]]


def _python(module: str) -> Program:
    def command(bootstrap: str, memberships: Sequence[str]) -> list[str]:
        return [sys.executable, "-m", f"tests.clients.{module}", bootstrap, TOPIC, str(SESSION_MS), *memberships]

    return command


confluent = _python("group_member_confluent")
kafka_python = _python("group_member_kafka_python")
aiokafka = _python("group_member_aiokafka")


def _jvm(class_path: str) -> list[str]:
    return ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-cp", class_path]


def java(bootstrap: str, memberships: Sequence[str]) -> list[str]:
    need("javac", "a JDK of version 17 or newer")
    source = HERE / "java" / "GroupMember.java"
    jars = f"{kafka_jars()}/*"

    def compile_to(folder: Path) -> None:
        command = ["javac", "-d", str(folder), "-cp", jars, str(source)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr

    classes = made_from("java-group-member", [source], compile_to)
    return [*_jvm(f"{classes}:{jars}"), "GroupMember", bootstrap, TOPIC, str(SESSION_MS), *memberships]


def franz_go(bootstrap: str, memberships: Sequence[str]) -> list[str]:
    need("go", "Go of version 1.26 or newer")
    sources = HERE / "go"

    def build(folder: Path) -> None:
        command = ["go", "build", "-o", str(folder / "member"), "./group"]
        done = subprocess.run(command, cwd=sources, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr

    files = [sources / "go.mod", sources / "go.sum", sources / "group" / "main.go"]
    program = made_from("franz-go-group-member", files, build) / "member"
    return [str(program), bootstrap, TOPIC, str(SESSION_MS), *memberships]
