"""Keeps its table of offsets over rebalances

The consumer keeps the next offset of each partition in a table, and commits the whole table. After a rebalance,
partitions of others still stand there. The coordinator takes commits for any partition from any member of the group:
the old offsets overwrite the progress of the new owner, and after the next rebalance many orders are processed twice.
"""

from contextlib import closing
from threading import Event

from confluent_kafka import TopicPartition

from kohort.testing import Broker
from tests.testing.mistakes.service import Consume, Handler, new_consumer, position, records, running

CAUGHT = "commit_by_non_owner, group billing, orders-"


def wrong(servers: str, handle: Handler, stop: Event) -> None:
    done: dict[tuple[str, int], int] = {}
    with closing(new_consumer(servers)) as consumer:
        consumer.subscribe(["orders"])
        for message in records(consumer, stop):
            handle(message.value())
            topic, partition, offset = position(message)
            done[topic, partition] = offset + 1
            offsets = [TopicPartition(*place, following) for place, following in done.items()]
            consumer.commit(offsets=offsets, asynchronous=False)


def right(servers: str, handle: Handler, stop: Event) -> None:
    done: dict[tuple[str, int], int] = {}
    with closing(new_consumer(servers)) as consumer:
        consumer.subscribe(["orders"], on_revoke=lambda *_: done.clear(), on_lost=lambda *_: done.clear())
        for message in records(consumer, stop):
            handle(message.value())
            topic, partition, offset = position(message)
            done[topic, partition] = offset + 1
            offsets = [TopicPartition(*place, following) for place, following in done.items()]
            consumer.commit(offsets=offsets, asynchronous=False)


def test(kafka: Broker, consume: Consume) -> None:
    kafka.create_topic("orders", partitions=2)
    group, handle = kafka.group("billing"), Handler()
    with running(consume, kafka.bootstrap_servers, handle):
        kafka.produce("orders", b"order 1", partition=0)
        kafka.produce("orders", b"order 2", partition=1)
        group.wait_until(committed={("orders", 0): 1, ("orders", 1): 1})
        with running(consume, kafka.bootstrap_servers, handle):
            group.wait_until(state="Stable", members=2)
            kafka.produce("orders", b"order 3", partition=0)
            kafka.produce("orders", b"order 4", partition=1)
            handle.wait_for(4)
    kafka.check()
