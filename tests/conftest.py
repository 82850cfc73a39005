"""Which tests may run side by side: `make test` runs three workers of pytest-xdist, plain `pytest` one test at a time.

Tests of one group run in one worker, one after another. A file is a group, so that the broker or the log that its tests
share is made once. The exceptions: the tests that start Spark are one group, because two Sparks at a time need more
memory than a small machine has; and in a few files each test is a group, because each takes long and shares nothing.

The workers take the groups in the order of LONGEST_FIRST. Otherwise one worker could begin with the longest group when
the others have nothing left to do. What is not named there takes seconds.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from tests.audit.consumer_story import Told

SPARK = ("tests/audit/checks/", "tests/audit/report/", "tests/audit/test_", "tests/browser/")
WITHOUT_SPARK = ("tests/audit/test_time_machine.py",)
EACH_TEST_ALONE = ("tests/clients/test_group_members.py",)
LONGEST_FIRST = (
    "spark",
    "tests/clients/test_group_members.py",
    "tests/simulation/",
    "tests/kafka/",
    "tests/attack/",
    "tests/audit/test_time_machine.py",
    "tests/parity/",
    "tests/broker/test_kill_during_",
    "tests/testing/test_docs.py",
    "tests/test_examples.py",
    "tests/testing/",
    "tests/broker/test_rebalance_triggers.py",
    "tests/broker/test_command_line.py",
    "tests/why/",
    "tests/clients/",
    "tests/record/",
    "tests/test_",
    "tests/live/",
    "tests/share/",
    "tests/storage/",
)


# A script that starts tests in the background lets them ignore SIGINT, and every process inherits that. Tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def group_of(nodeid: str) -> str:
    """The group of a test; its node id is tests/folder/test_file.py::test_name."""
    path = nodeid.partition("::")[0]
    if path.startswith(EACH_TEST_ALONE):
        return nodeid
    if path.startswith(SPARK) and not path.startswith(WITHOUT_SPARK):
        return "spark"
    return path


def rank_of(nodeid: str) -> int:
    group = group_of(nodeid)
    return next((rank for rank, start in enumerate(LONGEST_FIRST) if group.startswith(start)), len(LONGEST_FIRST))


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Gives the workers whole groups. (`--dist loadgroup` of pytest-xdist 3.8 has no effect with pytest 9.2.)"""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> GroupScheduling:
    return GroupScheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=lambda item: rank_of(item.nodeid))


@pytest.fixture(scope="session")
def consumer_story(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """Told once, because it takes half a minute: the audit's tests judge it, and a browser shows its report."""
    from tests.audit.consumer_story import tell

    return tell(tmp_path_factory.mktemp("story"))


class AuditSample(NamedTuple):
    """What `make audit` has made: a folder with data, tables and a report, and what it printed."""

    folder: Path
    printed: str


@pytest.fixture(scope="session")
def audit_sample(tmp_path_factory: pytest.TempPathFactory) -> AuditSample:
    """Made once, because it takes half a minute."""
    folder = tmp_path_factory.mktemp("audit") / "sample"
    command = [sys.executable, "-m", "kohort.audit.sample", str(folder)]
    made = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert made.returncode == 0, made.stdout[-2000:] + made.stderr[-4000:]
    return AuditSample(folder, made.stdout)
