"""Works too long between two polls

After `max.poll.interval.ms` without a poll the client leaves the group. Another member gets the partitions, and with
them the order that the first one is still busy with: it is processed twice, and if the order itself takes that long,
it goes from member to member forever. Five minutes is the default; here it is one second, and the work takes 2.5.
"""

from contextlib import closing, suppress
from threading import Event

from confluent_kafka import KafkaException

from kohort.testing import Broker
from tests.testing.mistakes.service import Consume, Handler, new_consumer, records, running

CAUGHT = "the service has left its group while it was at work"


def wrong(servers: str, handle: Handler, stop: Event) -> None:
    with closing(new_consumer(servers, session_timeout_ms=1_000, max_poll_interval_ms=1_000)) as consumer:
        consumer.subscribe(["orders"])
        for message in records(consumer, stop):
            handle(message.value())
            consumer.commit(message=message, asynchronous=False)


def right(servers: str, handle: Handler, stop: Event) -> None:
    with closing(new_consumer(servers, session_timeout_ms=1_000, max_poll_interval_ms=60_000)) as consumer:
        consumer.subscribe(["orders"])
        for message in records(consumer, stop):
            handle(message.value())
            consumer.commit(message=message, asynchronous=False)


def test(kafka: Broker, consume: Consume) -> None:
    group = kafka.group("billing")
    has_left = []

    class Slow(Handler):
        def __call__(self, value: bytes | None) -> None:
            with suppress(TimeoutError):  # it takes 2.5 seconds
                group.wait_until(members=0, timeout=2.5)
                has_left.append(True)
            super().__call__(value)

    kafka.create_topic("orders")
    kafka.produce("orders", b"order 1")
    handle = Slow()
    with suppress(KafkaException), running(consume, kafka.bootstrap_servers, handle):
        handle.wait_for(1)
    assert not has_left, "the service has left its group while it was at work"
