"""How each client's member program is built and started."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from tests.clients.cache import made_from, need
from tests.clients.group_checks import SESSION_MS, TOPIC
from tests.clients.test_kafkajs import modules
from tests.kafka.jars import kafka_jars

HERE = Path(__file__).parent


class Program(Protocol):
    def __call__(self, bootstrap: str, memberships: Sequence[str], session_ms: int = SESSION_MS) -> list[str]:
        """The command line. Memberships are GROUP=ASSIGNOR[=INSTANCE]."""


def _python(module: str) -> Program:
    def command(bootstrap: str, memberships: Sequence[str], session_ms: int = SESSION_MS) -> list[str]:
        return [sys.executable, "-m", f"tests.clients.{module}", bootstrap, TOPIC, str(session_ms), *memberships]

    return command


confluent = _python("group_member_confluent")
kafka_python = _python("group_member_kafka_python")
aiokafka = _python("group_member_aiokafka")


def _jvm(class_path: str) -> list[str]:
    return ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-cp", class_path]


def java(bootstrap: str, memberships: Sequence[str], session_ms: int = SESSION_MS) -> list[str]:
    need("javac", "a JDK of version 17 or newer")
    source = HERE / "java" / "GroupMember.java"
    jars = f"{kafka_jars()}/*"

    def compile_to(folder: Path) -> None:
        command = ["javac", "-d", str(folder), "-cp", jars, str(source)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr

    classes = made_from("java-group-member", [source], compile_to)
    return [*_jvm(f"{classes}:{jars}"), "GroupMember", bootstrap, TOPIC, str(session_ms), *memberships]


def franz_go(bootstrap: str, memberships: Sequence[str], session_ms: int = SESSION_MS) -> list[str]:
    need("go", "Go of version 1.26 or newer")
    sources = HERE / "go"

    def build(folder: Path) -> None:
        command = ["go", "build", "-o", str(folder / "member"), "./group"]
        done = subprocess.run(command, cwd=sources, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr

    files = [sources / "go.mod", sources / "go.sum", *sorted((sources / "group").iterdir())]
    program = made_from("franz-go-group-member", files, build) / "member"
    return [str(program), bootstrap, TOPIC, str(session_ms), *memberships]


def kafkajs(bootstrap: str, memberships: Sequence[str], session_ms: int = SESSION_MS) -> list[str]:
    program = str(HERE / "node" / "group_member.js")
    return ["env", f"NODE_PATH={modules()}", "node", program, bootstrap, TOPIC, str(session_ms), *memberships]


def verifiable_consumer(bootstrap: str, memberships: Sequence[str], session_ms: int = SESSION_MS) -> list[str]:
    """Kafka's own test program, in one group. It speaks differently: see group_checks.translated."""
    (membership,) = memberships
    group, assignor = membership.split("=")
    jvm = _jvm(f"{kafka_jars()}/*")
    config = str(HERE / "java" / "verifiable-consumer.properties")
    options = ["--bootstrap-server", bootstrap, "--topic", TOPIC, "--session-timeout", str(session_ms)]
    strategy = f"org.apache.kafka.clients.consumer.{assignor}"
    return [
        *jvm, "org.apache.kafka.tools.VerifiableConsumer", *options, "--group-id", group,
        "--assignment-strategy", strategy, "--command-config", config,
    ]  # fmt: skip
