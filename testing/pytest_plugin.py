"""The pytest plugin: the fixtures `kafka` and `kafka_session`, and the marker `@pytest.mark.kafka(**settings)`.

With the ini option `kafka_check = true`, with `--kafka-check`, or with `@pytest.mark.kafka(check=True)` each test that
has passed is judged by `kafka.check()`. `check={"ignore": ["offset_rewind"]}` gives its arguments, `check=False` spares
a test.

Nothing of Kohort is imported and nothing is started before a test uses one of the fixtures.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kohort.testing.broker import Broker

FIXTURES = ("kafka", "kafka_session")
MARKER = (
    "kafka(check=None, **settings): settings of the broker of the fixture `kafka`, such as num_partitions=6; "
    "whether kafka.check() judges the test when it has passed, or its arguments"
)
CHECK_HELP = "run kafka.check() after each test that has passed; of kafka_session, at the end"
HAS_FAILED = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("kafka_check", CHECK_HELP, type="bool", default=False)
    parser.getgroup("kohort").addoption("--kafka-check", action="store_true", help=CHECK_HELP)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A broker for this test alone."""
    from kohort.testing.broker import Broker

    settings: dict[str, Any] = {}
    check: bool | dict[str, Any] = _checks_all(request.config)
    for marker in reversed(list(request.node.iter_markers("kafka"))):  # the nearest one wins
        given = dict(marker.kwargs)
        check = given.pop("check", check)
        settings |= {name.replace("_", "."): value for name, value in given.items()}
    with Broker(settings) as made:
        yield made
        if check is not False and not request.node.stash.get(HAS_FAILED, False):
            _check(made, request.node, {} if check is True else check)


@pytest.fixture(scope="session")
def kafka_session(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A broker for all tests of this run that use it; with pytest-xdist, one for each worker."""
    from kohort.testing.broker import Broker

    with Broker() as made:
        yield made
        if _checks_all(request.config):
            made.check()


def _checks_all(config: pytest.Config) -> bool:
    return bool(config.getoption("--kafka-check") or config.getini("kafka_check"))


def _check(kafka: Broker, item: pytest.Item, arguments: dict[str, Any]) -> None:
    """Findings fail the test, at its teardown. The story is told here: at the report the broker is stopped."""
    try:
        kafka.check(**arguments)
    except AssertionError:
        item.add_report_section("teardown", "story of Kohort, fixture kafka", kafka.story())
        raise


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that failed has the story of its broker in its report."""
    report = yield
    if report.when == "call" and report.failed:
        item.stash[HAS_FAILED] = True
        for name in FIXTURES:
            tell = getattr(getattr(item, "funcargs", {}).get(name), "story", None)
            if tell is not None:
                report.sections.append((f"Kohort, fixture {name}", tell()))
    return report
