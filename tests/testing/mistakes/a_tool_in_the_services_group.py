"""A tool uses the group of the service

Somebody has to read a topic again and writes a small tool: `assign`, and the settings of the service, group id
included. While the service is stopped, its group is empty, and the coordinator takes commits from anybody. When the
service starts again, it goes on where the tool has ended: it skips orders, or processes them twice.
"""

from contextlib import closing
from threading import Event

from confluent_kafka import OFFSET_BEGINNING, TopicPartition

from kohort.testing import Broker
from tests.testing.mistakes.service import Consume, Handler, new_consumer, records, running

CAUGHT = "the tool has committed for the service"


def wrong(servers: str, handle: Handler, stop: Event) -> None:
    with closing(new_consumer(servers, enable_auto_commit=True)) as tool:
        tool.assign([TopicPartition("orders", 0, OFFSET_BEGINNING)])
        for message in records(tool, stop):
            handle(message.value())


def right(servers: str, handle: Handler, stop: Event) -> None:
    with closing(new_consumer(servers, group_id="replay", enable_auto_commit=False)) as tool:
        tool.assign([TopicPartition("orders", 0, OFFSET_BEGINNING)])
        for message in records(tool, stop):
            handle(message.value())


def test(kafka: Broker, consume: Consume) -> None:
    kafka.create_topic("orders")
    kafka.produce("orders", b"order 1", b"order 2", b"order 3")
    handle = Handler()
    with running(consume, kafka.bootstrap_servers, handle):
        handle.wait_for(1)
    assert kafka.commits("billing") == [], "the tool has committed for the service"
