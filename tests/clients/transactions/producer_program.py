"""Transactional producers that do what standard input says; written with confluent-kafka, kafka-python or aiokafka.

    python -m tests.clients.transactions.producer_program CLIENT BOOTSTRAP

The programs in Java and Go take and say the same. One line is one command to one producer:

    NAME open TRANSACTIONAL_ID TIMEOUT_MS       makes it, and initializes its transactions
    NAME begin
    NAME send TOPIC PARTITION VALUE             and waits until it is acknowledged
    NAME offsets GROUP TOPIC PARTITION OFFSET   adds a committed offset to the transaction
    NAME commit
    NAME abort
    NAME close

Each is answered with a line of JSON: {"ok": true}, or {"error": what the client says}.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable
from typing import Any

import aiokafka
import kafka
from aiokafka import AIOKafkaProducer
from aiokafka import errors as aiokafka_errors
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import errors as kafka_errors

PATIENCE_S = 60
PATIENCE_MS = PATIENCE_S * 1000


class Failed(Exception):
    """The client has said no."""


# --- confluent-kafka


class ConfluentProducer:
    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        self._bootstrap = bootstrap
        self._failures: list[KafkaError] = []
        self._producer = Producer({
            "bootstrap.servers": bootstrap, "transactional.id": transactional_id, "client.id": transactional_id,
            "transaction.timeout.ms": timeout_ms, "linger.ms": 0, "log_level": 0,
        })  # fmt: skip
        self._try(self._producer.init_transactions, PATIENCE_S)

    def _try(self, action: Any, *arguments: Any) -> None:
        try:
            action(*arguments)
        except KafkaException as problem:
            raise Failed(problem.args[0].name()) from None

    def begin(self) -> None:
        self._try(self._producer.begin_transaction)

    def send(self, topic: str, partition: int, value: str) -> None:
        self._failures.clear()
        self._try(lambda: self._producer.produce(topic, value.encode(), partition=partition, on_delivery=self._told))
        assert self._producer.flush(PATIENCE_S) == 0
        if self._failures:
            raise Failed(self._failures[0].name())

    def _told(self, error: KafkaError | None, message: object) -> None:
        if error is not None:
            self._failures.append(error)

    def offsets(self, group: str, topic: str, partition: int, offset: int) -> None:
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": group, "log_level": 0})
        metadata = consumer.consumer_group_metadata()
        place = ConfluentPartition(topic, partition, offset)
        self._try(self._producer.send_offsets_to_transaction, [place], metadata, PATIENCE_S)
        consumer.close()

    def commit(self) -> None:
        self._try(self._producer.commit_transaction, PATIENCE_S)

    def abort(self) -> None:
        self._try(self._producer.abort_transaction, PATIENCE_S)

    def close(self) -> None:
        self._producer.flush(0)


# --- kafka-python


class KafkaPythonProducer:
    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap, client_id=transactional_id, transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms, max_block_ms=PATIENCE_MS, linger_ms=0,
        )  # fmt: skip
        self._try(self._producer.init_transactions)

    def _try(self, action: Any, *arguments: Any) -> None:
        try:
            action(*arguments)
        except (kafka_errors.KafkaError, ValueError) as problem:
            raise Failed(type(problem).__name__) from None

    def begin(self) -> None:
        self._try(self._producer.begin_transaction)

    def send(self, topic: str, partition: int, value: str) -> None:
        self._try(lambda: self._producer.send(topic, value.encode(), partition=partition).get(PATIENCE_S))

    def offsets(self, group: str, topic: str, partition: int, offset: int) -> None:
        offsets = {kafka.TopicPartition(topic, partition): kafka.structs.OffsetAndMetadata(offset, "", -1)}
        self._try(self._producer.send_offsets_to_transaction, offsets, group)

    def commit(self) -> None:
        self._try(self._producer.commit_transaction)

    def abort(self) -> None:
        self._try(self._producer.abort_transaction)

    def close(self) -> None:
        self._producer.close(timeout=0)


# --- aiokafka


class AiokafkaProducer:
    """Its event loop runs while it does what it was told, and stands still meanwhile."""

    loop = asyncio.new_event_loop()

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        async def start() -> None:
            self._producer = AIOKafkaProducer(
                bootstrap_servers=bootstrap, client_id=transactional_id, transactional_id=transactional_id,
                transaction_timeout_ms=timeout_ms, linger_ms=0,
            )  # fmt: skip
            await self._producer.start()

        self._try(start())

    def _try(self, action: Awaitable[object]) -> None:
        async def patiently() -> object:
            return await asyncio.wait_for(action, PATIENCE_S)

        try:
            self.loop.run_until_complete(patiently())
        except (aiokafka_errors.KafkaError, AssertionError) as problem:  # AssertionError: abort after a fatal error
            raise Failed(type(problem).__name__) from None

    def begin(self) -> None:
        self._try(self._producer.begin_transaction())

    def send(self, topic: str, partition: int, value: str) -> None:
        self._try(self._producer.send_and_wait(topic, value.encode(), partition=partition))

    def offsets(self, group: str, topic: str, partition: int, offset: int) -> None:
        offsets = {aiokafka.TopicPartition(topic, partition): offset}
        self._try(self._producer.send_offsets_to_transaction(offsets, group))

    def commit(self) -> None:
        self._try(self._producer.commit_transaction())

    def abort(self) -> None:
        self._try(self._producer.abort_transaction())

    def close(self) -> None:
        self._try(self._producer.stop())


# --- the program

AnyProducer = ConfluentProducer | KafkaPythonProducer | AiokafkaProducer
CLIENTS: dict[str, type[AnyProducer]] = {
    "confluent": ConfluentProducer,
    "kafka_python": KafkaPythonProducer,
    "aiokafka": AiokafkaProducer,
}


def obey(producers: dict[str, AnyProducer], client: str, bootstrap: str, name: str, command: list[str]) -> None:
    match command:
        case ["open", transactional_id, timeout_ms]:
            producers[name] = CLIENTS[client](bootstrap, transactional_id, int(timeout_ms))
        case ["send", topic, partition, value]:
            producers[name].send(topic, int(partition), value)
        case ["offsets", group, topic, partition, offset]:
            producers[name].offsets(group, topic, int(partition), int(offset))
        case [("begin" | "commit" | "abort" | "close") as action]:
            getattr(producers[name], action)()
        case _:
            raise AssertionError(command)


def main(client: str, bootstrap: str) -> None:
    producers: dict[str, AnyProducer] = {}
    for line in sys.stdin:
        name, *command = line.split()
        try:
            obey(producers, client, bootstrap, name, command)
        except Failed as failed:
            print(json.dumps({"error": str(failed)}), flush=True)
        else:
            print(json.dumps({"ok": True}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
