"""Seeks whenever it gets partitions

The callback was meant for the first start: read everything from the beginning. It is called with every rebalance and
every restart: all records are processed again, and commits go back.
"""

from contextlib import closing
from threading import Event

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from kohort.testing import Broker
from tests.testing.mistakes.service import Consume, Handler, new_consumer, records, running

CAUGHT = "offset_rewind, group billing, orders-0"


def wrong(servers: str, handle: Handler, stop: Event) -> None:
    def begin(consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            partition.offset = OFFSET_BEGINNING
        consumer.assign(partitions)

    with closing(new_consumer(servers)) as consumer:
        consumer.subscribe(["orders"], on_assign=begin)
        for message in records(consumer, stop):
            handle(message.value())
            consumer.commit(message=message, asynchronous=False)


def right(servers: str, handle: Handler, stop: Event) -> None:
    with closing(new_consumer(servers, auto_offset_reset="earliest")) as consumer:  # only where nothing is committed
        consumer.subscribe(["orders"])
        for message in records(consumer, stop):
            handle(message.value())
            consumer.commit(message=message, asynchronous=False)


def test(kafka: Broker, consume: Consume) -> None:
    kafka.create_topic("orders")
    kafka.produce("orders", b"order 1", b"order 2")
    group, handle = kafka.group("billing"), Handler()
    with running(consume, kafka.bootstrap_servers, handle):
        group.wait_until(committed={("orders", 0): 2})
    kafka.produce("orders", b"order 3")
    with running(consume, kafka.bootstrap_servers, handle):  # it is started again
        group.wait_until(committed={("orders", 0): 3})
    kafka.check()
