"""The consumer under test: bills each order once, and commits each order that it has billed."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event

from confluent_kafka import Consumer, KafkaException


class Billing:
    def __init__(self, bootstrap_servers: str, charge: Callable[[str], None]) -> None:
        """`charge(order)` sends the bill. It may take its time."""
        self._charge = charge
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": "billing",
                "client.id": "billing",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "heartbeat.interval.ms": 100,
            }
        )
        self.stopping = Event()

    def run(self) -> None:
        """Bill until `stopping` is set, or a commit is refused."""
        # With a callback, partitions are given up inside of poll, and never while an order is being billed.
        self._consumer.subscribe(["orders"], on_revoke=lambda consumer, partitions: None)
        try:
            while not self.stopping.is_set():
                message = self._consumer.poll(0.1)
                if message is None:
                    continue
                if message.error():
                    raise KafkaException(message.error())
                self._charge(message.value().decode())
                for place in self._consumer.commit(message=message, asynchronous=False):
                    if place.error is not None:
                        raise KafkaException(place.error)
        finally:
            self._consumer.close()
