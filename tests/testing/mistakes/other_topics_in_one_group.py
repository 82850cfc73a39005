"""Two services read different topics in one group

Both services get what they ask for, so nobody notices. But a group rebalances as a whole: whenever one service is
deployed, the other one has to give its partitions back and stands still until both have joined again.
"""

from contextlib import closing
from threading import Event

from kohort.testing import Broker
from tests.testing.mistakes.service import Consume, Handler, new_consumer, records, running

CAUGHT = "billing was disturbed"


def wrong(servers: str, service: str, topic: str, handle: Handler, stop: Event) -> None:
    with closing(new_consumer(servers, group_id="backend", client_id=service)) as consumer:
        consumer.subscribe([topic])
        for message in records(consumer, stop):
            handle(message.value())
            consumer.commit(message=message, asynchronous=False)


def right(servers: str, service: str, topic: str, handle: Handler, stop: Event) -> None:
    with closing(new_consumer(servers, group_id=service, client_id=service)) as consumer:
        consumer.subscribe([topic])
        for message in records(consumer, stop):
            handle(message.value())
            consumer.commit(message=message, asynchronous=False)


def test(kafka: Broker, consume: Consume) -> None:
    for topic in ("orders", "parcels"):
        kafka.produce(topic, b"first")
    billing, shipping = Handler(), Handler()
    with running(consume, kafka.bootstrap_servers, "billing", "orders", billing):
        billing.wait_for(1)
        before = len(kafka.requests("SyncGroup", client_id="billing"))
        with running(consume, kafka.bootstrap_servers, "shipping", "parcels", shipping):
            shipping.wait_for(1)
        after = len(kafka.requests("SyncGroup", client_id="billing"))
    assert before == after, "billing was disturbed when shipping was deployed"
