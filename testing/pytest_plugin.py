"""The pytest plugin: the fixtures `kafka` and `kafka_session`, and the marker `@pytest.mark.kafka(**settings)`.

Nothing of Kohort is imported and nothing is started before a test uses one of the fixtures.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kohort.testing.broker import Broker

FIXTURES = ("kafka", "kafka_session")
MARKER = "kafka(**settings): settings of the broker of the fixture `kafka`, such as num_partitions=6"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A broker for this test alone."""
    from kohort.testing.broker import Broker

    settings: dict[str, Any] = {}
    for marker in reversed(list(request.node.iter_markers("kafka"))):  # the nearest one wins
        settings |= {name.replace("_", "."): value for name, value in marker.kwargs.items()}
    with Broker(settings) as made:
        yield made


@pytest.fixture(scope="session")
def kafka_session() -> Iterator[Broker]:
    """A broker for all tests of this run that use it; with pytest-xdist, one for each worker."""
    from kohort.testing.broker import Broker

    with Broker() as made:
        yield made


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that failed has the story of its broker in its report."""
    report = yield
    if report.when == "call" and report.failed:
        for name in FIXTURES:
            tell = getattr(getattr(item, "funcargs", {}).get(name), "story", None)
            if tell is not None:
                report.sections.append((f"Kohort, fixture {name}", tell()))
    return report
