"""Starts at the end of its topics

`auto.offset.reset` is `latest` by default. A new service skips all that was produced before its first start, and also
what is produced to a new partition before the service has noticed it. So does a service whose offsets have expired.
"""

from contextlib import closing
from threading import Event

from kohort.testing import Broker
from tests.testing.mistakes.service import Consume, Handler, new_consumer, records, running

CAUGHT = "the service has skipped order 1"


def wrong(servers: str, handle: Handler, stop: Event) -> None:
    with closing(new_consumer(servers, auto_offset_reset="latest")) as consumer:
        consumer.subscribe(["orders"])
        for message in records(consumer, stop):
            handle(message.value())
            consumer.commit(message=message, asynchronous=False)


def right(servers: str, handle: Handler, stop: Event) -> None:
    with closing(new_consumer(servers, auto_offset_reset="earliest")) as consumer:
        consumer.subscribe(["orders"])
        for message in records(consumer, stop):
            handle(message.value())
            consumer.commit(message=message, asynchronous=False)


def test(kafka: Broker, consume: Consume) -> None:
    kafka.create_topic("orders")
    kafka.produce("orders", b"order 1")
    handle = Handler()
    with running(consume, kafka.bootstrap_servers, handle):
        for _ in range(100):
            kafka.produce("orders", b"a later order")
            if handle.has(1, timeout_s=0.2):
                break
    assert handle.seen[:1] == [b"order 1"], f"the service has skipped order 1; it began with {handle.seen[:1]}"
