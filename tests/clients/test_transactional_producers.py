"""Kohort has no transactions. Clients learn that at once: they give up after one answer."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import TransactionalIdAuthorizationFailed
from confluent_kafka import KafkaError, KafkaException, Producer
from kafka import KafkaProducer
from kafka.errors import TransactionalIdAuthorizationFailedError

from tests.clients.kohort import KohortProcess

PATIENCE_S = 60  # no client should need it


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KohortProcess]:
    with KohortProcess(tmp_path_factory.mktemp("transactions"), "--log-level", "debug") as running:
        yield running


def refusals(broker: KohortProcess, transactional_id: str) -> int:
    """How often the broker refused this client, by its log. Its client id is its transactional id."""
    log = broker.log.read_text()
    assert log.count(f"asked for the transactional id '{transactional_id}': Kohort has no transactions.") == 1
    line = (
        f"request api=InitProducerId .* client_id='{transactional_id}' .* error=TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
    )
    return len(re.findall(line, log))


def test_confluent_kafka_gives_up_after_one_answer(broker: KohortProcess) -> None:
    producer = Producer(
        {"bootstrap.servers": broker.address, "transactional.id": "confluent", "client.id": "confluent"}
    )
    with pytest.raises(KafkaException) as refused:
        producer.init_transactions(PATIENCE_S)
    error = refused.value.args[0]
    assert (error.code(), error.fatal()) == (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, True)
    assert refusals(broker, "confluent") == 1


def test_kafka_python_gives_up_after_one_answer(broker: KohortProcess) -> None:
    producer = KafkaProducer(
        bootstrap_servers=broker.address,
        client_id="kafka-python",
        transactional_id="kafka-python",
        max_block_ms=PATIENCE_S * 1000,
    )
    with pytest.raises(TransactionalIdAuthorizationFailedError):
        producer.init_transactions()
    producer.close(timeout=0)
    assert refusals(broker, "kafka-python") == 1


def test_aiokafka_gives_up_after_one_answer(broker: KohortProcess) -> None:
    async def start() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=broker.address, client_id="aiokafka", transactional_id="aiokafka")
        try:
            await asyncio.wait_for(producer.start(), PATIENCE_S)
        finally:
            await producer.stop()

    with pytest.raises(TransactionalIdAuthorizationFailed):
        asyncio.run(start())
    assert refusals(broker, "aiokafka") == 1
