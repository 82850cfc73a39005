"""A member of each of its groups with aiokafka; see group_member.py."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.errors import KafkaError

from tests.clients.group_member import HEARTBEAT_INTERVAL_MS, POLL_MS, Arguments, Membership, arguments, wait_for_close

ASSIGNORS = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, membership: Membership, to_commit: dict[int, int]) -> None:
        self._membership = membership
        self._to_commit = to_commit

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._membership.say("assigned", partitions=[each.partition for each in assigned])

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._to_commit.clear()
        self._membership.say("revoked", partitions=[each.partition for each in revoked])


async def run(told: Arguments, membership: Membership, closing: asyncio.Event) -> None:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=told.bootstrap,
        client_id="aiokafka",
        group_id=membership.group,
        group_instance_id=membership.instance,
        partition_assignment_strategy=[ASSIGNORS[membership.assignor]],
        session_timeout_ms=told.session_ms,
        heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=200,
    )
    to_commit: dict[int, int] = {}
    consumer.subscribe([told.topic], listener=Listener(membership, to_commit))
    await consumer.start()
    while not closing.is_set():
        polled = await consumer.getmany(timeout_ms=POLL_MS)
        records = [(r.partition, r.offset, r.value) for batch in polled.values() for r in batch]
        to_commit |= membership.consumed(records)
        if to_commit:
            offsets = dict(to_commit)
            try:
                await consumer.commit({TopicPartition(told.topic, p): offset for p, offset in offsets.items()})
            except KafkaError as problem:
                membership.say("commit_failed", text=repr(problem))
            else:
                membership.say("committed", offsets=offsets)
                for partition, offset in offsets.items():
                    if to_commit.get(partition) == offset:
                        del to_commit[partition]
    await consumer.stop()
    membership.say("closed")


async def main() -> None:
    logging.disable()  # it tells at length that the broker is away
    told = arguments()
    closing = asyncio.Event()
    members = [asyncio.create_task(run(told, each, closing)) for each in told.memberships]
    await asyncio.to_thread(wait_for_close)
    closing.set()
    await asyncio.gather(*members)


if __name__ == "__main__":
    asyncio.run(main())
