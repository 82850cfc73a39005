"""A broker for the client tests: one `kohort serve` for all of them, or another broker to try the tests themselves on.

KOHORT_TEST_BOOTSTRAP=127.0.0.1:9092 python -m pytest tests/clients      # for instance a real Kafka
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.clients.kohort import KohortProcess


@pytest.fixture(scope="session")
def _broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KohortProcess | None]:
    if "KOHORT_TEST_BOOTSTRAP" in os.environ:
        yield None
        return
    with KohortProcess(tmp_path_factory.mktemp("kohort"), group_initial_rebalance_delay_ms="0") as process:
        yield process


@pytest.fixture
def bootstrap(_broker: KohortProcess | None, request: pytest.FixtureRequest) -> Iterator[str]:
    """HOST:PORT. What the broker logged during a test is shown if that test fails."""
    if _broker is None:
        yield os.environ["KOHORT_TEST_BOOTSTRAP"]
        return
    before = _broker.log.stat().st_size
    yield _broker.address
    with _broker.log.open("rb") as log:
        log.seek(before)
        print(f"--- the broker's log\n{log.read().decode(errors='replace')}")
    assert _broker.process.poll() is None, "the broker died"
