"""Brokers in one process leave nothing behind. `make leaks` starts a thousand."""

from __future__ import annotations

import subprocess
import sys


def test_thirty_brokers_with_members_connected_at_the_stop_leave_nothing_behind_and_warn_of_nothing() -> None:
    command = [sys.executable, "-W", "error", "-m", "tests.testing.leaks", "--brokers", "30"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.stdout.endswith("nothing was left behind\n"), done.stdout + done.stderr
    assert done.returncode == 0
    assert "Warning" not in done.stderr
