"""Two processes have the same group.instance.id

The id of a static member stands in a file or an image that was copied. The second process takes the place of the
first one, which is fenced and ends. A supervisor starts it again, and now the second one is fenced, and so on.
"""

from contextlib import closing, suppress
from threading import Event

from confluent_kafka import KafkaException

from kohort.testing import Broker
from tests.testing.mistakes.service import Consume, Handler, new_consumer, records, running

CAUGHT = "one of the two was fenced"


def wrong(servers: str, host: str, handle: Handler, stop: Event) -> None:
    with closing(new_consumer(servers, group_instance_id="billing-1")) as consumer:
        consumer.subscribe(["orders"])
        for message in records(consumer, stop):
            handle(message.value())
            consumer.commit(message=message, asynchronous=False)


def right(servers: str, host: str, handle: Handler, stop: Event) -> None:
    with closing(new_consumer(servers, group_instance_id=f"billing-{host}")) as consumer:
        consumer.subscribe(["orders"])
        for message in records(consumer, stop):
            handle(message.value())
            consumer.commit(message=message, asynchronous=False)


def test(kafka: Broker, consume: Consume) -> None:
    kafka.create_topic("orders", partitions=2)
    group = kafka.group("billing")
    with suppress(KafkaException), running(consume, kafka.bootstrap_servers, "host-a", Handler()):
        group.wait_until(state="Stable", members=1)
        with running(consume, kafka.bootstrap_servers, "host-b", Handler()), suppress(TimeoutError):
            group.wait_until(state="Stable", members=2, timeout=2)
    fenced = [request for request in kafka.requests() if "FENCED_INSTANCE_ID" in (request.errors or ())]
    assert not fenced, f"one of the two was fenced: {fenced[0]}"
