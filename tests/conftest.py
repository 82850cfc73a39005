"""Which tests may run side by side: `make test` runs two workers of pytest-xdist, plain `pytest` one test at a time.

Tests of one group run in one worker, one after another. A file is a group, so that the broker or the log that its tests
share is made once. The exceptions: the tests that start Spark are one group, because two Sparks at a time need more
memory than a small machine has; and in a few files each test is a group, because each takes long and shares nothing.

The workers take the groups in the order of LONGEST_FIRST. Otherwise one worker could begin with the longest group when
the other has nothing left to do.
"""

from __future__ import annotations

import os

import pytest

SPARK = ("tests/audit/checks/", "tests/audit/report/", "tests/audit/test_", "tests/browser/")
WITHOUT_SPARK = ("tests/audit/test_time_machine.py",)
EACH_TEST_ALONE = ("tests/clients/test_group_members.py",)
LONGEST_FIRST = (
    "spark",
    "tests/clients/test_group_members.py",
    "tests/broker/test_kill_during_",
    "tests/audit/test_time_machine.py",
    "tests/broker/test_rebalance_triggers.py",
    "tests/kafka/",
    "tests/parity/",
    "tests/clients/",
    "tests/simulation/",
    "tests/storage/",
)


def group_of(path: str, name: str) -> str:
    """The group of a test; `path` is its file, from the repository on."""
    if path.startswith(EACH_TEST_ALONE):
        return name
    if path.startswith(SPARK) and not path.startswith(WITHOUT_SPARK):
        return "spark"
    return path


def rank_of(path: str, group: str) -> int:
    ranks = enumerate(LONGEST_FIRST)
    return next((rank for rank, start in ranks if group == start or path.startswith(start)), len(LONGEST_FIRST))


@pytest.hookimpl(tryfirst=True)  # before xdist looks at the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    ranks = {}
    for item in items:
        path = item.nodeid.partition("::")[0]
        group = group_of(path, item.name)
        ranks[item] = rank_of(path, group)
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=ranks.__getitem__)
