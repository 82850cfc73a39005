"""examples/: each language's own test runner runs them against this Kohort. `make examples`.

What they need comes from the registries of their languages, into the caches of their tools. Nothing is written into the
repository: the sources are copied. Those in Python take what this environment has, and `make test` runs them, too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.clients.cache import need
from tests.clients.kohort import KohortProcess

EXAMPLES = Path(__file__).parent.parent / "examples"
BUILT = shutil.ignore_patterns("node_modules", "target", "__pycache__")

IN_PYTHON = ("pytest-aiokafka", "pytest-confluent-kafka", "pytest-faststream", "pytest-kafka-python")


def run(folder: Path, *command: str) -> str:
    environment = os.environ | {"KOHORT": str(KohortProcess.executable)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def copied(name: str, folder: Path) -> Path:
    return Path(shutil.copytree(EXAMPLES / name, folder / name, ignore=BUILT))


@pytest.mark.parametrize("name", IN_PYTHON)
def test_pytest(tmp_path: Path, name: str) -> None:
    folder = copied(name, tmp_path)
    command = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--timeout=60")
    # A member of kafka-python may stay in its rebalance for ever on a busy machine (docs/clients.md).
    for _ in range(2 if name == "pytest-kafka-python" else 0):
        with suppress(AssertionError):
            assert "3 passed" in run(folder, *command)
            return
    assert "3 passed" in run(folder, *command)


def test_each_example_is_run_and_stands_in_the_readme() -> None:
    table = (EXAMPLES / "README.md").read_text()
    folders = {each.name for each in EXAMPLES.iterdir() if each.is_dir()}
    assert folders == {*IN_PYTHON, "node", "go", "junit"}
    assert all(f"| [{name}]({name}) |" in table for name in folders)


@pytest.mark.example
def test_node(tmp_path: Path) -> None:
    need("node", "Node.js of version 20 or newer")
    need("npm", "npm")
    folder = copied("node", tmp_path)
    run(folder, "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")
    assert "# pass 3\n" in run(folder, "node", "--test", "--test-reporter=tap", "--test-concurrency=1")


@pytest.mark.example
def test_go(tmp_path: Path) -> None:
    need("go", "Go of version 1.26 or newer")
    assert run(copied("go", tmp_path), "go", "test", "-v", "-count=1", "./...").count("--- PASS: ") == 3


@pytest.mark.example
def test_junit(tmp_path: Path) -> None:
    need("java", "a JDK of version 17 or newer")
    need("mvn", "Maven")
    told = run(copied("junit", tmp_path), "mvn", "-B", "test")
    assert "Tests run: 3, Failures: 0, Errors: 0, Skipped: 0" in told
