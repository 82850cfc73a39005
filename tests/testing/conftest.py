"""A broker with the topic `orders`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kohort.testing import Broker
from tests.built_wheel import build, check_out
from tests.testing.new_user import PlainEnvironment


@pytest.fixture
def kafka() -> Iterator[Broker]:
    with Broker() as made:
        made.create_topic("orders", partitions=4)
        yield made


@pytest.fixture
def empty(tmp_path: Path) -> PlainEnvironment:
    """An empty environment, as a new user has it."""
    (tmp_path / "empty").mkdir()
    wheel = build(check_out(tmp_path / "checkout"), "wheel", tmp_path / "wheel")
    return PlainEnvironment(tmp_path / "empty", wheel)
