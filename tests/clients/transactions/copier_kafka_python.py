"""The same as copier.py with kafka-python, in groups of the classic protocol."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError, KafkaTimeoutError
from kafka.structs import OffsetAndMetadata

from tests.clients.transactions.copier import COPIES, ORIGINALS, PATIENCE_S, RECORDS, SESSION_MS, TIMEOUT_MS

POLL_MS = 1_000  # with short polls a member may stay in its rebalance for ever: docs/clients.md, known client problems


class Copier:
    def __init__(self, bootstrap: str, group: str, protocol: str, name: str) -> None:
        assert protocol == "classic"
        common = {"bootstrap_servers": bootstrap, "client_id": name, "reconnect_backoff_max_ms": 500}
        self._consumer = KafkaConsumer(
            ORIGINALS, **common, group_id=group, session_timeout_ms=SESSION_MS, heartbeat_interval_ms=500,
            isolation_level="read_committed", enable_auto_commit=False, auto_offset_reset="earliest",
            max_poll_records=RECORDS,
        )  # fmt: skip
        self._producer = KafkaProducer(
            **common, transactional_id=name, transaction_timeout_ms=TIMEOUT_MS, linger_ms=0,
            max_block_ms=PATIENCE_S * 1000,
        )  # fmt: skip

    def run(self) -> None:
        self._producer.init_transactions()
        while True:
            found = self._consumer.poll(POLL_MS)
            if found:
                self._copy(found)

    def _copy(self, records: dict[TopicPartition, list[Any]]) -> None:
        try:
            self._producer.begin_transaction()
            sent = [
                self._producer.send(COPIES, f"{each.partition}:{each.offset}".encode(), partition=each.partition)
                for each in each_of(records)
            ]
            behind = {place: OffsetAndMetadata(found[-1].offset + 1, "", -1) for place, found in records.items()}
            self._producer.send_offsets_to_transaction(behind, self._consumer.group_metadata())
            for each in sent:
                each.get(PATIENCE_S)
            self._producer.commit_transaction()
        except KafkaError as problem:
            say(problem)
            if isinstance(problem, KafkaTimeoutError) or self._producer._transaction_manager.has_fatal_error():
                raise
            self._producer.abort_transaction()
            self._rewind()

    def _rewind(self) -> None:
        """To the committed offsets of what this member still has."""
        for place in self._consumer.assignment():
            self._consumer.seek(place, self._consumer.committed(place) or 0)


def each_of(records: dict[TopicPartition, list[Any]]) -> Iterable[Any]:
    for found in records.values():
        yield from found


def say(problem: Exception) -> None:
    print("trouble", type(problem).__name__, str(problem).replace("\n", " "), flush=True)


if __name__ == "__main__":
    Copier(*sys.argv[1:]).run()
