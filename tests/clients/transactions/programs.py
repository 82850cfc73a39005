"""How the programs with transactional clients are built and started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.clients.cache import made_from, need
from tests.kafka.jars import kafka_jars, old_client_jars

CLIENTS = Path(__file__).parents[1]
SARAMA_OLDEST = "0.11.0.0"  # the first Kafka with transactions: sarama then sends the oldest versions
SARAMA_NEWEST = "4.0.0"
JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


def java_program(name: str, *arguments: str, jars: Path | None = None) -> list[str]:
    """A class of its own file in tests/clients/java, compiled once."""
    need("javac", "a JDK of version 17 or newer")
    source = CLIENTS / "java" / f"{name}.java"
    jars = jars or kafka_jars()
    class_path = f"{jars}/*"

    def compile_to(folder: Path) -> None:
        command = ["javac", "-d", str(folder), "-cp", class_path, str(source)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr

    classes = made_from(f"java-{name}-{jars.name}", [source], compile_to)
    return ["java", *JVM, "-cp", f"{classes}:{class_path}", name, *arguments]


def go_program(package: str, *arguments: str) -> list[str]:
    """A package in tests/clients/go, built once."""
    need("go", "Go of version 1.26 or newer")
    sources = CLIENTS / "go"

    def build(folder: Path) -> None:
        command = ["go", "build", "-o", str(folder / "program"), f"./{package}"]
        done = subprocess.run(command, cwd=sources, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr

    files = [sources / "go.mod", sources / "go.sum", *sorted((sources / package).iterdir())]
    return [str(made_from(f"go-{package}", files, build) / "program"), *arguments]


def producers(client: str, bootstrap: str) -> list[str]:
    """The command line of a program with transactional producers; producer_program.py says how it speaks."""
    match client:
        case "java":
            return java_program("TransactionalProducers", bootstrap)
        case "java_3_9":
            return java_program("TransactionalProducers", bootstrap, jars=old_client_jars())
        case "franz_go":
            return go_program("producers", bootstrap)
        case "sarama_oldest":
            return go_program("sarama", bootstrap, SARAMA_OLDEST)
        case "sarama":
            return go_program("sarama", bootstrap, SARAMA_NEWEST)
        case _:
            return [sys.executable, "-m", "tests.clients.transactions.producer_program", client, bootstrap]
