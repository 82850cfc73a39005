"""Works on with records of partitions that were revoked

The consumer collects records and works through them, and ignores rebalances. Records that it has not committed go to
the new owner of their partition, too: both process them. The right consumer forgets them when the partition is
revoked.
"""

from collections import deque
from contextlib import closing
from threading import Event

from confluent_kafka import Message

from kohort.testing import Broker
from tests.testing.mistakes.service import Consume, Handler, new_consumer, polls, running

CAUGHT = "both members have processed"


def wrong(servers: str, name: str, handle: Handler, stop: Event) -> None:
    waiting: deque[Message] = deque()
    with closing(new_consumer(servers, client_id=name)) as consumer:
        consumer.subscribe(["orders"])
        for message in polls(consumer, stop):
            if message is not None:
                waiting.append(message)
            elif waiting:
                handle(waiting[0].value())
                consumer.commit(message=waiting.popleft())


def right(servers: str, name: str, handle: Handler, stop: Event) -> None:
    waiting: deque[Message] = deque()
    with closing(new_consumer(servers, client_id=name)) as consumer:
        consumer.subscribe(["orders"], on_revoke=lambda *_: waiting.clear(), on_lost=lambda *_: waiting.clear())
        for message in polls(consumer, stop):
            if message is not None:
                waiting.append(message)
            elif waiting:
                handle(waiting[0].value())
                consumer.commit(message=waiting.popleft())


def test(kafka: Broker, consume: Consume) -> None:
    first, second = Handler(), Handler()
    kafka.create_topic("orders")
    kafka.produce("orders", *(b"order %d" % number for number in range(30)))
    with running(consume, kafka.bootstrap_servers, "service-2", first):
        first.wait_for(1)
        with running(consume, kafka.bootstrap_servers, "service-1", second):  # gets the partition: its name comes first
            second.wait_for(1)
            first.has(30, timeout_s=2)
    twice = [value for value in second.seen if value in first.seen]
    assert not twice, f"both members have processed {twice[0]!r}"
