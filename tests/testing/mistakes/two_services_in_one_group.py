"""Two services share a group id

Each service should get every order. The group id was copied with the rest of the configuration: in one group the two
services share the partitions, and each gets only some of the orders.
"""

from contextlib import closing
from threading import Event

from kohort.testing import Broker
from tests.testing.mistakes.service import Consume, Handler, new_consumer, records, running

CAUGHT = "one service did not get every order"


def wrong(servers: str, service: str, handle: Handler, stop: Event) -> None:
    with closing(new_consumer(servers, group_id="orders")) as consumer:
        consumer.subscribe(["orders"])
        for message in records(consumer, stop):
            handle(message.value())
            consumer.commit(message=message, asynchronous=False)


def right(servers: str, service: str, handle: Handler, stop: Event) -> None:
    with closing(new_consumer(servers, group_id=service)) as consumer:
        consumer.subscribe(["orders"])
        for message in records(consumer, stop):
            handle(message.value())
            consumer.commit(message=message, asynchronous=False)


def test(kafka: Broker, consume: Consume) -> None:
    kafka.create_topic("orders", partitions=2)
    kafka.produce("orders", b"order 1", partition=0)
    kafka.produce("orders", b"order 2", partition=1)
    billing, shipping = Handler(), Handler()
    with (
        running(consume, kafka.bootstrap_servers, "billing", billing),
        running(consume, kafka.bootstrap_servers, "shipping", shipping),
    ):
        both = billing.has(2, timeout_s=3) and shipping.has(2, timeout_s=3)
    assert both, f"one service did not get every order: billing {billing.seen}, shipping {shipping.seen}"
