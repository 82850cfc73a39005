"""Commits before processing

The commit comes first, and the work after it. When the process dies in between, the order is lost: whoever takes over
begins behind it, and nothing in the group shows that an order is missing.
"""

from contextlib import closing
from threading import Event

import pytest

from kohort.testing import Broker
from tests.testing.mistakes.service import Consume, Handler, new_consumer, records

CAUGHT = "order 1 is committed, and nobody has processed it"


def wrong(servers: str, handle: Handler, stop: Event) -> None:
    with closing(new_consumer(servers)) as consumer:
        consumer.subscribe(["orders"])
        for message in records(consumer, stop):
            consumer.commit(message=message, asynchronous=False)
            handle(message.value())


def right(servers: str, handle: Handler, stop: Event) -> None:
    with closing(new_consumer(servers)) as consumer:
        consumer.subscribe(["orders"])
        for message in records(consumer, stop):
            handle(message.value())
            consumer.commit(message=message, asynchronous=False)


class Crash(Handler):
    def __call__(self, value: bytes | None) -> None:
        raise MemoryError


def test(kafka: Broker, consume: Consume) -> None:
    kafka.create_topic("orders")
    kafka.produce("orders", b"order 1")
    with pytest.raises(MemoryError):
        consume(kafka.bootstrap_servers, Crash(), Event())
    assert kafka.group("billing").committed == {}, "order 1 is committed, and nobody has processed it"
