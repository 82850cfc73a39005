"""The Makefile finds a Python: a tested version if there is one, a newer one with a word about it, no older one. And it
installs again when it should."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

MAKEFILE = Path(__file__).parent.parent / "Makefile"

# Looks like another version of Python. It runs `-c CODE`, which is how the Makefile asks, and refuses everything else.
FAKE = """#!/bin/sh
test "$1" = -c || exit 9
exec {python} -c 'import sys; sys.version_info = ({major}, {minor}, 0, "final", 0); exec(sys.argv[1])' "$2"
"""


@pytest.fixture
def pythons(tmp_path: Path) -> Path:
    """A folder for programs, with the few that make needs."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "make", "test", "echo"):
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    return folder


def put_what_an_installation_needs(folder: Path) -> None:
    for name in ("requirements.lock", "pyproject.toml", "hatch_build.py", "broker/topics/record_walk.c"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def make(pythons: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(pythons / "make"), "-f", str(MAKEFILE), *arguments]
    return subprocess.run(
        command, cwd=pythons.parent, env={"PATH": str(pythons)}, capture_output=True, text=True, timeout=60
    )


def add(pythons: Path, **versions: str) -> None:
    for name, version in versions.items():
        major, minor = version.split(".")
        file = pythons / name.replace("_", ".")
        file.write_text(FAKE.format(python=sys.executable, major=major, minor=minor))
        file.chmod(0o755)


@pytest.mark.parametrize(
    ("versions", "chosen"),
    [
        ({"python3": "3.12", "python3_13": "3.13"}, "python3"),
        ({"python3": "3.9", "python3_11": "3.11", "python3_13": "3.13"}, "python3.13"),
        ({"python3": "3.14", "python3_11": "3.11"}, "python3.11"),
        ({"python3": "3.14"}, "python3"),
        ({"python3": "3.10", "python3_15": "3.15"}, "python3.15"),
        ({"python3": "3.10"}, ""),
        ({}, ""),
    ],
)
def test_a_tested_version_is_preferred_and_a_newer_one_is_better_than_none(
    pythons: Path, versions: dict[str, str], chosen: str
) -> None:
    add(pythons, **versions)
    done = make(pythons, "--eval", "which: ; @echo '[$(PYTHON)]'", "which")
    assert done.stdout == f"[{chosen}]\n", done.stderr


@pytest.mark.parametrize(("version", "warned"), [("3.13", False), ("3.14", True)])
def test_a_newer_python_is_tried_with_a_word_that_it_is_untested(pythons: Path, version: str, warned: bool) -> None:
    add(pythons, python3=version)
    put_what_an_installation_needs(pythons.parent)
    done = make(pythons, ".venv/.broker")  # which fails when it wants to make an environment with the fake
    assert ("tested with Python 3.11 to 3.13; python3 is newer and untested" in done.stderr) == warned


def test_without_a_python_that_is_new_enough_it_says_what_is_needed(pythons: Path) -> None:
    add(pythons, python3="3.10")
    put_what_an_installation_needs(pythons.parent)
    done = make(pythons, ".venv/.broker")
    assert "Kohort needs Python 3.11 or newer; none found. Set PYTHON=/path/to/python3." in done.stderr


@pytest.mark.parametrize(
    "changed", ["requirements.lock", "pyproject.toml", "hatch_build.py", "broker/topics/record_walk.c"]
)
def test_it_installs_again_after_a_change_of_what_is_installed_or_compiled(pythons: Path, changed: str) -> None:
    put_what_an_installation_needs(pythons.parent)
    stamp = pythons.parent / ".venv" / ".broker"
    stamp.parent.mkdir()
    stamp.touch()
    is_current = 0
    assert make(pythons, "--question", ".venv/.broker").returncode == is_current
    later = stamp.stat().st_mtime + 1
    os.utime(pythons.parent / changed, (later, later))
    assert make(pythons, "--question", ".venv/.broker").returncode != is_current


def test_no_line_of_the_makefile_is_longer_than_those_of_the_code() -> None:
    assert [line for line in MAKEFILE.read_text().splitlines() if len(line.expandtabs(4)) > 120] == []
