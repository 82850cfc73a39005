"""The application under test: bills each order once, and commits each order that it has billed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection

from aiokafka import ConsumerRebalanceListener, TopicPartition
from faststream import AckPolicy
from faststream.kafka import KafkaBroker
from faststream.kafka.annotations import KafkaMessage


class FinishFirst(ConsumerRebalanceListener):
    """Rebalances happen beside the handler. They wait until the order is billed and committed."""

    def __init__(self) -> None:
        self.billing = asyncio.Lock()

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        async with self.billing:
            pass

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        pass


def make_billing(bootstrap_servers: str, charge: Callable[[str], Awaitable[None]]) -> KafkaBroker:
    """`charge(order)` sends the bill. It may take its time."""
    kafka = KafkaBroker(bootstrap_servers, client_id="billing")
    listener = FinishFirst()
    next_offsets: dict[int, int] = {}  # by partition: after a rebalance an order that is billed may come again

    @kafka.subscriber(
        "orders",
        group_id="billing",
        auto_offset_reset="earliest",
        heartbeat_interval_ms=100,
        ack_policy=AckPolicy.MANUAL,
        listener=listener,
    )
    async def bill(order: str, message: KafkaMessage) -> None:
        record = message.raw_message
        async with listener.billing:
            if record.offset >= next_offsets.get(record.partition, 0):
                await charge(order)
                next_offsets[record.partition] = record.offset + 1
            await message.ack()

    return kafka
