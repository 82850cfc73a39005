"""Ends without leaving the group

Without `close` the coordinator does not know that the member is gone. Nobody reads its partitions until its session
has timed out, 45 seconds by default. This happens at each deployment.
"""

from contextlib import closing
from threading import Event

from kohort.testing import Broker
from tests.testing.mistakes.service import Consume, Handler, new_consumer, records, running

CAUGHT = "the service has ended, and is still a member"


def wrong(servers: str, handle: Handler, stop: Event) -> None:
    consumer = new_consumer(servers)
    consumer.subscribe(["orders"])
    for message in records(consumer, stop):
        handle(message.value())
        consumer.commit(message=message, asynchronous=False)


def right(servers: str, handle: Handler, stop: Event) -> None:
    with closing(new_consumer(servers)) as consumer:
        consumer.subscribe(["orders"])
        for message in records(consumer, stop):
            handle(message.value())
            consumer.commit(message=message, asynchronous=False)


def test(kafka: Broker, consume: Consume) -> None:
    kafka.create_topic("orders")
    with running(consume, kafka.bootstrap_servers, Handler()):
        kafka.group("billing").wait_until(state="Stable", members=1)
    assert kafka.group("billing").members == [], "the service has ended, and is still a member"
