"""A consumer process that follows orders. `Member` starts it and sends orders; the rest of this file is the process.

The process consumes and commits on its own. Orders are lines on its standard input: `rewind N` goes back N records on
each of its partitions and commits that; `commit PARTITION OFFSET` commits for a partition, owned or not. When the input
ends, it leaves the group. It reports what happens as JSON lines.
"""

from __future__ import annotations

import argparse
import json
import logging
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

PATIENCE_S = 120
POLL_MS = 50
HEARTBEAT_MS = 100


class Member:
    """Starts the process and sends orders to it."""

    def __init__(
        self, address: str, group: str, topic: str, name: str, *, assignor: str = "range", session_ms: int = 2_000,
        instance: str | None = None,
    ) -> None:  # fmt: skip
        self.name = name
        command = [
            sys.executable,
            "-m",
            "kohort.audit.sample.member",
            address,
            group,
            topic,
            name,
            assignor,
            str(session_ms),
        ]
        self._process = subprocess.Popen(
            [*command, *([instance] if instance else [])], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.partitions: frozenset[int] = frozenset()
        self.committed: dict[int, int] = {}
        self._assigned_times = 0
        self._news = threading.Condition()
        self._over = False
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._hear(json.loads(line))
        with self._news:
            self._over = True
            self._news.notify_all()

    def _hear(self, told: dict[str, Any]) -> None:
        with self._news:
            if "assigned" in told:
                self.partitions = frozenset(told["assigned"])
                self._assigned_times += 1
            else:
                self.committed |= {int(partition): offset for partition, offset in told["committed"].items()}
            self._news.notify_all()

    def wait(self, what: str, is_so: Callable[[Member], bool]) -> None:
        with self._news:
            self._news.wait_for(lambda: is_so(self) or self._over, PATIENCE_S)
            if not is_so(self):
                raise RuntimeError(f"{self.name} did not get to {what}; it has {sorted(self.partitions)}")

    def wait_for_partitions(self, count: int) -> None:
        self.wait(f"{count} partitions", lambda member: len(member.partitions) == count and member._assigned_times > 0)

    def wait_until_assigned(self) -> None:
        self.wait("an answer", lambda member: member._assigned_times > 0)

    def wait_for_offsets(self, total: int) -> None:
        """Wait until the committed offsets of its present partitions add up to `total`."""
        self.wait(
            f"{total} records committed",
            lambda member: sum(member.committed.get(each, 0) for each in member.partitions) >= total,
        )

    def rewind(self, count: int) -> None:
        """Go back on all of its partitions. It then consumes and commits the same records again."""
        self._order("rewind", count)

    def commit(self, partition: int, offset: int) -> None:
        self._order("commit", partition, offset)
        self.wait("its commit", lambda member: member.committed.get(partition) == offset)

    def crash(self) -> None:
        self._process.kill()
        self.leave()

    def leave(self) -> None:
        """Close its input: it then closes its consumer and leaves the group. Nothing to do if it has ended already."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE_S)
        self._listener.join()

    def _order(self, *words: object) -> None:
        assert self._process.stdin is not None
        print(*words, file=self._process.stdin, flush=True)


class _Consumer:
    """The consumer inside the process."""

    def __init__(self, told: argparse.Namespace) -> None:
        from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
        from kafka.coordinator.assignors.range import RangePartitionAssignor
        from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

        self._topic = told.topic
        self._place: Callable[[str, int], Any] = TopicPartition
        assignor = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}[told.assignor]
        self._consumer = KafkaConsumer(
            bootstrap_servers=told.address, client_id=told.name, group_id=told.group, group_instance_id=told.instance,
            partition_assignment_strategy=[assignor], session_timeout_ms=told.session_ms,
            heartbeat_interval_ms=HEARTBEAT_MS, enable_auto_commit=False, auto_offset_reset="earliest",
            fetch_max_wait_ms=POLL_MS, retry_backoff_ms=20,
        )  # fmt: skip

        class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
            def on_partitions_revoked(self, revoked: Any) -> None: ...

            def on_partitions_assigned(self, assigned: Any) -> None:
                _say(assigned=[each.partition for each in assigned])

        self._consumer.subscribe([told.topic], listener=Listener())
        self._orders: queue.SimpleQueue[list[str]] = queue.SimpleQueue()
        threading.Thread(target=self._read_orders, daemon=True).start()

    def _read_orders(self) -> None:
        for line in sys.stdin:
            self._orders.put(line.split())
        self._orders.put([])

    def run(self) -> None:
        while True:
            polled = self._consumer.poll(timeout_ms=POLL_MS)
            ends = {place: records[-1].offset + 1 for place, records in polled.items()}
            if ends:
                self._commit({place.partition: offset for place, offset in ends.items()})
            while not self._orders.empty():
                match self._orders.get():
                    case ["rewind", count]:
                        self._rewind(int(count))
                    case ["commit", partition, offset] as order:
                        if not self._commit({int(partition): int(offset)}):
                            self._orders.put(order)
                            break  # a rebalance is going on: poll first, which takes part in it
                    case []:
                        self._consumer.close()
                        return

    def _rewind(self, count: int) -> None:
        back = {place: max(0, self._consumer.position(place) - count) for place in self._consumer.assignment()}
        for place, offset in back.items():
            self._consumer.seek(place, offset)
        self._commit({place.partition: offset for place, offset in back.items()})

    def _commit(self, offsets: dict[int, int]) -> bool:
        """Commit. False: the broker refused it."""
        from kafka.errors import KafkaError
        from kafka.structs import OffsetAndMetadata

        places = {self._place(self._topic, part): OffsetAndMetadata(offset, "", -1) for part, offset in offsets.items()}
        try:
            self._consumer.commit(places)
        except KafkaError:
            return False  # because of a rebalance; the next owner will commit
        _say(committed=offsets)
        return True


def _say(**told: Any) -> None:
    print(json.dumps(told), flush=True)


def main() -> None:
    logging.getLogger("kafka").addHandler(logging.NullHandler())
    logging.getLogger("kafka").propagate = False
    parser = argparse.ArgumentParser()
    for name in ("address", "group", "topic", "name", "assignor"):
        parser.add_argument(name)
    parser.add_argument("session_ms", type=int)
    parser.add_argument("instance", nargs="?")
    _Consumer(parser.parse_args()).run()


if __name__ == "__main__":
    main()
