"""A member of each of its groups with kafka-python; see group_member.py."""

from __future__ import annotations

import threading
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from tests.clients.group_member import HEARTBEAT_INTERVAL_MS, POLL_MS, Arguments, Membership, arguments, wait_for_close

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, membership: Membership, to_commit: dict[int, int]) -> None:
        self._membership = membership
        self._to_commit = to_commit

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._membership.say("assigned", partitions=[each.partition for each in assigned])

    def on_partitions_revoked(self, revoked: Any) -> None:
        for each in revoked:
            self._to_commit.pop(each.partition, None)
        self._membership.say("revoked", partitions=[each.partition for each in revoked])


def run(told: Arguments, membership: Membership, closing: threading.Event) -> None:
    consumer = KafkaConsumer(
        bootstrap_servers=told.bootstrap,
        client_id="kafka-python",
        group_id=membership.group,
        group_instance_id=membership.instance,
        partition_assignment_strategy=[ASSIGNORS[membership.assignor]],
        session_timeout_ms=told.session_ms,
        heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        reconnect_backoff_max_ms=500,
        fetch_max_wait_ms=200,
    )
    to_commit: dict[int, int] = {}
    consumer.subscribe([told.topic], listener=Listener(membership, to_commit))
    while not closing.is_set():
        try:
            polled = consumer.poll(timeout_ms=POLL_MS)
        except KafkaError:  # the broker is away: poll may say so. A member that stopped here would keep its partitions
            continue
        records = [(r.partition, r.offset, r.value) for batch in polled.values() for r in batch]
        to_commit |= membership.consumed(records)
        if to_commit:
            places = {TopicPartition(told.topic, p): OffsetAndMetadata(o, "", -1) for p, o in to_commit.items()}
            try:
                consumer.commit(places)
            except KafkaError as problem:
                membership.say("commit_failed", text=repr(problem))
            else:
                membership.say("committed", offsets=to_commit)
                to_commit.clear()
    consumer.close()
    membership.say("closed")


def main() -> None:
    told = arguments()
    closing = threading.Event()
    threads = [threading.Thread(target=run, args=(told, each, closing)) for each in told.memberships]
    for thread in threads:
        thread.start()
    wait_for_close()
    closing.set()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
