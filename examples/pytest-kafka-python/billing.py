"""The consumer under test: bills each order once, and commits each order that it has billed."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event

from kafka import KafkaConsumer


class Billing:
    def __init__(self, bootstrap_servers: str, charge: Callable[[str], None]) -> None:
        """`charge(order)` sends the bill. It may take its time."""
        self._charge = charge
        self._consumer = KafkaConsumer(
            "orders",
            bootstrap_servers=bootstrap_servers,
            group_id="billing",
            client_id="billing",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=100,
            retry_backoff_ms=50,
            max_poll_records=1,  # commit() commits what poll has handed out
        )
        self.stopping = Event()

    def run(self) -> None:
        """Bill until `stopping` is set, or a commit is refused. Rebalances happen inside of poll."""
        try:
            while not self.stopping.is_set():
                for orders in self._consumer.poll(timeout_ms=100).values():
                    for order in orders:
                        self._charge(order.value.decode())
                        self._consumer.commit()
        finally:
            self._consumer.close(autocommit=False)
