"""Commits the offset of the record, not of the next one

The committed offset says where reading goes on. A consumer that commits the offset of the record that it has just
processed gets the last record of each partition again after every restart and every rebalance, and its lag never
becomes 0.
"""

from contextlib import closing
from threading import Event

from confluent_kafka import TopicPartition

from kohort.testing import Broker
from tests.testing.mistakes.service import Consume, Handler, new_consumer, position, records, running

CAUGHT = "a service that has caught up has no lag"


def wrong(servers: str, handle: Handler, stop: Event) -> None:
    with closing(new_consumer(servers)) as consumer:
        consumer.subscribe(["orders"])
        for message in records(consumer, stop):
            handle(message.value())
            topic, partition, offset = position(message)
            done = TopicPartition(topic, partition, offset)
            consumer.commit(offsets=[done], asynchronous=False)


def right(servers: str, handle: Handler, stop: Event) -> None:
    with closing(new_consumer(servers)) as consumer:
        consumer.subscribe(["orders"])
        for message in records(consumer, stop):
            handle(message.value())
            topic, partition, offset = position(message)
            done = TopicPartition(topic, partition, offset + 1)
            consumer.commit(offsets=[done], asynchronous=False)


def test(kafka: Broker, consume: Consume) -> None:
    kafka.create_topic("orders")
    kafka.produce("orders", b"order 1", b"order 2")
    handle = Handler()
    with running(consume, kafka.bootstrap_servers, handle):
        handle.wait_for(2)
    assert kafka.group("billing").lag == {("orders", 0): 0}, "a service that has caught up has no lag"
