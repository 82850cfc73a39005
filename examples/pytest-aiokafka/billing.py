"""The consumer under test: bills each order once, and commits each order that it has billed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition


class Billing(ConsumerRebalanceListener):
    def __init__(self, bootstrap_servers: str, charge: Callable[[str], Awaitable[None]]) -> None:
        """`charge(order)` sends the bill. It may take its time."""
        self._charge = charge
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap_servers,
            group_id="billing",
            client_id="billing",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=100,
            retry_backoff_ms=50,
        )
        self._billing = asyncio.Lock()
        self.is_stopping = False

    async def run(self) -> None:
        """Bill until `is_stopping` is set, or a commit is refused."""
        self._consumer.subscribe(["orders"], listener=self)
        await self._consumer.start()
        try:
            while not self.is_stopping:
                async with self._billing:
                    await self._bill_one()
        finally:
            await self._consumer.stop()

    async def _bill_one(self) -> None:
        for place, orders in (await self._consumer.getmany(timeout_ms=100, max_records=1)).items():
            for order in orders:
                await self._charge(order.value.decode())
                await self._consumer.commit({place: order.offset + 1})

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Rebalances happen beside `run`. This one waits until the order is billed and committed."""
        async with self._billing:
            pass

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        pass
