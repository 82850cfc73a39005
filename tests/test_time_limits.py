"""A test that hangs ends, says where it hung, and takes nothing else with it: the limits in pyproject.toml at work.

DEADLOCK is what a C library does that waits for itself and holds the GIL: no Python code runs any more.
"""

from __future__ import annotations

import queue
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.clients.group_checks import MemberProcess

ROOT = Path(__file__).parents[1]
DEADLINE_S = 100

HANGS = "import threading\ndef test_hangs(): threading.Event().wait()\ndef test_next(): pass\n"
DEADLOCK = """
import ctypes

def deadlock():
    mutex = ctypes.create_string_buffer(64)
    ctypes.PyDLL(None).pthread_mutex_lock(mutex)  # PyDLL keeps the GIL during calls
    ctypes.PyDLL(None).pthread_mutex_lock(mutex)
"""
HOLDS_THE_GIL = DEADLOCK + "def test_hangs(): deadlock()\ndef test_next(): pass\n"
MEMBER = (
    DEADLOCK
    + """
print('{"group": "g", "event": "committed", "offsets": {"0": 7}}', flush=True)
input()
deadlock()
"""
)


def run_pytest(folder: Path, code: str, *options: str) -> tuple[int, str]:
    """With the project's settings, but for the seconds in `options`."""
    file = folder / "test_hanging.py"
    file.write_text(code)
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(folder)]
    done = subprocess.run(
        [*command, *options, str(file)], cwd=folder, capture_output=True, text=True, timeout=DEADLINE_S
    )
    return done.returncode, done.stdout + done.stderr


def test_a_test_that_hangs_fails_with_all_stacks_and_the_next_one_runs(tmp_path: Path) -> None:
    status, said = run_pytest(tmp_path, HANGS, "-o", "timeout=1")
    assert status == 1
    assert "1 failed, 1 passed" in said
    assert "threading.Event().wait()" in said


def test_a_test_that_hangs_and_holds_the_gil_ends_the_process_with_all_stacks(tmp_path: Path) -> None:
    status, said = run_pytest(tmp_path, HOLDS_THE_GIL, "-o", "timeout=1", "-o", "faulthandler_timeout=2")
    assert status == 1
    assert "in test_hangs" in said


def test_a_worker_of_make_test_that_hangs_and_holds_the_gil_ends_and_the_test_fails_once(tmp_path: Path) -> None:
    (side_by_side,) = re.findall(r"^SIDE_BY_SIDE = (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    options = [*side_by_side.replace("$(WORKERS)", "2").split(), "-o", "timeout=1", "-o", "faulthandler_timeout=2"]
    status, said = run_pytest(tmp_path, HOLDS_THE_GIL, *options)
    assert status == 1
    assert "1 failed" in said
    assert "in test_hangs" in said


def test_a_member_that_hangs_in_close_is_killed_and_what_it_said_before_counts(tmp_path: Path) -> None:
    said: queue.Queue[tuple[MemberProcess, dict[str, Any]]] = queue.Queue()
    command = [sys.executable, "-c", MEMBER, "tests.clients.group_committer"]
    member = MemberProcess("hanging", command, ["g"], said, tmp_path)
    assert said.get(timeout=DEADLINE_S)[1]["offsets"] == {"0": 7}
    member.ask_to_close()
    member.wait_until_closed(deadline_s=1)
    assert member.process.returncode == -9
