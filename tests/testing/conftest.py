"""A broker with the topic `orders`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kohort.testing import Broker


@pytest.fixture
def kafka() -> Iterator[Broker]:
    with Broker() as made:
        made.create_topic("orders", partitions=4)
        yield made
