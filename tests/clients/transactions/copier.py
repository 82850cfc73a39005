"""A member of a group that copies records exactly once, with confluent-kafka.

    python -m tests.clients.transactions.copier BOOTSTRAP GROUP PROTOCOL NAME

The programs in Java and Go take the same arguments. PROTOCOL is that of the group: `classic`, or `consumer` (KIP-848).
A copier reads the topic `originals`, writes PARTITION:OFFSET of each record to the same partition of `copies`, and
commits its offsets in the same transaction. What goes wrong it tells on standard output, as "trouble ...". When its
transaction cannot be committed it aborts, and reads again from what is committed. When it cannot go on it ends, and
whoever supervises it starts it again.
"""

from __future__ import annotations

import sys
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

ORIGINALS, COPIES = "originals", "copies"
TIMEOUT_MS = 10_000
SESSION_MS = 6_000
PATIENCE_S = 60
RECORDS = 50  # in a transaction, at most


def settings_of_group(group: str, protocol: str) -> dict[str, Any]:
    settings: dict[str, Any] = {"group.id": group, "group.protocol": protocol}
    if protocol == "classic":
        settings |= {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 500}
    return settings


class Copier:
    def __init__(self, bootstrap: str, group: str, protocol: str, name: str) -> None:
        common = {
            "bootstrap.servers": bootstrap, "client.id": name, "reconnect.backoff.max.ms": 500, "log_level": 0,
            # With the default, rebootstrap, it may hang when the broker comes back: docs/clients.md, known problems.
            "metadata.recovery.strategy": "none",
        }  # fmt: skip
        self._consumer = Consumer({
            **common, **settings_of_group(group, protocol), "isolation.level": "read_committed",
            "enable.auto.commit": False, "auto.offset.reset": "earliest",
        })  # fmt: skip
        self._producer = Producer({
            **common, "transactional.id": name, "transaction.timeout.ms": TIMEOUT_MS, "linger.ms": 0,
        })  # fmt: skip

    def run(self) -> None:
        again(self._producer.init_transactions)
        self._consumer.subscribe([ORIGINALS])
        while True:
            found = [each for each in self._consumer.consume(RECORDS, 0.2) if each.error() is None]
            if found:
                self._copy(found)

    def _copy(self, records: list[Message]) -> None:
        try:
            self._producer.begin_transaction()
            for each in records:
                self._producer.produce(COPIES, f"{each.partition()}:{each.offset()}", partition=each.partition() or 0)
            metadata = self._consumer.consumer_group_metadata()
            again(self._producer.send_offsets_to_transaction, behind(records), metadata)
            again(self._producer.commit_transaction)
        except KafkaException as problem:
            error: KafkaError = problem.args[0]
            say(error)
            if error.fatal():
                raise
            again(self._producer.abort_transaction)
            self._rewind()

    def _rewind(self) -> None:
        """To the committed offsets of what this member still has."""
        assigned = self._consumer.assignment()
        for each in self._consumer.committed(assigned, timeout=PATIENCE_S):
            each.offset = max(each.offset, 0)
            try:
                self._consumer.seek(each)
            except KafkaException as problem:  # it was just taken away
                say(problem.args[0])


def behind(records: list[Message]) -> list[TopicPartition]:
    ends = {each.partition(): (each.offset() or 0) + 1 for each in records}
    return [TopicPartition(ORIGINALS, partition or 0, end) for partition, end in ends.items()]


def again(action: Any, *arguments: Any) -> None:
    """As the documentation of the client tells: what is retriable is called again."""
    while True:
        try:
            action(*arguments, PATIENCE_S)
            return
        except KafkaException as problem:
            if not problem.args[0].retriable():
                raise
            say(problem.args[0])


def say(error: KafkaError) -> None:
    print("trouble", error.name(), flush=True)


if __name__ == "__main__":
    Copier(*sys.argv[1:]).run()
