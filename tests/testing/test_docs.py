"""Every block in docs/testing.md runs: as a script, as a test with pytest, or, for a new user, from pip install on."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.testing.new_user import Page, PlainEnvironment

PAGE = Page.read("testing.md")


@pytest.mark.parametrize("number", range(len(PAGE.python)))
def test_a_block_of_the_page_runs(number: int, tmp_path: Path) -> None:
    code = PAGE.python[number]
    if "def test_" not in code:
        exec(compile(code, f"{PAGE.path}, block {number}", "exec"), {})
        return
    (tmp_path / "test_it.py").write_text(code)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:asyncio",
        "-W",
        "error",
        "test_it.py",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_a_new_user_has_a_green_test_in_less_than_fifteen_lines(empty: PlainEnvironment) -> None:
    install, code, run = PAGE.first_steps()
    assert len([*install.splitlines(), *code.splitlines(), *run.splitlines()]) < 15
    name = re.match(r"# (\w+\.py)\n", code)
    assert name is not None
    empty.shell(install)
    (empty.folder / name[1]).write_text(code)
    assert "1 passed" in empty.shell(run)
